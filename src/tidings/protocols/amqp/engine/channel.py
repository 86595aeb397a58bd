"""A session of an AMQP connection: windows, handles and delivery ids (specification, part 2.5).

Transfers go out as far as the client's window and the link's credit allow; the rest waits here, a queue for each link.
Dispositions of deliveries that follow each other leave as one frame.
"""

from typing import Protocol, assert_never

from tidings.errors import RemoteProtocolError, TidingsError
from tidings.kernel.amqp import AmqpSessionCounters, AmqpTransfers
from tidings.protocols.amqp.conditions import condition_of
from tidings.protocols.amqp.engine.link import (
    SERIAL,
    AmqpLink,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
    behind,
)
from tidings.protocols.amqp.engine.states import state_of
from tidings.protocols.amqp.wire.encode import sized
from tidings.protocols.amqp.wire.frames import HEADER_BYTES
from tidings.protocols.amqp.wire.performatives import (
    AmqpAttach,
    AmqpBegin,
    AmqpClose,
    AmqpDetach,
    AmqpDisposition,
    AmqpEnd,
    AmqpFlow,
    AmqpOpen,
    AmqpTransfer,
    Performative,
)
from tidings.protocols.amqp.wire.types import Described, symbol

WINDOW = 0x7FFF_FFFF  # frames; what is not complete is bounded by its bytes
_NO_ACQUISITION = RemoteProtocolError(
    "E_AMQP_NOT_IMPLEMENTED", "a flow cannot name a transaction: say it with each outcome", fatal=False
)
_TRANSFER_BYTES_MAX = 64  # of the performative of our transfers


class ChannelHandler(Protocol):
    def link_opened(self, link: AmqpLink) -> None: ...

    def link_closed(self, link: AmqpLink, *, closed: bool) -> None: ...


class ChannelConnection(Protocol):
    """A session's view of its connection."""

    remote_frame_bytes_max: int
    settling: "dict[AmqpChannel, None]"  # with dispositions that are not written yet
    transfers: AmqpTransfers

    @property
    def handler(self) -> ChannelHandler: ...

    def put(self, performative: Performative, channel: int = 0) -> None: ...

    def put_body(self, body: bytes, channel: int) -> None: ...

    def session_failed(self, channel: "AmqpChannel") -> None: ...


