"""Lets waiting tasks through a few at a time, in order of arrival, while a condition holds.

With an `asyncio.Event` all waiting tasks would run each time there is room for one of them.
"""

import asyncio
from collections import deque
from collections.abc import Callable

FEW = 16  # each checks the condition again, so this may exceed the room


class Turnstile:
    def __init__(self, is_open: Callable[[], bool]) -> None:
        self._is_open = is_open
        self.waiting: deque[asyncio.Future[None]] = deque()

    async def passed(self) -> None:
        """Return when it is open and nobody waits who came before."""
        if not self.waiting and self._is_open():
            return
        place = self.waiting.append
        loop = asyncio.get_running_loop()
        while True:
            future: asyncio.Future[None] = loop.create_future()
            place(future)
            try:
                await future
            except asyncio.CancelledError:
                self._leave(future)
                raise
            if self._is_open():
                loop.call_soon(self.turn)  # the next ones follow when this one has done what it waited for
                return
            place = self.waiting.appendleft

    def turn(self) -> None:
        """The condition may hold now: let the next ones through."""
        for _ in range(min(FEW, len(self.waiting))):
            if not self._is_open():
                return
            future = self.waiting.popleft()
            if not future.done():
                future.set_result(None)

    def _leave(self, future: "asyncio.Future[None]") -> None:
        if future in self.waiting:
            self.waiting.remove(future)
        self.turn()  # it may have been its turn
