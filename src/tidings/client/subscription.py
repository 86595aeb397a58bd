"""A client's subscription: an asynchronous iterator over deliveries.

The broker sends at most as much as it has credit for; the client gives new credit as its user takes messages, half a
window at a time, so that neither side waits for the other and nothing piles up. With ack="auto" a message counts as
done when the next one is asked for, or when the subscription or the client is closed.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from tidings.client.delivery import Delivery
from tidings.errors import TidingsError
from tidings.model.message import Message
from tidings.model.values import Value
from tidings.protocols.frames import FrameType, control, encode_ack, encode_credit

if TYPE_CHECKING:
    from tidings.client.client import Client


class Subscription:
    def __init__(self, client: "Client", number: int, fields: dict[str, Value], *, window: int, session: int) -> None:
        self.number = number
        self.window = window
        self.session = session
        self._client = client
        self._fields = fields
        self._auto = fields.get("ack", "auto") != "client"
        self._waiting: deque[Delivery] = deque()
        self._arrived = asyncio.Event()
        self._taken = 0  # since credit was last given
        self._current: Delivery | None = None  # with the user, to be acknowledged when the next is asked for
        self._done: list[int] = []
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
        self._finish_current()
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while not self._waiting:
            if self._error is not None:
                raise self._error
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
        """What the user says of a delivery goes to the broker; of an earlier connection's it no longer matters."""
        tag = delivery.need_tag()
        if delivery is self._current:
            self._current = None
        if delivery.generation == self._client.generation:
            await self._client.send(encode_ack(self.number, (tag,), flags, session=self.session))

    async def close(self) -> None:
        """End the subscription. A durable one goes on collecting at the broker."""
        if not self._closed:
            self._finish_current()
            self._flush()
            self.end()
            await self._client.unsubscribe(self.number)

    # --- for the client -------------------------------------------------------------------------------------------

    def request(self, receipt: int) -> bytes:
        """The frame that makes this subscription, at first and after each reconnection."""
        self._taken = 0
        self._done.clear()
        fields = {**self._fields, "subscription": self.number, "credit": self.window, "receipt": receipt}
        return control(FrameType.SUBSCRIBE, fields, session=self.session)

    def deliver(self, message: Message, attempt: int, tag: int) -> None:
        self._waiting.append(Delivery(self, message, attempt, tag, self._client.generation))
        self._arrived.set()

    def disconnected(self) -> None:
        """What the user has not seen will come again if it must be acknowledged: forget it."""
        self._waiting = deque(one for one in self._waiting if not one.tag)
        self._current = None

    def leave(self, *, finished: bool) -> None:
        """The client closes: say what is done; `finished`: with what the user was given last too."""
        if finished:
            self._finish_current()
        self._taken = 0  # no more is wanted
        self._flush()

    def end(self, error: TidingsError | None = None) -> None:
        self._closed, self._error = True, error
        self._arrived.set()

    # --- acknowledgement and credit -------------------------------------------------------------------------------

    def _take(self) -> Delivery:
        delivery = self._waiting.popleft()
        if self._auto and delivery.tag:
            self._current = delivery
        self._taken += 1
        if self._taken * 2 >= self.window:
            self._flush()
        return delivery

    def _finish_current(self) -> None:
        current, self._current = self._current, None
        if current is not None and current.generation == self._client.generation:
            self._done.append(current.tag)

    def _flush(self) -> None:
        """Send gathered acknowledgements and new credit."""
        if not self._client.connected:
            return
        if self._done:
            self._client.write(encode_ack(self.number, self._done, session=self.session))
            self._done = []
        if self._taken:
            self._client.write(encode_credit(self.number, self._taken))
            self._taken = 0
