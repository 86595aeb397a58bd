"""The asyncio client.

    async with tidings.connect("tidings://127.0.0.1:7300") as client:
        ticks = await client.subscribe("ticks.>", selector="price > 20")
        await client.publish("ticks.xyz", {"stock": "XYZ", "price": 50})
        async for message in ticks: ...

When the connection breaks the client connects again, with growing pauses, makes its subscriptions anew and sends
again what was not confirmed, marked as perhaps sent before. A request under way meanwhile waits; it fails only when the
client gives up.

What goes wrong without a call that could raise it (the broker ends the connection and says why, a publication without
confirmation is refused) is in `client.errors`, and passed to the `on_error` given to `connect`.
"""

import asyncio
import itertools
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from tidings.client.advertising import Advertising
from tidings.client.answers import LATER_CODES, Receipt, again, error_of
from tidings.client.checking import a_name, flag, whole
from tidings.client.composing import compose, next_id, now_ms
from tidings.client.dismissing import Dismissing
from tidings.client.event_types import EventTypes
from tidings.client.link import Link
from tidings.client.observing import Observing
from tidings.client.options import Options
from tidings.client.queue import Page, Queue
from tidings.client.requests import Requests
from tidings.client.resubscribing import Resubscribing
from tidings.client.retained import Retaining
from tidings.client.subscribing import subscribe_fields
from tidings.client.subscription import Subscription
from tidings.client.transacting import Transacting
from tidings.client.transaction import Transaction
from tidings.client.unconfirmed import Unconfirmed
from tidings.errors import ConnectionLostError, LimitError, SecurityError, TidingsError, UsageError
from tidings.kernel.codec import decode_message, encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import PRIORITY_DEFAULT
from tidings.model.message_id import MessageId, MessageIdSource
from tidings.model.values import Value
from tidings.protocols.frames import (
    VERSION,
    FrameType,
    RawFrame,
    control,
    decode_delivery,
    decode_fields,
    decode_receipts,
    encode_publish,
    field,
    unsigned,
)

log = logging.getLogger("tidings.client")
WINDOW = 1000
ERRORS_MAX = 100  # the latest are kept
LAST_TRY_SECONDS = 0.1  # for a connection, however soon the client is to give up
RECEIVED_BYTES_MORE = 64 << 10


