"""A client that speaks AMQP 1.0: its session with the broker, without I/O.

    socket ─► receive ─► SASL ─► Proton's engine ─► events ─► links ─► native frames ─► take_frames ─► broker
    socket ◄─ take_output ◄───── Proton's engine ◄────────── links ◄─ answers, deliveries ◄─ frames ◄─ broker

To the broker it is one more client of the native protocol: what a link, a transfer or a disposition means is said
there in frames, all those of one read together. So permissions, flow control, acknowledgement and transactions are
the broker's own, and AMQP is a translation.

Who lets go of Proton's objects, and when. Proton (0.40) reads a link's memory after it has freed it, if the link, or a
delivery of it, is let go of after the session (pn_link_finalize drops its last hold on the session, which frees its
links). The broker's answers may come after the client has ended the session, so what waits for them holds our links
only: those let go of deliveries and link, in this order, when they end, while the session is held.
"""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeAlias, assert_never

from proton import (
    Collector,
    Condition,
    Connection,
    Described,
    Endpoint,
    Event,
    Link,
    ProtonException,
    Sender,
    Session,
    Transport,
    symbol,
    ulong,
)

from tidings.errors import CodecError, RemoteProtocolError, TidingsError
from tidings.model.message_id import MessageIdSource
from tidings.node.clients.subscription_plan import NAME_MAX
from tidings.protocols.amqp.browser import BrowserLink, browsed
from tidings.protocols.amqp.conditions import condition_name, condition_of
from tidings.protocols.amqp.consumer import ConsumerLink
from tidings.protocols.amqp.context import Context, refuse
from tidings.protocols.amqp.durable_removal import ForgetLink
from tidings.protocols.amqp.producer import ProducerLink
from tidings.protocols.amqp.sasl import AMQP_HEADER, Sasl, SaslOutcome, amqp_frame
from tidings.protocols.amqp.sasl import SaslState as SaslState
from tidings.protocols.amqp.source import mirror
from tidings.protocols.amqp.transactions import AmqpTransactions
from tidings.protocols.native.frames import FrameType, unsigned
from tidings.protocols.native.peer import Delivered, Dropped, Ended, Fields, NativePeer, Said, Welcomed
from tidings.protocols.session import Caller

CHANNELS_MAX = 255
LINKS_MAX = 4_096  # of one connection
FRAME_BYTES_MAX = 64 << 10
SESSION_BYTES = 512 * FRAME_BYTES_MAX  # the window for incoming transfers, which are read as they come
CAPABILITIES = ("ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS")


OurLink: TypeAlias = ConsumerLink | BrowserLink | ForgetLink | ProducerLink


class AmqpSession:
    """`plain_is_queue`: what an address is that says neither topic nor queue."""

    def __init__(self, caller: Caller, *, plain_is_queue: bool = True) -> None:
        self._caller = caller
        self._plain_is_queue = plain_is_queue
        self._peer = NativePeer(caller.frame_bytes_max + FRAME_BYTES_MAX)
        offered = {"EXTERNAL": bool(caller.certificate), "PLAIN": True, "ANONYMOUS": caller.open}
        self._sasl = Sasl(tuple(mechanism for mechanism, on in offered.items() if on))
        self._engine: AmqpEngine | None = None
        self._over = False
        self._now_ms = 0

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
        self._peer.receive(data, self._said)
        if self._engine is not None:
            self._engine.settle()

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
        ids = MessageIdSource(unsigned(welcome, "publisher"), unsigned(welcome, "broker"))
        frame_max = unsigned(welcome, "frame_max") or self._caller.frame_bytes_max
        context = Context(self._peer, ids, self._caller.permits, self._plain_is_queue, frame_max, self._now_ms)
        return AmqpEngine(context, str(welcome.get("server", "tidings")), unsigned(welcome, "heartbeat_ms"))


def _refusal(error: TidingsError) -> bytes:
    """To one who came without SASL and may not."""
    return AMQP_HEADER + _farewell(error)


