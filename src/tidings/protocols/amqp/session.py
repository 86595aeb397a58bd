"""A client that speaks AMQP 1.0: its session with the broker, without I/O.

    socket ─► receive ─► SASL ─► engine ─► links ─► native frames ─► take_frames ─► broker
    socket ◄─ take_output ◄───── engine ◄─ links ◄─ answers, deliveries ◄─ frames ◄─ broker

To the broker it is one more client of the native protocol: what a link, a transfer or a disposition means is said
there in frames, all those of one read together. So permissions, flow control, acknowledgement and transactions are
the broker's own, and AMQP is a translation.
"""

from collections.abc import Callable
from typing import NoReturn, TypeAlias, assert_never

from tidings.errors import CodecError, RemoteProtocolError, TidingsError
from tidings.kernel.amqp import AmqpTransfers
from tidings.node.clients.subscription_plan import NAME_MAX
from tidings.protocols.amqp.browser import BrowserLink, browsed
from tidings.protocols.amqp.conditions import condition_of
from tidings.protocols.amqp.consumer import ConsumerLink
from tidings.protocols.amqp.context import Context
from tidings.protocols.amqp.durable_removal import ForgetLink
from tidings.protocols.amqp.engine.channel import AmqpChannel
from tidings.protocols.amqp.engine.connection import AmqpConnection
from tidings.protocols.amqp.engine.link import AmqpLink, IncomingDelivery, LinkChannel, ReceiverLink, SenderLink
from tidings.protocols.amqp.producer import CREDIT, ProducerLink
from tidings.protocols.amqp.sasl import AMQP_HEADER, Sasl, SaslOutcome
from tidings.protocols.amqp.sasl import SaslState as SaslState
from tidings.protocols.amqp.transactions import AmqpTransactions
from tidings.protocols.amqp.wire.frames import frame
from tidings.protocols.amqp.wire.performatives import AmqpClose, AmqpOpen, write_performative
from tidings.protocols.amqp.wire.types import symbol, symbols
from tidings.protocols.native.frames import FrameType, unsigned, whole_frame
from tidings.protocols.native.peer import Delivered, Dropped, Ended, Fields, NativePeer, Said, Welcomed
from tidings.protocols.session import Caller

CHANNELS_MAX = 255
LINKS_MAX = 4_096  # of one connection
FRAME_BYTES_MAX = 64 << 10
CAPABILITIES = ("ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS")


OurLink: TypeAlias = ConsumerLink | BrowserLink | ForgetLink | ProducerLink


class AmqpSession:
    """`plain_is_queue`: what an address is that says neither topic nor queue."""

    def __init__(self, caller: Caller, *, plain_is_queue: bool = True) -> None:
        self._caller = caller
        self._plain_is_queue = plain_is_queue
        self._peer = NativePeer(caller.frame_bytes_max + FRAME_BYTES_MAX)
        offered = {"EXTERNAL": bool(caller.certificate), "PLAIN": True, "XOAUTH2": not caller.open}
        offered["ANONYMOUS"] = caller.open
        self._sasl = Sasl(tuple(mechanism for mechanism, on in offered.items() if on))
        self._engine: AmqpEngine | None = None
        self._over = False
        self._now_ms = 0
        self._waiting = b""  # of the broker's frames, one that is not complete

    # --- doors ----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now_ms: int) -> None:
        """Bytes from the client. An error ends the connection, once what `take_output` has is sent."""
        self._now_ms = now_ms
        if self._over:
            return
        if self._engine is not None:
            self._engine.receive(data, now_ms)
            return
        credentials = self._sasl.receive(data)
        if credentials is not None:
            self._peer.hello(credentials.user, credentials.password)

    def frames(self, data: bytes, now_ms: int) -> None:
        """Native frames from the broker."""
        self._now_ms = now_ms
        if self._engine is not None:
            self._engine.context.now_ms = now_ms
        whole, at = self._waiting + data if self._waiting else data, 0
        while size := whole_frame(whole, at):
            if self._engine is not None and (used := self._engine.give(whole, at)):
                at += used
                continue
            self._peer.receive(whole[at : at + size], self._said)
            at += size
        self._waiting = whole[at:]

    def tick(self, now_ms: int) -> None:
        """Every quarter of a second: the client may want a sign of life."""
        if self._engine is not None and not self._over:
            self._engine.tick(now_ms)

    def lost(self) -> None:
        """The connection is gone: let go of what is held for it."""
        self._over = True
        if self._engine is not None:
            self._engine.let_go()

    def take_frames(self) -> bytes:
        """For the broker."""
        return self._peer.take()

    def take_output(self) -> bytes:
        """For the client."""
        output = bytes(self._sasl.output)
        self._sasl.output.clear()
        return output + self._engine.take_output() if self._engine is not None else output

    @property
    def waiting_bytes(self) -> int:
        """Bytes held until the client opens its windows."""
        return 0 if self._engine is None else self._engine.waiting_bytes

    # --- what the broker says --------------------------------------------------------------------------------------

    def _said(self, said: Said) -> None:
        match said:
            case Delivered():
                if self._engine is not None:
                    self._engine.deliver(said)
            case Dropped():
                if self._engine is not None:
                    self._engine.dropped(said)
            case Welcomed(fields):
                self._welcomed(fields)
            case Ended(error):
                self._ended(error)
            case _:
                assert_never(said)

    def _welcomed(self, fields: Fields) -> None:
        if self._sasl.layered:
            self._sasl.decide(SaslOutcome.OK)
        self._engine = self._make_engine(fields)
        if data := self._sasl.take_input():
            self._engine.receive(data, self._now_ms)

    def _ended(self, error: TidingsError) -> None:
        if self._over:
            return
        self._over = True
        if self._engine is not None:
            self._engine.fail(error)
        elif self._sasl.layered:
            if self._sasl.state is SaslState.CHECKING:
                refused = error.code.startswith("E_LOGIN") and error.code != "E_LOGIN_BUSY"
                self._sasl.decide(SaslOutcome.AUTH if refused else SaslOutcome.SYS_TEMP)
        else:
            self._sasl.output += _refusal(error)

    def _make_engine(self, welcome: Fields) -> "AmqpEngine":
        publisher, broker = unsigned(welcome, "publisher"), unsigned(welcome, "broker")
        frame_max = unsigned(welcome, "frame_max") or self._caller.frame_bytes_max
        context = Context(
            self._peer,
            AmqpTransfers(publisher, broker, frame_max),
            publisher,
            broker,
            self._caller.permits,
            self._plain_is_queue,
            frame_max,
            self._now_ms,
        )
        return AmqpEngine(context, str(welcome.get("server", "tidings")), unsigned(welcome, "heartbeat_ms"))


