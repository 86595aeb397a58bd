"""A client's subscription: an asynchronous iterator over deliveries.

The broker sends at most as much as it has credit for; the client gives new credit as its user takes messages, half a
window at a time, so that neither side waits for the other and nothing piles up.

With ack="auto" a message counts as done when the next one is asked for, or when the subscription or the client is
closed; the broker hears of it in the same turn of the event loop. With ack="dups-ok" it hears of many at a time, so
that more come again after a failure. What waits here unseen when the subscription ends goes back as if it had never
been sent; what was seen and not acknowledged goes back too, and counts as tried.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from tidings.client.argument_checks import seconds
from tidings.client.connection.answers import again
from tidings.client.connection.own_echoes import OwnEcho
from tidings.client.connection.reconnecting_connection import ReconnectingConnection
from tidings.client.delivery import Delivery
from tidings.errors import LimitError, TidingsError
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.protocols.native.frames import (
    ACK_CUMULATIVE,
    ACK_DEAD,
    ACK_ELSEWHERE,
    ACK_RETRY,
    FrameType,
    control,
    encode_ack,
    encode_credit,
)

DROPPED_REASONS = {
    "oldest": "more waited than may, and the policy is drop-oldest",
    "newest": "more waited than may, and the policy is drop-newest",
    "stalled": "more waited than may, and none was taken for longer than the broker's stall_ms",
    "far": "more waited than may, and a publisher at another broker does not wait",
    "cost": "the filter took longer than a message may, so it is not known whether it matches",
}


class TransactionPart(Protocol):
    """The transaction that a subscription's acknowledgements belong to; implemented by `Transaction`."""

    @property
    def session(self) -> int: ...

    @property
    def lost(self) -> bool: ...

    def use(self) -> None: ...

    def check(self) -> None: ...

    def left(self, subscription: "Subscription") -> None: ...


