"""Publications on their way out: waiting for room, sent, confirmed.

Those with a receipt are kept until it comes, and sent again after a reconnection, marked as perhaps sent before. Of
those without one it is known how many the broker has surely read (`tidings.client.connection.progress`).

Memory is bounded: a publication waits, before it is accepted, while the socket takes nothing more (64 KiB are gathered,
and 64 KiB wait in the transport), and with a receipt while `UNCONFIRMED_MAX` or `UNCONFIRMED_BYTES_MAX` are under way.
What was accepted is written in the same step, so whoever is cancelled while waiting has sent nothing.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from tidings.client.connection.answers import Receipt, again, retrieved
from tidings.client.connection.reconnecting_connection import ReconnectingConnection
from tidings.client.connection.transport import GATHER_BYTES, Transport
from tidings.client.connection.turnstile import Turnstile
from tidings.client.message_builder import now_ms
from tidings.errors import ConnectionLostError, LimitError, TidingsError
from tidings.model.codec import ID
from tidings.model.message_id import MessageId
from tidings.protocols.native.frames import encode_publish

PERHAPS_SENT = 1  # flag of a PUBLISH frame
UNCONFIRMED_MAX = 1000  # publications under way before the next one waits
UNCONFIRMED_BYTES_MAX = 16 << 20  # and their bytes; a larger message goes alone


class Outbox:
    def __init__(
        self, line: ReconnectingConnection, next_receipt: Callable[[], int], check_session: Callable[[int], None]
    ) -> None:
        """`check_session` raises if a transaction's session can take no more."""
        self._line = line
        self._next_receipt = next_receipt
        self._check_session = check_session
        self._entries: dict[int, tuple[bytes, int, asyncio.Future[None]]] = {}  # receipt -> message, session, ...
        self._entries_bytes = 0
        self._turn_bytes = 0  # since other tasks had a turn
        self._sent: asyncio.Future[None] | None = None  # a confirmation of what needs none
        self._room = Turnstile(self._has_room)
        self._confirm_room = Turnstile(lambda: self._few() and self._has_room())
        self._settled = Turnstile(lambda: not self.pending or line.closed is not None)
        self._unsent = 0  # lost with a connection

    # --- sending --------------------------------------------------------------------------------------------------

    async def send(self, message: bytes, message_id: MessageId, session: int, *, confirm: bool) -> Receipt:
        """Returns when it is on its way. Now and then other tasks have a turn, such as those that read."""
        if len(message) + 4 > self._line.frame_bytes_max:
            limit = self._line.frame_bytes_max
            raise LimitError("E_MESSAGE_SIZE", f"message of {len(message)} bytes exceeds the broker's limit of {limit}")
        if self._turn_bytes > GATHER_BYTES:
            self._turn_bytes = 0
            await asyncio.sleep(0)
        link = self._line.link
        if link is None or not link.writable or self._room.waiting:
            await self._room.passed()
            self._line.check_open()
        if confirm and (self._confirm_room.waiting or not self._few()):
            await self._confirm_room.passed()
            self._line.check_open()
        if session:
            self._check_session(session)
        ids = self._line.ids  # made for another broker while this call waited: it has moved like what is sent again
        flags = PERHAPS_SENT if ids is not None and ids.broker != message_id.broker else 0
        return Receipt(message_id, self._write(message, session, flags, confirm=confirm))

    async def send_encoded(self, messages: Sequence[bytes], session: int) -> int:
        """Gives ids to encoded messages and sends as many of them as have one of the same millisecond, without
        receipts; returns their number, which may be 0."""
        await asyncio.sleep(0)
        link = self._line.link
        if link is None or not link.writable or self._room.waiting:
            await self._room.passed()
            self._line.check_open()
        self._check_session(session)
        link, ids = self._line.link, self._line.ids
        assert link is not None
        assert ids is not None
        now = now_ms()
        taken = ids.take(now, len(messages))
        if not taken:
            await asyncio.sleep(ids.wait_ms(now) / 1000)
            return 0
        limit = self._line.frame_bytes_max
        chosen = messages[: len(taken)]
        if max(map(len, chosen)) + 4 > limit:
            size = max(map(len, chosen))
            raise LimitError("E_MESSAGE_SIZE", f"message of {size} bytes exceeds the broker's limit of {limit}")
        link.progress.sent += len(taken)
        start, end = ID.start, ID.stop
        pairs = zip(chosen, taken, strict=True)
        link.write(b"".join([encode_publish(0, one[:start] + id + one[end:], session) for one, id in pairs]))
        return len(taken)

    def _write(self, message: bytes, session: int, flags: int, *, confirm: bool) -> "asyncio.Future[None]":
        link = self._line.link
        assert link is not None
        number = 0
        if confirm:
            number = self._next_receipt()
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.add_done_callback(retrieved)
            self._entries[number] = (message, session, future)
            self._entries_bytes += len(message)
        else:
            link.progress.sent += 1
            future = self._done()
        link.write(encode_publish(number, message, session, flags))
        self._turn_bytes += len(message)
        return future

    def _done(self) -> "asyncio.Future[None]":
        if self._sent is None or self._sent.get_loop() is not asyncio.get_running_loop():
            self._sent = asyncio.get_running_loop().create_future()
            self._sent.set_result(None)
        return self._sent

    def _has_room(self) -> bool:
        link = self._line.link
        return self._line.closed is not None or (link is not None and link.writable)

    def _few(self) -> bool:
        return len(self._entries) < UNCONFIRMED_MAX and self._entries_bytes < UNCONFIRMED_BYTES_MAX

    def turn(self) -> None:
        """Wake waiting calls whose condition may hold now."""
        self._room.turn()
        self._confirm_room.turn()
        self._settled.turn()

    # --- the broker's answers -------------------------------------------------------------------------------------

    def confirm(self, receipt: int, error: TidingsError | None) -> None:
        entry = self._entries.pop(receipt, None)
        if entry is None:
            return
        message, _, future = entry
        self._entries_bytes -= len(message)
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(again(error))
        if self._confirm_room.waiting:
            self._confirm_room.turn()
        if self._settled.waiting:
            self._settled.turn()

    def answered(self) -> None:
        """A PONG has come."""
        if self._line.link is not None:
            self._line.link.progress.answered()
            self._settled.turn()

    @property
    def pending(self) -> int:
        """Publications that were accepted, and may not have reached the broker."""
        link = self._line.link
        return len(self._entries) + (link.progress.unread if link is not None else 0)

    async def settle(self, seconds: float) -> int:
        """Wait until the broker has all that was accepted. Returns how many of that may not have reached it."""
        self._unsent = 0
        try:
            async with asyncio.timeout(seconds):
                while self.pending and self._line.closed is None:
                    link = self._line.link
                    if link is not None and link.progress.unread and not link.progress.covered:
                        link.ping()
                    await self._settled.passed()
        except TimeoutError:
            pass
        return self._unsent + self.pending

    # --- connections ----------------------------------------------------------------------------------------------

    def frames(self) -> Iterator[bytes]:
        """To be sent again on a new connection."""
        for receipt, (message, session, _) in self._entries.items():
            if session == 0:
                yield encode_publish(receipt, message, session, PERHAPS_SENT)

    def lost(self, link: Transport, error: TidingsError) -> TidingsError | None:
        """The connection is gone, and with it the transactions on it. Returns what to say of publications that nobody
        waits for."""
        for receipt, (message, session, future) in list(self._entries.items()):
            if session:
                del self._entries[receipt]
                self._entries_bytes -= len(message)
                if not future.done():
                    future.set_exception(again(error))
        unread = link.progress.unread
        self._unsent += unread
        self.turn()
        return unsent(unread, error.reason) if unread else None

    def give_up(self, error: TidingsError) -> None:
        self._unsent += len(self._entries)
        for _, _, future in self._entries.values():
            if not future.done():
                future.set_exception(again(error))
        self._entries.clear()
        self._entries_bytes = 0
        self.turn()


def unsent(count: int, why: str) -> ConnectionLostError:
    what = "1 publication" if count == 1 else f"{count} publications"
    return ConnectionLostError("E_UNSENT", f"{what} may not have reached the broker: {why}")