def _farewell(error: TidingsError) -> bytes:
    """Opened and closed in one breath, which Proton's engine does not do."""
    why = Described(ulong(0x1D), [symbol(condition_name(error.code)), f"{error.code}: {error.reason}"])
    return amqp_frame(0x10, ["tidings"]) + amqp_frame(0x18, [why])


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
    """Proton's connection and the handling of its events, from login to the end."""

    def __init__(self, context: Context, name: str, heartbeat_ms: int) -> None:
        self.context = context
        self._transactions = AmqpTransactions(context)
        self._peer = context.peer
        self._collector = Collector()
        self._connection = Connection()
        self._connection.collect(self._collector)
        self._connection.container = name
        self._connection.offered_capabilities = [symbol(one) for one in CAPABILITIES]
        self._connection.properties = {symbol("product"): "tidings"}
        self._transport = transport = Transport(Transport.SERVER)
        transport.max_frame_size = FRAME_BYTES_MAX
        transport.channel_max = CHANNELS_MAX
        transport.idle_timeout = 2 * heartbeat_ms / 1000  # Proton tells the client half of it
        transport.bind(self._connection)
        self._links: dict[Link, OurLink] = {}
        self._consumers: dict[int, ConsumerLink | BrowserLink] = {}  # by the numbers of their subscriptions
        self._sessions: dict[Session, None] = {}
        self._ending: list[ConsumerLink | ForgetLink] = []  # detached, and waiting for the broker's word
        self._header = bytearray()
        self._last = b""
        self._closed = self._failed = False

    # --- bytes ----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now_ms: int) -> None:
        self.context.now_ms = now_ms
        if len(self._header) < len(AMQP_HEADER):  # Proton would begin another SASL layer if it were told to
            missing = len(AMQP_HEADER) - len(self._header)
            self._header += data[:missing]
            if not AMQP_HEADER.startswith(bytes(self._header)):
                self._give_up(RemoteProtocolError("E_AMQP_HEADER", "not an AMQP 1.0 protocol header", position=0))
        position = 0
        while position < len(data) and not self._closed:
            capacity = self._transport.capacity()
            if capacity <= 0:
                break
            part = data[position : position + capacity]
            try:
                self._transport.push(part)
            except (ProtonException, OverflowError) as error:
                self._give_up(RemoteProtocolError("E_AMQP_DECODE", str(error)))
            position += len(part)
            self.settle()

    def take_output(self) -> bytes:
        parts = []
        while (pending := self._transport.pending()) > 0:
            parts.append(bytes(self._transport.peek(pending) or b""))
            self._transport.pop(pending)
        if parts and self._connection.state & Endpoint.LOCAL_ACTIVE:
            # The client knows how long it may be silent. Whether it is, the driver judges, who knows if we listen.
            self._transport.idle_timeout = 0
        for consumer in self._consumers.values():
            if consumer.starved:
                consumer.flow()
        last, self._last = self._last, b""
        return b"".join(parts) + last

    def tick(self, now_ms: int) -> None:
        self.context.now_ms = now_ms
        self._transport.tick(now_ms / 1000)
        for one in self._consumers.values():
            if isinstance(one, BrowserLink):
                one.tick()
        self.settle()

    @property
    def waiting_bytes(self) -> int:
        return sum(session.outgoing_bytes for session in self._sessions)

    def fail(self, error: TidingsError) -> None:
        """Send the close with its error, once."""
        self._closed = True
        if self._failed:
            return
        self._failed = True
        if self._connection.state & Endpoint.REMOTE_UNINIT and self._transport.condition is None:
            # Proton closes nothing that the client has not opened, and waits for its header before it sends ours.
            self._last = (b"" if self._header == AMQP_HEADER else AMQP_HEADER) + _farewell(error)
            return
        if self._connection.state & Endpoint.LOCAL_UNINIT:
            self._connection.open()
        if self._connection.state & Endpoint.LOCAL_ACTIVE:
            self._connection.condition = condition_of(error)
            self._connection.close()

    def _give_up(self, error: TidingsError) -> NoReturn:
        """Report the error to the client here: during login the caller may be unable to."""
        self.fail(error)
        raise error from None

    def let_go(self) -> None:
        """Of all links, then of the sessions."""
        self._closed = True
        self._abandon(lambda _: True)
        self._sessions.clear()

    def deliver(self, delivered: Delivered) -> None:
        consumer = self._consumers.get(delivered.subscription)
        if consumer is not None:
            consumer.deliver(delivered)

    def dropped(self, dropped: Dropped) -> None:
        consumer = self._consumers.get(dropped.subscription)
        if isinstance(consumer, ConsumerLink):
            consumer.dropped(dropped)

    # --- events ---------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Handle all that Proton has to tell."""
        for event in self._events():
            handler = _HANDLERS.get(event.type)
            if handler is None or self._closed:
                continue
            try:
                handler(self, event)
            except Exception as error:
                self._closed = True  # the event is still there, and would fail again
                fault = _fault(error)
                if fault is None:
                    raise
                self._give_up(fault)

    def _events(self) -> Iterator[Any]:
        while (event := self._collector.peek()) is not None:
            yield event
            self._collector.pop()

    def _connection_opened(self, _: Event) -> None:
        container = self._connection.remote_container or ""
        if len(container) > NAME_MAX:
            error = RemoteProtocolError("E_FRAME_FIELD", f"container id is longer than {NAME_MAX} characters")
            self._end(error)
            return
        self.context.container = container
        self._peer.ask(FrameType.IDENTIFY, {"client": container}, self._identified)
        self._connection.open()

    def _identified(self, answer: Fields | TidingsError) -> None:
        if isinstance(answer, TidingsError):
            self._end(answer)

    def _connection_closed(self, _: Event) -> None:
        self._abandon(lambda _: True)
        self._connection.close()
        self._closed = True
        self._peer.close()

    def _end(self, error: TidingsError) -> None:
        self.fail(error)
        self._peer.close()

    def _transport_failed(self, event: Event) -> None:
        condition: Condition | None = self._transport.condition
        reason = "the connection failed" if condition is None else f"{condition.name}: {condition.description}"
        raise RemoteProtocolError("E_AMQP_FRAME", reason)

    def _input_ended(self, _: Event) -> None:
        """Before the client has closed: Proton stops reading, without a word, at what is none of AMQP's frames."""
        raise RemoteProtocolError("E_AMQP_DECODE", "frame does not contain an AMQP performative")

    def _session_opened(self, event: Any) -> None:
        session: Session = event.session
        session.incoming_capacity = SESSION_BYTES
        session.open()
        self._sessions[session] = None

    def _session_closed(self, event: Any) -> None:
        session: Session = event.session
        self._abandon(lambda one: one == session)
        self._sessions.pop(session, None)
        session.close()
        session.free()

    def _abandon(self, which: Callable[[Session], bool]) -> None:
        for ending in [one for one in self._ending if one.waits_to_end and which(one.session)]:
            self._ending.remove(ending)
            ending.drift()
        for link in [link for link in self._links if which(link.session)]:
            self._forget(link).abandon()

    def _forget(self, link: Link) -> OurLink:
        ours = self._links.pop(link)
        if isinstance(ours, ConsumerLink | BrowserLink):
            self._consumers.pop(ours.number, None)
        return ours

    def _link_opened(self, event: Any) -> None:
        link = event.link
        if len(self._links) >= LINKS_MAX:
            self._end(RemoteProtocolError("E_SUBSCRIPTIONS", f"a connection can have at most {LINKS_MAX} links"))
            return
        ours: OurLink
        if link.is_sender and not link.remote_source.address and not link.remote_source.dynamic:
            ours = ForgetLink(self.context, link)
        elif link.is_sender:
            mirror(link)
            ours = self._consumer(link)
            self._consumers[ours.number] = ours
        else:
            mirror(link)
            ours = ProducerLink(self.context, link, self._transactions)
        self._links[link] = ours
        try:
            if not 0 < len(link.name or "") <= NAME_MAX:
                raise RemoteProtocolError("E_SUBSCRIBE_NAME", f"a link name must have 1 to {NAME_MAX} characters")
            ours.attach()
        except TidingsError as error:
            ours.refuse()
            refuse(link, error)

    def _consumer(self, link: Sender) -> ConsumerLink | BrowserLink:
        try:
            source = browsed(link, self.context)
        except TidingsError:
            source = None  # the consumer's link will say what is wrong with it
        if source is not None:
            return BrowserLink(self.context, link, source)
        return ConsumerLink(self.context, link, self._transactions)

    def _link_closed(self, event: Any) -> None:
        if event.link in self._links:
            self._end_link(event.link, closed=True)

    def _link_detached(self, event: Any) -> None:
        if event.link in self._links:
            self._end_link(event.link, closed=False)

    def _end_link(self, link: Link, *, closed: bool) -> None:
        ours = self._forget(link)
        ours.end(closed=closed)
        if isinstance(ours, ConsumerLink | ForgetLink):
            self._ending = [one for one in (*self._ending, ours) if one.waits_to_end]

    def _link_flow(self, event: Any) -> None:
        ours = self._links.get(event.link)
        if isinstance(ours, ConsumerLink | BrowserLink):
            ours.flow()

    def _delivery(self, event: Any) -> None:
        ours = self._links.get(event.link)
        if ours is not None:
            ours.updated(event.delivery)


_HANDLERS: dict[Any, Callable[[AmqpEngine, Any], None]] = {
    Event.CONNECTION_REMOTE_OPEN: AmqpEngine._connection_opened,
    Event.CONNECTION_REMOTE_CLOSE: AmqpEngine._connection_closed,
    Event.SESSION_REMOTE_OPEN: AmqpEngine._session_opened,
    Event.SESSION_REMOTE_CLOSE: AmqpEngine._session_closed,
    Event.LINK_REMOTE_OPEN: AmqpEngine._link_opened,
    Event.LINK_REMOTE_CLOSE: AmqpEngine._link_closed,
    Event.LINK_REMOTE_DETACH: AmqpEngine._link_detached,
    Event.LINK_FLOW: AmqpEngine._link_flow,
    Event.DELIVERY: AmqpEngine._delivery,
    Event.TRANSPORT_ERROR: AmqpEngine._transport_failed,
    Event.TRANSPORT_TAIL_CLOSED: AmqpEngine._input_ended,
}
