"""Asks all brokers once a second, and keeps what they said: the present view, and rates of the last minutes."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tidings.console.queue_history import EVERY_SECONDS, QUEUES, QueueHistory
from tidings.console.source import Source
from tidings.console.view import BrokerRates, BrokerState, NetworkSnapshot, Overview, Said, network_view
from tidings.errors import TidingsError

SECONDS = 1.0
HISTORY = 300  # moments that are kept


@dataclass(frozen=True, slots=True)
class Moment:
    at: float  # seconds since the epoch
    rates: BrokerRates


class BrokerWatch:
    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)
        self.view = NetworkSnapshot()
        self.history: deque[Moment] = deque(maxlen=HISTORY)
        self.queues = QueueHistory()
        self.rounds = 0  # of asking
        self._latest: dict[str, Overview] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*(source.close() for source in self.sources), return_exceptions=True)

    def source(self, url: str) -> Source:
        return next(source for source in self.sources if source.url == url)

    @property
    def refused(self) -> TidingsError | None:
        """The reason for which every broker refuses this user, if so."""
        errors = [source.refused for source in self.sources]
        return errors[0] if errors and all(errors) else None

    async def _run(self) -> None:
        if self.rounds:
            await asyncio.sleep(SECONDS)
        while True:
            began = time.monotonic()
            await self.look()
            await asyncio.sleep(max(0.1, SECONDS - (time.monotonic() - began)))

    async def look(self) -> None:
        """One round."""
        said = await asyncio.gather(*(self._ask(source) for source in self.sources))
        self.view = view = network_view(said)
        if self.rounds:  # rates need a moment before
            self.history.append(Moment(time.time(), view.rates))
        if self.rounds % round(EVERY_SECONDS / SECONDS) == 0:
            await asyncio.gather(*(self._ask_queues(one.url) for one in said if one.now is not None))
        self.rounds += 1

    async def _ask_queues(self, url: str) -> None:
        try:
            found = await self.source(url).inspect("mailboxes", count=QUEUES)
        except (TidingsError, OSError, TimeoutError):
            return  # the round says why it does not answer
        self.queues.add(url, found["items"], time.time())

    async def _ask(self, source: Source) -> Said:
        before = self._latest.get(source.url)
        try:
            now = await source.inspect()
        except TidingsError as error:
            state = BrokerState.FORBIDDEN if error.code == "E_FORBIDDEN" else BrokerState.LOST
            return Said(source.url, None, before, state, error.reason)
        except TimeoutError:
            return Said(source.url, None, before, BrokerState.LOST, "it does not answer")
        except OSError as error:
            return Said(source.url, None, before, BrokerState.LOST, error.strerror or str(error))
        self._latest[source.url] = now
        return Said(source.url, now, before)