class AmqpChannel:
    def __init__(self, connection: ChannelConnection, number: int, begin: AmqpBegin, handle_max: int) -> None:
        self.number = number  # the same in both directions
        self.counters = AmqpSessionCounters()
        self.counters.next_incoming_id = begin.next_outgoing_id
        self.counters.remote_incoming_window = begin.incoming_window
        self.counters.incoming_window = WINDOW
        self.over = False  # one side has ended it
        self.outgoing_bytes = 0
        self._connection = connection
        self._handle_max, self._remote_handle_max = handle_max, begin.handle_max
        self._links: dict[int, AmqpLink] = {}  # by the client's handle
        self._handles: set[int] = set()  # ours
        self._waiting: dict[SenderLink, None] = {}  # with transfers that wait
        self._unsettled: dict[int, OutgoingDelivery] = {}  # without those of the kernel
        self._settling: AmqpDisposition | None = None  # not written yet
        connection.transfers.add_session(number, self.counters)

    @property
    def links(self) -> list[AmqpLink]:
        return list(self._links.values())

    # --- to the client --------------------------------------------------------------------------------------------

    def put(self, performative: Performative) -> None:
        if not self.over:
            self.put_dispositions()
            self._connection.put(performative, self.number)

    def begin(self) -> None:
        window = (self.counters.next_outgoing_id, WINDOW, WINDOW, self._handle_max)
        self.put(AmqpBegin(self.number, *window))

    def end(self, error: Described | None = None) -> None:
        self.put(AmqpEnd(error))
        self.over = True
        self._connection.transfers.remove_session(self.number)
        self._waiting.clear()
        self.outgoing_bytes = 0

    def fail(self, error: TidingsError) -> None:
        """End it with an error; what the client still sends is of no interest."""
        if not self.over:
            self._connection.session_failed(self)
            self.end(condition_of(error))

    def flow_fields(self) -> tuple[int, int, int, int]:
        one = self.counters
        one.incoming_window = WINDOW
        return one.next_incoming_id, WINDOW, one.next_outgoing_id, WINDOW

    def settle(self, number: int, state: Described | None, *, receiver: bool) -> None:
        """Queue a disposition."""
        last = self._settling
        if last is not None:
            end = last.first if last.last is None else last.last
            if (end + 1) % SERIAL == number and last.role == receiver and last.state == state:
                self._settling = last._replace(last=number)
                return
            self.put_dispositions()
        if not self.over:
            self._settling = AmqpDisposition(receiver, number, None, True, state)
            self._connection.settling[self] = None

    def put_dispositions(self) -> None:
        disposition, self._settling = self._settling, None
        if disposition is not None and not self.over:
            self._connection.put(disposition, self.number)

    # --- transfers ------------------------------------------------------------------------------------------------

    def send(self, link: SenderLink) -> None:
        """It has something to send."""
        self.outgoing_bytes += len(link.pending[-1][1])
        self._waiting[link] = None
        self._send_some(link)
        self.counters.waiting = len(self._waiting)

    def drop(self, link: SenderLink) -> None:
        """Of what it has to send nothing more is sent."""
        self.outgoing_bytes -= link.pending_bytes
        link.pending.clear()
        link.pending_bytes = 0
        self._waiting.pop(link, None)
        self.counters.waiting = len(self._waiting)

    def adopt_all(self, link: SenderLink) -> None:
        """Take over what the kernel has sent by it."""
        for number, _, tag in self.counters.take_of(link.counters.subscription):
            self._unsettled[number] = link.adopt(number, tag)

    def _adopt(self, first: int, count: int) -> None:
        senders = {one.counters.subscription: one for one in self._links.values() if isinstance(one, SenderLink)}
        for number, subscription, tag in self.counters.take_between(first, count):
            if (link := senders.get(subscription)) is not None:
                self._unsettled[number] = link.adopt(number, tag)

    def forget(self, delivery: OutgoingDelivery) -> None:
        self._unsettled.pop(delivery.id, None)
        delivery.link.unsettled.pop(delivery.id, None)

    def _send_some(self, link: SenderLink) -> None:
        session, counters = self.counters, link.counters
        while link.pending and session.remote_incoming_window > 0:
            delivery, content, sent = link.pending[0]
            if delivery.id < 0:
                if counters.credit <= 0:
                    return
                counters.credit -= 1
                counters.delivery_count = (counters.delivery_count + 1) % SERIAL
                delivery.id = session.next_delivery_id
                session.next_delivery_id = (delivery.id + 1) % SERIAL
                if not delivery.settled:
                    self._unsettled[delivery.id] = link.unsettled[delivery.id] = delivery
            room = self._connection.remote_frame_bytes_max - HEADER_BYTES - _TRANSFER_BYTES_MAX
            part = content[sent : sent + room]
            more = sent + len(part) < len(content)
            self.put_dispositions()
            self._connection.put_body(_transfer(delivery, part, first=not sent, more=more), self.number)
            session.next_outgoing_id = (session.next_outgoing_id + 1) % SERIAL
            session.remote_incoming_window -= 1
            self.outgoing_bytes -= len(part)
            link.pending_bytes -= len(part)
            if more:
                link.pending[0] = delivery, content, sent + len(part)
            else:
                link.pending.popleft()
        if not link.pending:
            self._waiting.pop(link, None)

    # --- from the client ------------------------------------------------------------------------------------------

    def handle(self, performative: Performative, payload: bytes) -> None:
        match performative:
            case AmqpTransfer():
                self._transferred(performative, payload)
            case AmqpFlow():
                self._flowed(performative)
            case AmqpDisposition():
                self._disposed(performative)
            case AmqpAttach():
                self._attached(performative)
            case AmqpDetach():
                self._detached(performative)
            case AmqpOpen() | AmqpBegin() | AmqpEnd() | AmqpClose():
                raise RemoteProtocolError("E_AMQP_FRAMING", "unexpected performative in a session")
            case _:
                assert_never(performative)

    def link(self, handle: int) -> AmqpLink | None:
        """By the client's handle."""
        return self._links.get(handle)

    def free(self, link: AmqpLink) -> None:
        """Both sides have detached it."""
        self._handles.discard(link.handle)
        if self._links.get(link.remote_handle) is link:
            del self._links[link.remote_handle]
            self._connection.transfers.remove_link(self.number, link.remote_handle)

    def _link(self, handle: int) -> AmqpLink | None:
        link = self._links.get(handle)
        if link is None or link.remote_detached:
            reason = f"no link is attached to handle {handle}"
            self.fail(RemoteProtocolError("E_AMQP_UNATTACHED", reason, fatal=False))
            return None
        return link

    def _attached(self, attach: AmqpAttach) -> None:
        if attach.handle > self._handle_max:
            raise RemoteProtocolError("E_AMQP_FRAMING", f"handle {attach.handle} is above {self._handle_max}")
        if attach.handle in self._links:
            reason = f"handle {attach.handle} is in use"
            self.fail(RemoteProtocolError("E_AMQP_HANDLE", reason, fatal=False))
            return
        handle = next(number for number in range(len(self._handles) + 1) if number not in self._handles)
        if handle > self._remote_handle_max:
            reason = f"the client's handle-max {self._remote_handle_max} leaves no handle to answer with"
            self.fail(RemoteProtocolError("E_AMQP_LINKS", reason, fatal=False))
            return
        link = SenderLink(self, handle, attach) if attach.role else ReceiverLink(self, handle, attach)
        self._handles.add(handle)
        self._links[attach.handle] = link
        self._connection.handler.link_opened(link)
        if link.answerable:
            self._connection.transfers.add_link(self.number, attach.handle, handle, link.counters)

    def _detached(self, detach: AmqpDetach) -> None:
        link = self._link(detach.handle)
        if link is not None:
            link.detached()
            self._connection.handler.link_closed(link, closed=detach.closed)

    def _flowed(self, flow: AmqpFlow) -> None:
        session = self.counters
        under_way = max(behind(session.next_outgoing_id, flow.next_incoming_id or 0), 0)
        session.remote_incoming_window = max(flow.incoming_window - under_way, 0)
        link = None if flow.handle is None else self._link(flow.handle)
        if self.over:
            return
        if link is not None:
            if _transactional(flow) and link.owner is not None and link.answerable:
                link.owner.fail(_NO_ACQUISITION)
                return
            if isinstance(link, SenderLink):
                link.granted(flow)
            elif isinstance(link, ReceiverLink):
                link.counted(flow)
            if link.owner is not None and link.answerable:
                link.owner.flow()
        for one in list(self._waiting):
            self._send_some(one)
        self.counters.waiting = len(self._waiting)
        if flow.echo and not self.over:
            if link is not None and link.answerable:
                link.put_flow(drain=isinstance(link, SenderLink) and link.draining)
            else:
                self.put(AmqpFlow(*self.flow_fields()))

    def _transferred(self, transfer: AmqpTransfer, payload: bytes) -> None:
        session = self.counters
        session.next_incoming_id = (session.next_incoming_id + 1) % SERIAL
        session.incoming_window -= 1
        link = self._link(transfer.handle)
        if link is None:
            return
        if not isinstance(link, ReceiverLink):
            reason = f"transfer on handle {transfer.handle}, by which the broker sends"
            self.fail(RemoteProtocolError("E_AMQP_ERRANT", reason, fatal=False))
            return
        link.transferred(transfer, payload)
        if session.incoming_window < WINDOW // 2 and not self.over:
            self.put(AmqpFlow(*self.flow_fields()))

    def _disposed(self, disposition: AmqpDisposition) -> None:
        if not disposition.role:
            return  # of its own deliveries a sender says nothing that we need
        first = disposition.first
        count = 1 if disposition.last is None else behind(disposition.last, first) + 1
        if count > 0:
            self._adopt(first, count)
        if count > len(self._unsettled):
            numbers = sorted(one for one in self._unsettled if 0 <= behind(one, first) < count)
        else:
            numbers = [(first + offset) % SERIAL for offset in range(count)]
        state = state_of(disposition.state)
        for number in numbers:
            delivery = self._unsettled.get(number)
            if delivery is None:
                continue
            if disposition.state is not None:
                delivery.state = state
            if disposition.settled:
                delivery.remote_settled = True
                self.forget(delivery)
            if delivery.link.owner is not None:
                delivery.link.owner.updated(delivery)


def _transactional(flow: AmqpFlow) -> bool:
    return isinstance(flow.properties, dict) and flow.properties.get(symbol("txn-id")) is not None


def _transfer(delivery: OutgoingDelivery, part: bytes, *, first: bool, more: bool) -> bytes:
    handle = b"\x70" + delivery.link.handle.to_bytes(4, "big")
    flag = b"\x41" if more else b"\x42"
    if first:
        begin = b"\x70" + delivery.id.to_bytes(4, "big") + sized(0xA0, delivery.tag) + b"\x43"
        fields, count = handle + begin + (b"\x41" if delivery.settled else b"\x42") + flag, 6
    else:
        fields, count = handle + b"\x40\x40\x40\x40" + flag, 6
    return b"\x00\x53\x14\xc0" + bytes((len(fields) + 1, count)) + fields + part
