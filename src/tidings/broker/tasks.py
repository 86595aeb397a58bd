"""What a broker does by itself beside serving clients: none of it ends unnoticed.

A fault of ours in such work is logged. What is done again and again goes on (`Steps`); should something that a broker
cannot do without end all the same, the broker says so in /health (`Tasks.failure`), for whoever restarts it.
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
        self.failure = ""  # what has ended that had to go on
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[None, None, None], essential: str = "") -> None:
        """`essential`: the name of something without which the broker is not what it should be."""
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
            log.error("a task of the broker failed", exc_info=error)
        if essential and not self.failure:
            self.failure = f"{essential} has ended"


class Steps:
    """Things that are done one after the other: if one fails, the others are done all the same."""

    def __init__(self) -> None:
        self._logged: dict[str, float] = {}

    @contextmanager
    def going_on(self, what: str) -> Iterator[None]:
        """Around one of them."""
        try:
            yield
        except Exception:
            now = asyncio.get_running_loop().time()
            if now - self._logged.get(what, -LOGGED_SECONDS) >= LOGGED_SECONDS:
                self._logged[what] = now
                log.exception("an error inside the broker (%s); it goes on", what)

    def do(self, what: str, work: Callable[[*Ts], None], *arguments: *Ts) -> None:
        with self.going_on(what):
            work(*arguments)
