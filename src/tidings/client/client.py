"""The asyncio client.

    async with tidings.connect("tidings://127.0.0.1:7300") as client:
        ticks = await client.subscribe("ticks.>", selector="price > 20")
        await client.publish("ticks.xyz", {"stock": "XYZ", "price": 50})
        async for message in ticks: ...

When the connection breaks the client reconnects, with growing pauses, subscribes again and resends unconfirmed
publications, marked as possibly sent before. A request in progress waits; it fails only when the client gives up.

Errors that no call can raise (the broker closes the connection with a reason, a publication without confirmation is
refused, messages of a subscription were dropped) are kept in `client.errors` and passed to the `on_error` given to
`connect`.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tidings.client.advertisements import AdvertisementRequests
from tidings.client.argument_checks import a_name, flag, seconds, text, whole
from tidings.client.async_errors import AsyncErrors
from tidings.client.bodies import Body
from tidings.client.broker_url import parse_url
from tidings.client.connection.answers import Receipt, error_of
from tidings.client.connection.orphan_subscriptions import OrphanSubscriptions
from tidings.client.connection.outbox import Outbox, unsent
from tidings.client.connection.own_echoes import OwnEchoes
from tidings.client.connection.pending_requests import Requests
from tidings.client.connection.reconnecting_connection import Handlers, ReconnectingConnection
from tidings.client.connection.resubscription import Resubscribing
from tidings.client.connection.transport import CLOSE_SECONDS, Transport
from tidings.client.event_types import EventTypes
from tidings.client.message_builder import compose, next_id
from tidings.client.moving import ClientMove
from tidings.client.network_queries import Observing
from tidings.client.options import ConnectOptions
from tidings.client.queue import Queue, QueuePage
from tidings.client.replies import Replies
from tidings.client.retained import RetainedRequests
from tidings.client.subscribe_options import subscribe_fields
from tidings.client.subscription import Subscription
from tidings.client.transaction import Transaction
from tidings.client.transaction_sessions import Transacting
from tidings.errors import ConnectionLostError, TidingsError, UsageError
from tidings.kernel.codec import decode_message, encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import PRIORITY_DEFAULT
from tidings.model.values import Value
from tidings.protocols.native.frames import (
    FrameType,
    RawFrame,
    control,
    decode_delivery,
    decode_fields,
    decode_receipts,
    field,
    unsigned,
)

WINDOW = 1000
CONNECT_SECONDS = 10.0  # to another broker
HURRIED = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)  # closing because of one of these does not wait


class Client(RetainedRequests, AdvertisementRequests, EventTypes, Observing, Replies, Transacting):
    """The asyncio client; created by `connect`."""

    def __init__(self, options: ConnectOptions) -> None:
        RetainedRequests.__init__(self)
        AdvertisementRequests.__init__(self)
        EventTypes.__init__(self)
        Replies.__init__(self)
        self._unheard = AsyncErrors(options.on_error)
        self.errors: deque[TidingsError] = self._unheard.errors  # the latest asynchronous errors, at most 100
        self._line = ReconnectingConnection(
            options, self._unheard, Handlers(self._received, self._made, self._writable, self._lost, self._over)
        )
        self._subscriptions: dict[int, Subscription] = {}
        self.pages: dict[int, QueuePage] = {}  # of queues that are being browsed
        self._requests = Requests()
        self._dismissing = OrphanSubscriptions(self.ask)
        self._resubscribing = Resubscribing(self)
        self._outbox = Outbox(self._line, self._requests.next_receipt, self.check_session)
        self._echoes = OwnEchoes(self._line)
        Transacting.__init__(self, self._echoes)
        self._move: ClientMove | None = None
        self._close_seconds = options.close_seconds
        self.numbers = itertools.count(1)  # of subscriptions

    # --- life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "Client":
        await self._line.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        hurried = kind is not None and issubclass(kind, HURRIED)
        unsent = await self._leave(0 if hurried else self._close_seconds, finished=kind is None)
        if unsent is None:
            return
        if kind is None:
            raise unsent
        self._unheard.note(unsent)  # there is an exception already

    def __await__(self) -> Any:
        return self.__aenter__().__await__()

    @property
    def connected(self) -> bool:
        return self._line.link is not None

    @property
    def generation(self) -> int:
        """Counts connections."""
        return self._line.generation

    async def close(self, timeout: float | None = None) -> None:
        """Wait until all that was published has reached the broker, and persistent messages its disk; then close.

        After `timeout` seconds (default: `close_seconds` of `connect`, 10) it closes anyway and raises E_UNSENT with
        the number of publications that may not have reached the broker. Leaving the `async with` block does the same;
        after an exception E_UNSENT is in `errors` instead, and after a cancellation nothing is waited for.
        """
        unsent = await self._leave(self._close_seconds if timeout is None else seconds("timeout", timeout))
        if unsent is not None:
            raise unsent

    async def _leave(self, timeout: float, *, finished: bool = True) -> TidingsError | None:
        """`finished`: with the message in hand, if it need not be acknowledged; an exception says that it is not.
        Returns what to say of publications that may be lost."""
        if self._line.closed is not None:
            return None
        self._line.check_loop()
        count, grace = 0, CLOSE_SECONDS
        try:
            count = await self._conclude(timeout, finished=finished)
            if count and timeout:
                grace = 0.0  # it had its time
        except asyncio.CancelledError:
            if count := self._outbox.pending:
                self._unheard.note(unsent(count, "close was cancelled"))
            raise
        finally:  # also when cancelled
            await self._line.close(grace)
        return unsent(count, f"the client was closed after {timeout:g} s at most") if count else None

    async def _conclude(self, timeout: float, *, finished: bool) -> int:
        for subscription in self._subscriptions.values():
            subscription.leave(finished=finished)
            subscription.echo.stop()
        count = await self._outbox.settle(timeout)
        if self.connected:
            for subscription in self._subscriptions.values():
                subscription.leave(finished=finished)
                subscription.return_seen()
                self._dismissing.dismiss(subscription.number)
        return count

    def forked(self) -> None:
        """In a child process: the connection is the parent's."""
        self._line.forked()

    async def ready(self) -> None:
        """Return when there is a connection."""
        await self._line.ready()

    async def move(self, url: str, *, overlap: float = 1.0) -> None:
        """Go to another broker of the network; plain subscriptions lose and repeat nothing on the way.

        The client subscribes there as well, waits until all brokers know that, and changes over. `overlap`: the longest
        time, in seconds, that a message is under way in the network. What a broker keeps is found there if it is
        the network's (queues, durable and shared subscriptions). Open transactions are rolled back. If this
        raises, the client stays where it is.
        """
        self._line.check_loop()
        if self._move is not None:
            raise UsageError("E_MOVE", "the client is moving already")
        (address, *_) = parse_url(url).addresses
        await self._line.ready()
        self._move = move = ClientMove(self._line, self._subscriptions.values(), self.ask)
        try:
            welcome = await move.prepare(address, CONNECT_SECONDS, seconds("overlap", overlap))
            before = self._line.use(welcome)
            move.finish()
        except BaseException:
            for number in move.ended:  # it was interrupted at its end
                self._resubscribing.repeat(move.moving[number])
            raise
        finally:
            self._move = None
        if before is not None:
            before.write(control(FrameType.CLOSE, {}))
            await before.close()

    # --- publishing -----------------------------------------------------------------------------------------------

    async def publish(
        self,
        destination: str | Destination,
        properties: Mapping[str, Value] | None = None,
        body: Body = b"",
        *,
        persistent: bool = False,
        priority: int = PRIORITY_DEFAULT,
        expires_in: float | None = None,
        correlation_id: str | None = None,
        reply_to: str | Destination | None = None,
        type: str | None = None,
        deliver_in: float | None = None,
        wait: bool | None = None,
        session: int = 0,
    ) -> Receipt:
        """Send a message. A persistent one is on the broker's disk when this returns.

        The body is bytes, text, or a dict or list that is sent as JSON; the property `content-type` says which.

        This waits while the broker accepts no more data, and for the program's own readers if the message may come back
        to one of its subscriptions; a call cancelled while it waits has sent nothing. `wait=False` returns at
        once, to have many messages in flight: `await receipt.confirmed()` later. A non-persistent message is
        not confirmed unless `wait=True`. `expires_in` is in seconds; so is `deliver_in`, before which nobody gets the
        message: the broker keeps it on its disk until then.
        """
        whole("session", session, 16)
        ids = await self._line.ready()
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
            deliver_in=deliver_in,
        )
        safe = persistent or deliver_in is not None
        confirm = safe if wait is None else wait or safe
        encoded = encode_message(message)
        if self._echoes.all and deliver_in is None:
            echoes = self._echoes.found.get(destination)
            if echoes := self._echoes.find(destination, message.destination) if echoes is None else echoes:
                if session:
                    self._echoes.transacted(session, echoes, len(encoded))
                else:
                    await self._echoes.room(echoes, len(encoded))
        receipt = await self._outbox.send(encoded, message_id, session, confirm=confirm)
        if confirm and wait is not False:
            await receipt.confirmed()
        return receipt

    async def send_encoded(self, messages: Sequence[bytes], session: int) -> int:
        """Send some of these messages, for a transaction; see `Transaction.publish_encoded`."""
        if self._echoes.all:
            raise UsageError("E_ARGUMENT", "publish_encoded needs a client without subscriptions: connect another one")
        return await self._outbox.send_encoded(messages, session)

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
        exclusive: bool = False,
        wait: str = "broker",
        window: int = WINDOW,
        transaction: Transaction | None = None,
    ) -> Subscription:
        """Subscribe to a topic pattern (`ticks.>`), consume a queue (`queue:orders`), or name an event `type`.

        When this returns the subscription is active: nothing published afterwards is missed at this broker, and
        with wait="network" nothing that is published at any broker that this one can reach. `durable` names a
        subscription that the broker keeps while the client is disconnected; `shared` one whose messages are
        divided among all subscribers that name it at this broker, or, as brokers are configured
        (`delivery.subscription_scope`), in the network, where durable ones are found at every broker, too;
        shared="name", durable=True is both. With ack="client" each message must be acknowledged. `policy` is
        applied to a subscriber that does not keep up: push-back, drop-oldest, drop-newest or disconnect.
        `no_local` excludes own messages; only for topics with ack="auto", neither durable nor shared.
        While an `exclusive` consumer is there, the others of its queue or shared subscription stand by.
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
            exclusive=exclusive,
            wait=wait,
        )
        whole("window", window)
        await self._line.ready()
        number = next(self.numbers)
        echo = self._echoes.make(fields, window)
        subscription = Subscription(
            self._line, number, fields, self._unsubscribe, echo, window=window, transaction=transaction
        )
        asked = self.ask(subscription.request, repeatable=transaction is None)
        await self._until_subscribed(number, subscription, asked)
        return subscription

    async def _until_subscribed(
        self, number: int, subscription: Subscription, asked: "asyncio.Future[dict[str, Value]]"
    ) -> None:
        self._subscriptions[number] = subscription
        self._echoes.add(number, subscription.echo)
        try:
            await asyncio.shield(asked)
        except BaseException:
            self._forget(number)
            if not self.connected:
                asked.cancel()  # not to be asked again on the next connection
            elif not asked.done() or asked.exception() is None:  # given up here, but the broker may make it
                self._dismissing.abandon(number, asked)
            raise
        subscription.active = True

    def ended(self, number: int, error: TidingsError) -> None:
        """The broker refused to restore a subscription."""
        subscription = self._forget(number)
        if subscription is not None:
            subscription.end(error)

    def _forget(self, number: int) -> Subscription | None:
        self._echoes.remove(number)
        return self._subscriptions.pop(number, None)

    async def _unsubscribe(self, number: int) -> None:
        if self._forget(number) is not None and self.connected:
            with suppress(ConnectionLostError):  # with which it ended
                await self._dismissing.dismiss(number)

    async def forget(self, durable: str, *, shared: bool = False, owner: str | None = None) -> None:
        """Delete a durable subscription of this client id (or a shared one of all clients) and its waiting messages.

        A user with permission to manage everything may delete another client's: `owner` is that client's id, preceded
        by its user's name: alice/id."""
        fields: dict[str, Value] = {"durable": a_name("durable", durable)}
        if owner is not None:
            fields["owner"] = text("owner", owner)
        if flag("shared", shared):
            fields["shared"] = durable
        await self.exchange(
            lambda receipt: control(FrameType.UNSUBSCRIBE, {**fields, "receipt": receipt}),
            done_code="E_DURABLE_UNKNOWN",
        )

    def queue(self, name: str | Destination) -> Queue:
        """A queue to browse and manage; see `tidings.client.queue`."""
        return Queue(self, name)

    def transaction(self) -> Transaction:
        """A transacted session; see `tidings.client.transaction`."""
        return Transaction(self, self._line)

    # --- frames ---------------------------------------------------------------------------------------------------

    async def exchange(
        self, make: Callable[[int], bytes], *, repeatable: bool = True, done_code: str = ""
    ) -> dict[str, Value]:
        await self._line.ready()
        return await self.ask(make, repeatable=repeatable, done_code=done_code)

    def ask(
        self, make: Callable[[int], bytes], *, repeatable: bool, done_code: str = ""
    ) -> "asyncio.Future[dict[str, Value]]":
        """Without waiting for the answer, but on a connection."""
        frame, future = self._requests.add(make, repeatable=repeatable, done_code=done_code)
        assert self._line.link is not None
        self._line.link.write(frame)
        return future

    def _received(self, frame: RawFrame) -> None:
        match frame.type:
            case FrameType.DELIVER:
                number, attempt, tag, message = decode_delivery(frame.payload)
                taker = self._subscriptions.get(number) or self.pages.get(number)
                if taker is not None:
                    decoded = decode_message(message)
                    if self._move is not None:
                        self._move.came(number, decoded)
                    taker.deliver(decoded, attempt, tag)
                elif self.connected:  # not while it is being closed
                    self._dismissing.stray(number)
            case FrameType.RETAINED:
                self._retained_came(frame.payload)
            case FrameType.RECEIPTS:
                for receipt in decode_receipts(frame.payload):
                    self._outbox.confirm(receipt, None)
            case FrameType.PING:
                self._line.write(encode_frame(FrameType.PONG, b""))
            case FrameType.PONG:
                self._outbox.answered()
            case _:
                self._answered(frame.type, decode_fields(frame.payload))

    def _answered(self, type: int, fields: dict[str, Value]) -> None:
        receipt = field(fields, "receipt", int)
        match type:
            case FrameType.OK:
                self._requests.answered(receipt, fields)
            case FrameType.REFUSED:
                self._outbox.confirm(receipt, error_of(fields))
            case FrameType.ERROR:
                error = error_of(fields)
                if self._requests.failed(receipt, error):
                    pass
                elif error.fatal:
                    self._line.refused(error)
                else:
                    self._unheard.note(error)
            case FrameType.DROPPED:
                self._dropped(fields)
            case FrameType.CLOCK:
                if self._line.ids is not None:
                    self._line.ids.adjust(field(fields, "delta_ms", int))
                    self._line.write(control(FrameType.CLOCK, {"number": field(fields, "number", int)}))
            case FrameType.CLOSE:
                self._line.farewell(error_of(fields))
            case _:
                pass

    def _dropped(self, fields: dict[str, Value]) -> None:
        count, reason = unsigned(fields, "count", 63), field(fields, "reason", str)
        subscription = self._subscriptions.get(unsigned(fields, "subscription"))
        if subscription is not None and count:
            self._unheard.note(subscription.lost(count, reason))

    # --- loss and return ------------------------------------------------------------------------------------------

    def _made(self, link: Transport) -> None:
        """Restore subscriptions, advertisements, requests and unconfirmed publications on a new connection."""
        for frame in self.replies_again():
            link.write(frame)
        for subscription in list(self._subscriptions.values()):
            if self._move is not None and subscription.number in self._move.moving:
                continue  # it is there already
            if subscription.active:  # the others are among the requests below
                self._resubscribing.repeat(subscription)
        for frame in (*self.advertised_again(), *self.types_advertised_again()):
            link.write(frame)
        for frame in (*self._requests.repeat(), *self._outbox.frames()):
            link.write(frame)
        self._outbox.turn()

    def _writable(self) -> None:
        self._outbox.turn()

    def _lost(self, link: Transport, error: TidingsError) -> None:
        for subscription in self._subscriptions.values():
            subscription.disconnected()
        self._dismissing.lost()
        if (lost := self._outbox.lost(link, error)) is not None:
            self._unheard.note(lost)
        self._requests.lost(error)

    def _over(self, error: TidingsError) -> None:
        for subscription in list(self._subscriptions.values()):
            self._echoes.remove(subscription.number)
            subscription.end(None if error.code == "E_CLOSED" else error)
        self._requests.give_up(error)
        self._outbox.give_up(error)
        self._subscriptions.clear()
