"""Runs background tasks of a broker, and makes sure that none of them ends unnoticed.

Bugs in such work are logged. Periodic work continues after an error (`Steps`); if a task ends that the broker cannot do
without, /health reports it (`Tasks.failure`), so that the broker is restarted.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TypeVarTuple

log = logging.getLogger("tidings.broker")

Ts = TypeVarTuple("Ts")
LOGGED_SECONDS = 60.0  # the same work is not logged as failed more often


class Tasks:
    def __init__(self) -> None:
        self.failure = ""  # essential task that has ended
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[None, None, None], essential: str = "") -> None:
        """`essential`: the name of a task that the broker cannot do without."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, essential))

    async def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None], essential: str) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("background task failed", exc_info=error)
        if essential and not self.failure:
            self.failure = f"{essential} has ended"


class Steps:
    """Runs work step by step: if one step fails, the others are carried out all the same."""

    def __init__(self) -> None:
        self._logged: dict[str, float] = {}

    @contextmanager
    def going_on(self, what: str) -> Iterator[None]:
        """Log an error of the step inside, and continue."""
        try:
            yield
        except Exception:
            now = asyncio.get_running_loop().time()
            if now - self._logged.get(what, -LOGGED_SECONDS) >= LOGGED_SECONDS:
                self._logged[what] = now
                log.exception("internal error in %s; the broker continues", what)

    def do(self, what: str, work: Callable[[*Ts], None], *arguments: *Ts) -> None:
        with self.going_on(what):
            work(*arguments)