def _refusal(error: TidingsError) -> bytes:
    """To one who came without SASL and may not."""
    return AMQP_HEADER + _farewell(error)


def _farewell(error: TidingsError) -> bytes:
    """Opened and closed in one breath."""
    return b"".join(frame(write_performative(one)) for one in (AmqpOpen("tidings"), AmqpClose(condition_of(error))))


def _fault(error: Exception) -> TidingsError | None:
    """The error to report to the client; None for an internal error."""
    match error:
        case CodecError():
            return RemoteProtocolError(error.code, error.reason)
        case UnicodeDecodeError():
            return RemoteProtocolError("E_AMQP_DECODE", "text that is not UTF-8")
        case TidingsError():
            return error
    return None


class AmqpEngine:
    """The connection from login to the end: what its links are for."""

    def __init__(self, context: Context, name: str, heartbeat_ms: int) -> None:
        self.context = context
        self._transactions = AmqpTransactions(context)
        self._peer = context.peer
        self._transfers = context.transfers
        self._transfers.credit_max = CREDIT
        opening = AmqpOpen(
            name,
            max_frame_size=FRAME_BYTES_MAX,
            channel_max=CHANNELS_MAX,
            idle_time_out=heartbeat_ms or None,
            offered_capabilities=symbols(*CAPABILITIES),
            properties={symbol("product"): "tidings"},
        )
        # A handle more than there can be links, for the refusal.
        self._connection = AmqpConnection(self, opening, LINKS_MAX, context.transfers)
        self._links: dict[AmqpLink, OurLink] = {}
        self._consumers: dict[int, ConsumerLink | BrowserLink] = {}  # by the numbers of their subscriptions
        self._closed = False
        self._peer.on_foreign_refusal = self._refused

    # --- bytes ----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now_ms: int) -> None:
        self.context.now_ms = now_ms
        if self._closed:
            return
        try:
            self._connection.receive(data, now_ms)
        except Exception as error:
            self._closed = True
            fault = _fault(error)
            if fault is None:
                raise
            self._give_up(fault)

    def take_output(self) -> bytes:
        output = self._connection.take_output()
        for consumer in self._consumers.values():
            if consumer.starved:
                consumer.flow()
        return output

    def tick(self, now_ms: int) -> None:
        self.context.now_ms = now_ms
        self._connection.tick(now_ms)
        for one in self._consumers.values():
            if isinstance(one, BrowserLink):
                one.tick()

    @property
    def waiting_bytes(self) -> int:
        return self._connection.waiting_bytes

    def fail(self, error: TidingsError) -> None:
        """Send the close with its error, once."""
        self._closed = True
        self._connection.close(error)

    def _give_up(self, error: TidingsError) -> NoReturn:
        """Report the error to the client here: during login the caller may be unable to."""
        self.fail(error)
        raise error from None

    def let_go(self) -> None:
        """The connection is gone."""
        self._closed = True
        self._abandon(lambda _: True)

    def give(self, frames: bytes, at: int) -> int:
        """Frames of the broker; returns how many bytes the kernel has handled."""
        used = self._transfers.give(frames, at, self.context.now_ms)
        if used:
            self._connection.put_given()
            self._look_at_credit()
        return used

    def taken(self) -> None:
        if frames := self._transfers.take_frames():
            self._peer.forward(frames)
        self._look_at_credit()

    def _look_at_credit(self) -> None:
        for number in self._transfers.take_touched():
            consumer = self._consumers.get(number)
            if isinstance(consumer, ConsumerLink):
                consumer.touched()

    def _refused(self, receipt: int, error: TidingsError) -> None:
        """A message that the kernel has published."""
        found = self._transfers.refused(receipt)
        channel = None if found is None else self._connection.channel(found[0])
        if found is None or channel is None:
            return
        _, handle, number, presettled = found
        link = channel.link(handle)
        ours = None if link is None else self._links.get(link)
        if isinstance(link, ReceiverLink) and isinstance(ours, ProducerLink):
            delivery = IncomingDelivery(link, number)
            delivery.presettled = presettled
            ours.refused(delivery, error)

    def deliver(self, delivered: Delivered) -> None:
        consumer = self._consumers.get(delivered.subscription)
        if consumer is not None:
            consumer.deliver(delivered)

    def dropped(self, dropped: Dropped) -> None:
        consumer = self._consumers.get(dropped.subscription)
        if isinstance(consumer, ConsumerLink):
            consumer.dropped(dropped)

    # --- what the client does -------------------------------------------------------------------------------------

    def opened(self, said: AmqpOpen) -> None:
        if len(said.container_id) > NAME_MAX:
            error = RemoteProtocolError("E_FRAME_FIELD", f"container id is longer than {NAME_MAX} characters")
            self._end(error)
            return
        self.context.container = said.container_id
        self._peer.ask(FrameType.IDENTIFY, {"client": said.container_id}, self._identified)
        self._connection.open()

    def _identified(self, answer: Fields | TidingsError) -> None:
        if isinstance(answer, TidingsError):
            self._end(answer)

    def closed(self) -> None:
        self._abandon(lambda _: True)
        self._connection.close()
        self._closed = True
        self._peer.close()

    def _end(self, error: TidingsError) -> None:
        self.fail(error)
        self._peer.close()

    def session_opened(self, channel: AmqpChannel) -> None:
        """It has no meaning of its own."""

    def session_closed(self, channel: AmqpChannel) -> None:
        self._abandon(lambda one: one is channel)

    def _abandon(self, which: Callable[[LinkChannel], bool]) -> None:
        for link in [link for link in self._links if which(link.channel)]:
            self._forget(link).abandon()

    def _forget(self, link: AmqpLink) -> OurLink:
        ours = self._links.pop(link)
        if isinstance(ours, ConsumerLink | BrowserLink):
            self._consumers.pop(ours.number, None)
        return ours

    def link_opened(self, link: AmqpLink) -> None:
        if len(self._links) >= LINKS_MAX:
            self._end(RemoteProtocolError("E_SUBSCRIPTIONS", f"a connection can have at most {LINKS_MAX} links"))
            return
        ours = self._ours(link)
        self._links[link] = link.owner = ours
        try:
            if not 0 < len(link.name) <= NAME_MAX:
                raise RemoteProtocolError("E_SUBSCRIBE_NAME", f"a link name must have 1 to {NAME_MAX} characters")
            ours.attach()
        except TidingsError as error:
            ours.refuse()
            link.refuse(condition_of(error))

    def _ours(self, link: AmqpLink) -> OurLink:
        if isinstance(link, ReceiverLink):
            return ProducerLink(self.context, link, self._transactions)
        assert isinstance(link, SenderLink)
        source = link.remote_source
        if source is None or not (source.address or source.dynamic):
            return ForgetLink(self.context, link)
        consumer = self._consumer(link)
        self._consumers[consumer.number] = consumer
        return consumer

    def _consumer(self, link: SenderLink) -> ConsumerLink | BrowserLink:
        try:
            source = browsed(link, self.context)
        except TidingsError:
            source = None  # the consumer's link will say what is wrong with it
        if source is not None:
            return BrowserLink(self.context, link, source)
        return ConsumerLink(self.context, link, self._transactions)

    def link_closed(self, link: AmqpLink, *, closed: bool) -> None:
        if link in self._links:
            self._forget(link).end(closed=closed)
