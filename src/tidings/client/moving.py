"""Takes a client to another broker without losing or doubling what its plain subscriptions get.

    connection here  ──deliveries──► program, their ids noted
    connection there ──deliveries──► kept back ──► program, but not what came here
         │ `overlap` │ subscribe, until all brokers know │ `overlap` │ unsubscribe here, change over

What was published before all brokers knew the subscription there goes to the broker here alone; what is published later
goes to both. `overlap` is the longest time that a message is under way in the network: what entered before the
subscriptions there were known has come here by then, and what came here before ids were noted no longer comes there.
Messages of one publisher stay in order: all that came here is before what is kept back.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from tidings.client.broker_url import BrokerAddress
from tidings.client.connection.answers import error_of
from tidings.client.connection.reconnecting_connection import OtherConnection, ReconnectingConnection
from tidings.client.connection.transport import Transport
from tidings.client.subscription import Subscription
from tidings.errors import ConnectionLostError, TidingsError
from tidings.kernel.codec import decode_message
from tidings.model.codec import encode_frame
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, RawFrame, control, decode_delivery, decode_fields, encode_credit
from tidings.protocols.native.frames import field as field_of

SUBSCRIBE_SECONDS = 40.0  # a broker gives up waiting for others earlier
DRAIN_CREDIT = 1 << 20
REPEATS_SECONDS = 30.0  # in which what came here may still come there


class Asks(Protocol):
    def __call__(
        self, make: Callable[[int], bytes], *, repeatable: bool, done_code: str = ""
    ) -> "asyncio.Future[dict[str, Value]]": ...


class ClientMove:
    """One change of brokers. Only plain subscriptions need it: what a broker keeps waits for the client's return."""

    def __init__(self, line: ReconnectingConnection, subscriptions: Iterable[Subscription], ask: Asks) -> None:
        self.moving = {one.number: one for one in subscriptions if one.plain}
        self._line, self._ask = line, ask
        self._seen: dict[int, set[MessageId]] = {number: set() for number in self.moving}
        self._kept: dict[int, list[tuple[Message, int]]] = {number: [] for number in self.moving}
        self._answers: dict[int, asyncio.Future[None]] = {}
        self.ended: list[int] = []  # here
        self._there: Transport | None = None
        self._own = 0  # the publisher's number that the client had here

    def came(self, number: int, message: Message) -> None:
        """Delivered by the connection here."""
        if number in self._seen:
            self._seen[number].add(message.id)

    async def prepare(self, address: BrokerAddress, seconds: float, overlap: float) -> OtherConnection:
        """Subscribe there, until nothing comes here any more that does not come there."""
        generation = self._line.generation
        ids = await self._line.ready()
        self._own = ids.publisher
        welcome = await self._line.greet(address, seconds)
        self._there = welcome.link
        try:
            welcome.link.start(self._received, self._lost, _nothing, welcome.heartbeat_ms)
            await asyncio.sleep(overlap)
            await self._subscribe(welcome.link)
            await self._ask(lambda receipt: control(FrameType.SYNC, {"receipt": receipt}), repeatable=False)
            await asyncio.sleep(overlap)
            await self._end_here()
            if self._line.generation != generation or self._line.link is None:
                raise ConnectionLostError("E_MOVE", "the connection was lost while the client moved")
        except BaseException:
            await welcome.link.close()
            raise
        return welcome

    def finish(self) -> None:
        """The connection there is the client's; what was kept back comes after all that came here."""
        later = asyncio.get_running_loop().call_later
        for number, subscription in self.moving.items():
            seen = self._seen[number]
            new = [one for one in self._kept[number] if one[0].id not in seen]
            subscription.moved(new, seen)
            later(REPEATS_SECONDS, subscription.settled)

    async def _subscribe(self, link: Transport) -> None:
        loop = asyncio.get_running_loop()
        for receipt, subscription in enumerate(self.moving.values(), 1):
            self._answers[receipt] = loop.create_future()
            link.write(subscription.request_everywhere(receipt))
        async with asyncio.timeout(SUBSCRIBE_SECONDS):
            await asyncio.gather(*self._answers.values())

    async def _end_here(self) -> None:
        """Take what waits for credit at the broker here, and end the subscriptions there."""
        for number in self.moving:
            self._line.write(encode_credit(number, DRAIN_CREDIT))
        await self._ask(lambda receipt: control(FrameType.SYNC, {"receipt": receipt}), repeatable=False)
        for number in self.moving:
            self.ended.append(number)
            fields: dict[str, Value] = {"subscription": number}
            await self._ask(
                lambda receipt, fields=fields: control(FrameType.UNSUBSCRIBE, {**fields, "receipt": receipt}),  # type: ignore[misc]
                repeatable=False,
            )

    # --- the connection there -----------------------------------------------------------------------------------------

    def _received(self, frame: RawFrame) -> None:
        match frame.type:
            case FrameType.DELIVER:
                number, attempt, _, encoded = decode_delivery(frame.payload)
                self._delivered(number, decode_message(encoded), attempt)
            case FrameType.PING if self._there is not None:
                self._there.write(encode_frame(FrameType.PONG, b""))
            case FrameType.OK:
                self._answered(decode_fields(frame.payload), None)
            case FrameType.ERROR:
                fields = decode_fields(frame.payload)
                self._answered(fields, error_of(fields))
            case _:
                pass

    def _delivered(self, number: int, message: Message, attempt: int) -> None:
        subscription = self.moving.get(number)
        if subscription is None or self._there is None:
            return
        self._there.write(encode_credit(number, 1))
        if not (subscription.no_local and message.id.publisher == self._own):
            self._kept[number].append((message, attempt))

    def _answered(self, fields: dict[str, Value], error: TidingsError | None) -> None:
        answer = self._answers.get(field_of(fields, "receipt", int))
        if answer is not None and not answer.done():
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

    def _lost(self, cause: Exception | None) -> None:
        error = ConnectionLostError("E_MOVE", f"the connection to the other broker was lost: {cause}")
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(error)


def _nothing() -> None:
    """Nothing is written but requests."""
