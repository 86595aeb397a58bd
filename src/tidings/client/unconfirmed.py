"""Publications that the broker has not confirmed yet: what is sent again after a reconnection, and who waits."""

import asyncio
from collections.abc import Iterator

from tidings.client.answers import again, retrieved
from tidings.errors import TidingsError
from tidings.protocols.frames import encode_publish

PERHAPS_SENT = 1  # flag of a PUBLISH frame
UNCONFIRMED_MAX = 1000  # publications under way before the next one waits


class Unconfirmed:
    def __init__(self) -> None:
        self._entries: dict[int, tuple[bytes, int, asyncio.Future[None]]] = {}  # receipt -> message, session, ...
        self._room = asyncio.Event()
        self._room.set()

    @property
    def full(self) -> bool:
        return len(self._entries) >= UNCONFIRMED_MAX

    async def room(self) -> None:
        """Wait until some are confirmed, or all are given up."""
        self._room.clear()
        await self._room.wait()

    def add(self, receipt: int, message: bytes, session: int, future: "asyncio.Future[None]") -> None:
        self._entries[receipt] = (message, session, future)
        future.add_done_callback(retrieved)

    def confirm(self, receipt: int, error: TidingsError | None) -> None:
        entry = self._entries.pop(receipt, None)
        if entry is not None and not entry[2].done():
            if error is None:
                entry[2].set_result(None)
            else:
                entry[2].set_exception(again(error))
        if not self.full:
            self._room.set()

    def futures(self) -> "list[asyncio.Future[None]]":
        return [future for _, _, future in self._entries.values()]

    def frames(self) -> Iterator[bytes]:
        """To be sent again on a new connection."""
        for receipt, (message, session, _) in self._entries.items():
            if session == 0:
                yield encode_publish(receipt, message, session, PERHAPS_SENT)

    def lost(self, error: TidingsError) -> None:
        """The connection is gone, and with it the transactions on it."""
        for receipt, (_, session, future) in list(self._entries.items()):
            if session and not future.done():
                self._entries.pop(receipt)
                future.set_exception(again(error))

    def give_up(self, error: TidingsError) -> None:
        for future in self.futures():
            if not future.done():
                future.set_exception(again(error))
        self._entries.clear()
        self._room.set()