class Client(Retaining, Advertising, EventTypes, Observing, Transacting):
    def __init__(self, options: Options) -> None:
        Retaining.__init__(self)
        Advertising.__init__(self)
        EventTypes.__init__(self)
        Transacting.__init__(self)
        self.generation = 0  # counts connections
        self.skew_ms = 0
        self.errors: deque[TidingsError] = deque(maxlen=ERRORS_MAX)  # that no call could raise
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None  # on which it is connected
        self._link: Link | None = None
        self._ids: MessageIdSource | None = None
        self._subscriptions: dict[int, Subscription] = {}
        self.pages: dict[int, Page] = {}  # of queues that are being browsed
        self._requests = Requests()
        self._dismissing = Dismissing(self.ask)
        self._resubscribing = Resubscribing(self)
        self._unconfirmed = Unconfirmed()
        self._ready = asyncio.Event()
        self.numbers = itertools.count(1)  # of subscriptions
        self._started = False
        self._closed: TidingsError | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._refused: TidingsError | None = None  # why the broker will not have us: no use in coming back
        self._farewell: ConnectionLostError | None = None  # why the broker is about to end the connection
        self._frame_bytes_max = 1 << 20

    # --- life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "Client":
        if self._started and self._closed is None:
            return self  # connected, or on the way back
        self._started, self._closed, self._refused = True, None, None
        self._loop = asyncio.get_running_loop()
        try:
            await self._connect(self._options.connect_seconds)
        except BaseException:
            self._started = False
            self._ready.set()  # who waits for it hears that
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._leave(finished=kind is None)

    def __await__(self) -> Any:
        return self.__aenter__().__await__()

    @property
    def connected(self) -> bool:
        return self._link is not None

    async def close(self) -> None:
        """Send what is gathered, say good-bye, and close. Unconfirmed publications are waited for, briefly."""
        await self._leave(finished=True)

    async def _leave(self, *, finished: bool) -> None:
        """`finished`: with the message in hand, if it need not be acknowledged; an exception says that it is not."""
        if self._closed is not None:
            return
        self.check_loop()
        try:
            await self._conclude(finished=finished)
        finally:  # even if that is cancelled: who leaves has left
            if self._reconnecting is not None:
                self._reconnecting.cancel()
                await asyncio.wait([self._reconnecting])  # it may have a connection to close
            self._give_up(ConnectionLostError("E_CLOSED", "the client is closed"))
            link, self._link = self._link, None
            if link is not None:
                link.write(control(FrameType.CLOSE, {}))
                await link.close()

    async def _conclude(self, *, finished: bool) -> None:
        for subscription in self._subscriptions.values():
            subscription.leave(finished=finished)
        waiting = self._unconfirmed.futures()
        if waiting and self.connected:
            await asyncio.wait(waiting, timeout=5)
        if self.connected:
            for subscription in self._subscriptions.values():
                subscription.leave(finished=finished)
                subscription.give_back()
                self._dismissing.dismiss(subscription.number)

    async def _connect(self, seconds: float) -> None:
        options = self._options
        link = await Link.open(options.host, options.port, options.tls, seconds)
        hello: dict[str, Value] = {
            "version": VERSION,
            "user": options.user,
            "password": options.password,
            "client": options.client_id,
            "heartbeat_ms": options.heartbeat_ms,
            "time_ms": now_ms(),
        }
        try:
            frame = await link.greet(control(FrameType.HELLO, hello), seconds)
            fields = decode_fields(frame.payload)
            if frame.type != FrameType.WELCOME:
                raise error_of(fields)
            publisher, broker = unsigned(fields, "publisher"), unsigned(fields, "broker")
            self._ids = MessageIdSource(publisher, broker, field(fields, "delta_ms", int))
            self._frame_bytes_max = unsigned(fields, "frame_max") or 1 << 20
            self._welcome(link, unsigned(fields, "heartbeat_ms"))
        except BaseException:
            await link.close()
            raise

    def _welcome(self, link: Link, heartbeat_ms: int) -> None:
        # The limit is for what is published. What comes may be longer: a dead letter says where it has been, and what
        # fitted into another protocol's frame need not fit into one of ours.
        link.payload_bytes_max = 2 * self._frame_bytes_max + RECEIVED_BYTES_MORE
        self.generation += 1
        self._link = link
        link.start(self._received, partial(self._lost, link), heartbeat_ms)
        for subscription in list(self._subscriptions.values()):
            if subscription.active:  # the others are among the requests below
                self._resubscribing.repeat(subscription)
        for frame in (*self.advertised_again(), *self.types_advertised_again()):
            link.write(frame)
        for frame in (*self._requests.repeat(), *self._unconfirmed.frames()):
            link.write(frame)
        self._ready.set()

    # --- publishing -----------------------------------------------------------------------------------------------

    async def publish(
        self,
        destination: str | Destination,
        properties: Mapping[str, Value] | None = None,
        body: bytes = b"",
        *,
        persistent: bool = False,
        priority: int = PRIORITY_DEFAULT,
        expires_in: float | None = None,
        correlation_id: str | None = None,
        reply_to: str | Destination | None = None,
        type: str | None = None,
        wait: bool | None = None,
        session: int = 0,
    ) -> Receipt:
        """Send a message. A persistent one is on the broker's disk when this returns.

        `wait=False` returns at once, for many messages under way at a time: `await receipt.confirmed()` later. A
        non-persistent message is not confirmed unless `wait=True`. `expires_in` is in seconds.
        """
        whole("session", session, 16)
        ids = await self._ready_ids()
        message_id = await next_id(ids)
        message = compose(
            message_id,
            destination,
            properties,
            body,
            persistent=persistent,
            priority=priority,
            expires_in=expires_in,
            correlation_id=correlation_id,
            reply_to=reply_to,
            type=type,
        )
        confirm = persistent if wait is None else wait or persistent
        receipt = await self._send_message(encode_message(message), message_id, session, confirm)
        if confirm and wait is not False:
            await receipt.confirmed()
        return receipt

    async def _send_message(self, message: bytes, message_id: MessageId, session: int, confirm: bool) -> Receipt:
        if len(message) + 4 > self._frame_bytes_max:
            limit = self._frame_bytes_max
            raise LimitError("E_MESSAGE_SIZE", f"a message of {len(message)} bytes: the broker takes at most {limit}")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        number = 0
        while confirm and self._unconfirmed.full:
            await self._unconfirmed.room()
            self._check_open()
        if session and session in self._transactions:
            self._transactions[session].check()
        if confirm:
            number = self._requests.next_receipt()
            self._unconfirmed.add(number, message, session, future)
        else:
            future.set_result(None)
        if self._link is not None:
            self._link.write(encode_publish(number, message, session, 0))
            await self._link.drained()
        return Receipt(message_id, future)

    def check_loop(self) -> None:
        if self._closed is None and self._loop not in (None, asyncio.get_running_loop()):
            raise UsageError("E_EVENT_LOOP", "the client was connected on another event loop, and belongs to that")

    async def _ready_ids(self) -> MessageIdSource:
        self.check_loop()
        while self._link is None:
            self._check_open()
            if not self._started:
                raise UsageError("E_NOT_CONNECTED", "connect first: `async with client:`, or `await client`")
            self._ready.clear()
            await self._ready.wait()
        self._check_open()
        assert self._ids is not None
        return self._ids

    async def ready(self) -> None:
        """Return when there is a connection."""
        await self._ready_ids()

    # --- subscribing ----------------------------------------------------------------------------------------------

    async def subscribe(
        self,
        destination: str | Destination | DestinationPattern = "",
        *,
        type: str = "",
        selector: str = "",
        ack: str = "auto",
        durable: str | bool = "",
        shared: str = "",
        policy: str = "push-back",
        no_local: bool = False,
        window: int = WINDOW,
        transaction: Transaction | None = None,
    ) -> Subscription:
        """Subscribe to a topic pattern (`ticks.>`), consume a queue (`queue:orders`), or name an event `type`.

        When this returns the subscription is active: nothing published afterwards is missed. `durable` names a
        subscription that the broker keeps while you are away; `shared` one whose messages are divided among all who
        name it at this broker (at another one they are another group); shared="name", durable=True is both. With
        ack="client" each message must be acknowledged. `policy` says what happens when you do not keep up: push-back,
        drop-oldest, drop-newest or disconnect. `no_local`: not what this client publishes; for topics with ack="auto",
        neither durable nor shared.
        """
        fields = subscribe_fields(
            destination,
            type=type,
            selector=selector,
            ack=ack,
            durable=durable,
            shared=shared,
            policy=policy,
            no_local=no_local,
        )
        whole("window", window)
        await self._ready_ids()
        number = next(self.numbers)
        subscription = Subscription(self, number, fields, window=window, transaction=transaction)
        asked = self.ask(subscription.request, repeatable=transaction is None)
        self._subscriptions[number] = subscription
        try:
            await asyncio.shield(asked)
        except BaseException:
            self._subscriptions.pop(number, None)
            if not self.connected:
                asked.cancel()  # not to be asked again on the next connection
            elif not asked.done() or asked.exception() is None:  # given up here, but the broker may make it
                self._dismissing.abandon(number, asked)
            raise
        subscription.active = True
        return subscription

    def ended(self, subscription: Subscription, error: TidingsError) -> None:
        self._subscriptions.pop(subscription.number, None)
        subscription.end(error)

    async def unsubscribe(self, number: int) -> None:
        if self._subscriptions.pop(number, None) is not None and self.connected:
            with suppress(ConnectionLostError):  # with which it ended
                await self._dismissing.dismiss(number)

    async def forget(self, durable: str, *, shared: bool = False) -> None:
        """Delete a durable subscription of this client id (or one that is everybody's), and what waits for it."""
        fields: dict[str, Value] = {"durable": a_name("durable", durable)}
        if flag("shared", shared):
            fields["shared"] = durable
        await self.request(
            lambda receipt: control(FrameType.UNSUBSCRIBE, {**fields, "receipt": receipt}),
            done_code="E_DURABLE_UNKNOWN",
        )

    def queue(self, name: str | Destination) -> Queue:
        """A queue to look into and tidy up; see `tidings.client.queue`."""
        return Queue(self, name)

    def transaction(self) -> Transaction:
        """A transacted session; see `tidings.client.transaction`."""
        return Transaction(self)

    # --- frames ---------------------------------------------------------------------------------------------------

    async def send(self, frame: bytes) -> None:
        if self._link is not None:
            self._link.write(frame)
            await self._link.drained()

    def write(self, frame: bytes) -> None:
        if self._link is not None:
            self._link.write(frame)

    async def request(
        self, make: Callable[[int], bytes], *, repeatable: bool = True, done_code: str = ""
    ) -> dict[str, Value]:
        await self._ready_ids()
        return await self.ask(make, repeatable=repeatable, done_code=done_code)

    def ask(
        self, make: Callable[[int], bytes], *, repeatable: bool, done_code: str = ""
    ) -> "asyncio.Future[dict[str, Value]]":
        """Without waiting for the answer, but on a connection."""
        frame, future = self._requests.add(make, repeatable=repeatable, done_code=done_code)
        assert self._link is not None
        self._link.write(frame)
        return future

    def _received(self, frame: RawFrame) -> None:
        match frame.type:
            case FrameType.DELIVER:
                number, attempt, tag, message = decode_delivery(frame.payload)
                taker = self._subscriptions.get(number) or self.pages.get(number)
                if taker is not None:
                    taker.deliver(decode_message(message), attempt, tag)
                elif self.connected:  # not while it is being closed
                    self._dismissing.stray(number)
            case FrameType.RETAINED:
                self._retained_came(frame.payload)
            case FrameType.RECEIPTS:
                for receipt in decode_receipts(frame.payload):
                    self._unconfirmed.confirm(receipt, None)
            case FrameType.PING:
                self.write(encode_frame(FrameType.PONG, b""))
            case FrameType.PONG:
                pass
            case _:
                self._answered(frame.type, decode_fields(frame.payload))

    def _answered(self, type: int, fields: dict[str, Value]) -> None:
        receipt = field(fields, "receipt", int)
        match type:
            case FrameType.OK:
                self._requests.answered(receipt, fields)
            case FrameType.REFUSED:
                self._unconfirmed.confirm(receipt, error_of(fields))
            case FrameType.ERROR:
                error = error_of(fields)
                if self._requests.failed(receipt, error):
                    pass
                elif error.fatal:
                    self._refused = error
                else:
                    self._note(error)
            case FrameType.CLOCK:
                if self._ids is not None:
                    self._ids.adjust(field(fields, "delta_ms", int))
                    self.write(control(FrameType.CLOCK, {"number": field(fields, "number", int)}))
            case FrameType.CLOSE:
                said = error_of(fields)
                self._farewell = ConnectionLostError(said.code, said.reason)
                self._note(self._farewell)
            case _:
                pass

    def _note(self, error: TidingsError) -> None:
        self.errors.append(error)
        if self._options.on_error is not None:
            try:
                self._options.on_error(error)
            except Exception:  # it is called while a frame is read, whose other half must not be lost
                log.exception("on_error failed")

    # --- loss and return ------------------------------------------------------------------------------------------

    def _lost(self, link: Link, cause: Exception | None) -> None:
        if self._link is not link:  # it was left before
            return
        self._link = None
        if isinstance(cause, TidingsError) and not isinstance(cause, ConnectionLostError):
            self._note(cause.alone())  # what came was no frame, or none we could take
        lost = ConnectionLostError("E_CONNECTION_LOST", str(cause or "the broker closed the connection"))
        error: TidingsError = self._refused or self._farewell or lost
        self._farewell = None
        for subscription in self._subscriptions.values():
            subscription.disconnected()
        self._dismissing.lost()
        self._unconfirmed.lost(error)
        self._requests.lost(error)
        if self._options.reconnect and self._closed is None and self._refused is None:
            self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect(error))
        else:
            self._give_up(error)

    async def _reconnect(self, error: TidingsError) -> None:
        deadline = time.monotonic() + self._options.give_up_seconds
        pause = 0.05
        while self._closed is None:
            left = deadline - time.monotonic()
            await asyncio.sleep(min(pause * (0.5 + random.random()), max(left, 0)))
            left = deadline - time.monotonic()
            try:
                await self._connect(min(self._options.connect_seconds, max(left, LAST_TRY_SECONDS)))
                return
            except (OSError, TidingsError) as failure:
                if isinstance(failure, SecurityError) and failure.code not in LATER_CODES:
                    self._give_up(failure)
                elif time.monotonic() > deadline:
                    self._give_up(ConnectionLostError(error.code, f"{error.reason}; and then: {failure}"))
            except Exception as failure:  # to try again would be no use, and to end silently none to those who wait
                log.exception("cannot connect again")
                self._give_up(ConnectionLostError("E_RECONNECT", f"{error.reason}; and then: {failure!r}"))
            pause = min(pause * 2, 2.0)

    def _give_up(self, error: TidingsError) -> None:
        self._closed = error
        for subscription in list(self._subscriptions.values()):
            subscription.end(None if error.code == "E_CLOSED" else error)
        self._requests.give_up(error)
        self._unconfirmed.give_up(error)
        self._subscriptions.clear()
        self._ready.set()

    def forked(self) -> None:
        """In a child process: the connection is the parent's, and nothing may be said on it."""
        self._link = None
        self._give_up(ConnectionLostError("E_FORKED", "the client belongs to the process that was forked"))

    def _check_open(self) -> None:
        if self._closed is not None:
            raise again(self._closed)
