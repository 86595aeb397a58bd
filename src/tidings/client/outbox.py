"""Publications on their way out: sent, confirmed, or not yet; those are sent again after a reconnection."""

import asyncio
from collections.abc import Callable, Iterator

from tidings.client.answers import Receipt, again, retrieved
from tidings.client.line import Line
from tidings.errors import LimitError, TidingsError
from tidings.model.message_id import MessageId
from tidings.protocols.frames import encode_publish

PERHAPS_SENT = 1  # flag of a PUBLISH frame
UNCONFIRMED_MAX = 1000  # publications under way before the next one waits


class Outbox:
    def __init__(self, line: Line, next_receipt: Callable[[], int], check_session: Callable[[int], None]) -> None:
        """`check_session` raises if a transaction's session can take no more."""
        self._line = line
        self._next_receipt = next_receipt
        self._check_session = check_session
        self._entries: dict[int, tuple[bytes, int, asyncio.Future[None]]] = {}  # receipt -> message, session, ...
        self._room = asyncio.Event()
        self._room.set()

    async def send(self, message: bytes, message_id: MessageId, session: int, *, confirm: bool) -> Receipt:
        """Returns when it is on its way; without a connection, which may come back, it is so only with `confirm`."""
        if len(message) + 4 > self._line.frame_bytes_max:
            limit = self._line.frame_bytes_max
            raise LimitError("E_MESSAGE_SIZE", f"a message of {len(message)} bytes: the broker takes at most {limit}")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        number = 0
        while confirm and len(self._entries) >= UNCONFIRMED_MAX:
            self._room.clear()
            await self._room.wait()  # until some are confirmed, or all are given up
            self._line.check_open()
        if session:
            self._check_session(session)
        if confirm:
            number = self._next_receipt()
            self._entries[number] = (message, session, future)
            future.add_done_callback(retrieved)
        else:
            future.set_result(None)
        if (link := self._line.link) is not None:
            link.write(encode_publish(number, message, session, 0))
            await link.drained()
        return Receipt(message_id, future)

    def confirm(self, receipt: int, error: TidingsError | None) -> None:
        entry = self._entries.pop(receipt, None)
        if entry is not None and not entry[2].done():
            if error is None:
                entry[2].set_result(None)
            else:
                entry[2].set_exception(again(error))
        if len(self._entries) < UNCONFIRMED_MAX:
            self._room.set()

    def unconfirmed(self) -> "list[asyncio.Future[None]]":
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
        for future in self.unconfirmed():
            if not future.done():
                future.set_exception(again(error))
        self._entries.clear()
        self._room.set()