class Subscription:
    """An asynchronous iterator over the deliveries of one subscription."""

    def __init__(
        self,
        line: ReconnectingConnection,
        number: int,
        fields: dict[str, Value],
        unsubscribe: Callable[[int], Awaitable[None]],
        echo: OwnEcho,
        *,
        window: int,
        transaction: TransactionPart | None = None,
    ) -> None:
        self.number = number
        self.window = window
        self.dropped = 0  # messages that the broker has dropped because this subscription did not keep up
        self.echo = echo
        self._line = line
        self._unsubscribe = unsubscribe
        self._transaction = transaction
        self._fields = fields
        self._auto = fields["ack"] != "client"
        self._lazy = fields["ack"] == "dups-ok"
        self._waiting: deque[Delivery] = deque()
        self._arrived = asyncio.Event()
        self._taken = 0  # since credit was last given
        self._current: list[Delivery] = []  # with the user, to be acknowledged when the next is asked for
        self._seen: dict[int, None] = {}  # tags of what the user has and must acknowledge, in the order of delivery
        self._done: list[int] = []
        self._flushing: asyncio.Handle | None = None
        self._repeats: set[MessageId] = set()  # after a move
        self._error: TidingsError | None = None
        self._closed = False
        self.active = False  # the broker has confirmed it once

    @property
    def destination(self) -> str:
        return str(self._fields["destination"])

    @property
    def closed(self) -> bool:
        return self._closed

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Delivery:
        delivery = await self.receive()
        if delivery is None:
            raise StopAsyncIteration
        return delivery

    async def __aenter__(self) -> "Subscription":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def receive(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None when the subscription is closed, or when `timeout` seconds have passed."""
        self._line.check_loop()
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + seconds("timeout", timeout)
        self._finish_current()
        while not self._waiting:
            if self._error is not None:
                raise again(self._error)
            if self._closed:
                return None
            self._flush()
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._arrived.wait()
            except TimeoutError:
                return None
        return self._take()

    def receive_nowait(self) -> Delivery | None:
        """The next message if there is one."""
        self._finish_current()
        return self._take() if self._waiting else None

    async def settle(self, delivery: Delivery, flags: int) -> None:
        """Send the user's verdict on a delivery to the broker; ignored for a delivery of an earlier connection."""
        self._line.check_loop()
        tag = delivery.need_tag()
        transacted = None if flags & (ACK_RETRY | ACK_DEAD) else self._transaction  # those act at once
        if transacted is not None:
            transacted.check()
        if delivery.generation != self._line.generation or not self._line.connected:
            return
        if transacted is not None:
            transacted.use()
        self._current = [one for one in self._current if one.tag != tag]
        for known in [one for one in self._seen if one <= tag] if flags & ACK_CUMULATIVE else (tag,):
            self._seen.pop(known, None)
        self._line.write(encode_ack(self.number, (tag,), flags, session=self._session))

    async def close(self) -> None:
        """End the subscription. A durable one goes on collecting at the broker."""
        if not self._closed:
            self._line.check_loop()
            self.leave(finished=True)
            self.return_seen()
            self.end()
            if self._transaction is not None:
                self._transaction.left(self)
            await self._unsubscribe(self.number)

    # --- for the client -------------------------------------------------------------------------------------------

    def request(self, receipt: int) -> bytes:
        """The frame that makes this subscription, at first and after each reconnection."""
        self._taken = 0
        room = max(self.window - len(self._waiting), 0)  # what nobody has taken yet is part of the window
        self.echo.begin(room)
        fields = {**self._fields, "subscription": self.number, "credit": room, "receipt": receipt}
        return control(FrameType.SUBSCRIBE, {**fields, "paused": self.window > 0 and not room})

    @property
    def plain(self) -> bool:
        """Nobody keeps its messages: it gets what comes while it is there."""
        fields = self._fields
        kept = fields["ack"] == "client" or fields["durable"] or fields["shared"] or fields["type"]
        return self.active and not (self._closed or kept or self.destination.startswith("queue:"))

    @property
    def no_local(self) -> bool:
        return bool(self._fields["no_local"])

    def request_everywhere(self, receipt: int) -> bytes:
        """The frame that makes it at another broker as well; answered when all brokers know it."""
        fields = {**self._fields, "subscription": self.number, "credit": self.window, "receipt": receipt}
        return control(FrameType.SUBSCRIBE, {**fields, "wait": "network"})

    def moved(self, messages: list[tuple[Message, int]], repeats: set[MessageId]) -> None:
        """The connection is another one, by which these came; these ids, which were here already, may come again."""
        self.echo.begin(self.window)
        self._taken = -len(self._waiting) - len(messages)  # credit was given for them already
        self._repeats = repeats
        for message, attempt in messages:
            self.deliver(message, attempt, 0)

    def settled(self) -> None:
        """Nothing comes again any more."""
        self._repeats = set()

    def deliver(self, message: Message, attempt: int, tag: int) -> None:
        if self._repeats and message.id in self._repeats:
            self._taken += 1
            return
        self._waiting.append(Delivery(self, message, attempt, tag, self._line.generation))
        self.echo.received()
        self._arrived.set()

    def lost(self, count: int, reason: str) -> TidingsError:
        """Count messages that the broker has dropped; returns the error that reports them."""
        self.dropped += count
        what = self.destination or str(self._fields["type"])
        messages = "1 message was" if count == 1 else f"{count} messages were"
        why = DROPPED_REASONS.get(reason, reason or "the broker gave no reason")
        return LimitError("E_DROPPED", f"subscription {self.number} to {what}: {messages} dropped: {why}")

    def disconnected(self) -> None:
        """Forget waiting messages that must be acknowledged: the broker delivers them again."""
        self._forget_waiting()
        self._seen.clear()
        self._done.clear()
        self._current.clear()

    def put_back(self, delivery: Delivery) -> None:
        """Make it the next message again: the call that asked for it was interrupted."""
        if self._closed or (delivery.tag and delivery.generation != self._line.generation):
            return  # returned already, or delivered again by the broker
        self._current = [one for one in self._current if one.tag != delivery.tag]
        self._seen.pop(delivery.tag, None)
        self._taken -= 1
        self._waiting.appendleft(delivery)
        self._arrived.set()

    def finish(self) -> None:
        """Acknowledge all messages handed to the user, at once."""
        self._finish_current()
        self._flush()

    def leave(self, *, finished: bool) -> None:
        """Send acknowledgements before the client closes; `finished`: including the message in the user's hands."""
        self._taken = 0  # give no more credit
        if finished:
            self._finish_current()
        self._flush()

    def return_seen(self) -> None:
        """Return seen messages before UNSUBSCRIBE returns the unseen ones: only seen ones count as tried."""
        self._retry([*self._take_unfinished(), *self._seen], ACK_RETRY | ACK_ELSEWHERE)
        self._seen.clear()

    def retry_unfinished(self) -> None:
        """Return messages that would have been acknowledged automatically, for redelivery."""
        self._retry(self._take_unfinished(), ACK_RETRY)

    def end(self, error: TidingsError | None = None) -> None:
        self._closed, self._error = True, error
        self.echo.stop()
        self._forget_waiting()
        self._arrived.set()

    # --- acknowledgement and credit -------------------------------------------------------------------------------

    @property
    def _session(self) -> int:
        return 0 if self._transaction is None else self._transaction.session

    def _take(self) -> Delivery:
        delivery = self._waiting.popleft()
        if delivery.tag:
            self._hand_out(delivery)
        self._taken += 1
        self.echo.took()
        if self._taken * 2 >= self.window:
            self._flush()
        return delivery

    def _hand_out(self, delivery: Delivery) -> None:
        if self._transaction is not None:
            self._transaction.use()  # so that it cannot be committed on another connection than this came by
        if self._auto:
            self._current.append(delivery)
        else:
            self._seen[delivery.tag] = None

    def _finish_current(self) -> None:
        """Acknowledge the messages handed out before: the next request for a message confirms all of them."""
        if not self._current:
            return
        current, self._current = self._current, []
        self._done += [one.tag for one in current if one.generation == self._line.generation]
        if self._done and self._flushing is None and not self._lazy:
            self._flushing = asyncio.get_running_loop().call_soon(self._flush_done)

    def _take_unfinished(self) -> list[int]:
        tags = [*self._done, *(one.tag for one in self._current)]
        self._done, self._current = [], []
        return tags

    def _retry(self, tags: list[int], flags: int) -> None:
        if tags and self._line.connected:
            self._line.write(encode_ack(self.number, tags, flags))

    def _forget_waiting(self) -> None:
        self._waiting = deque(one for one in self._waiting if not one.tag)

    def _flush(self) -> None:
        """Send gathered acknowledgements and new credit."""
        self._flush_done()
        if self._taken > 0 and self._line.connected:
            self._line.write(encode_credit(self.number, self._taken))
            self.echo.granted(self._taken)
            self._taken = 0

    def _flush_done(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if not self._done or not self._line.connected or (self._transaction is not None and self._transaction.lost):
            return
        self._line.write(encode_ack(self.number, self._done, session=self._session))
        self._done = []
