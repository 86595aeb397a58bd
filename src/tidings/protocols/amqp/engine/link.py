"""Links: credit, transfers and settlement in one direction (specification, parts 2.6 and 2.7).

The client attaches, we answer. A link's owner is what it stands for in the broker; it is called for what the client
does with the link, and calls back at any later time: after the session has ended nothing more is written.
"""

from collections import deque
from typing import Protocol

from tidings.errors import RemoteProtocolError, TidingsError
from tidings.kernel.amqp import AmqpLinkCounters
from tidings.protocols.amqp.engine.states import DeliveryState, StateCode, state_of
from tidings.protocols.amqp.engine.terminus import Coordinator, Target, Terminus, read_source, read_target
from tidings.protocols.amqp.wire.performatives import AmqpAttach, AmqpDetach, AmqpFlow, AmqpTransfer, Performative
from tidings.protocols.amqp.wire.types import AmqpValue, Described

SERIAL = 1 << 32
SND_SETTLED, SND_UNSETTLED, RCV_FIRST = 1, 0, 0


def behind(ahead: int, other: int) -> int:
    """The distance of two serial numbers; negative: the first is behind."""
    return (ahead - other + (SERIAL >> 1)) % SERIAL - (SERIAL >> 1)


class OutgoingDelivery:
    """A message that we send: until it is settled."""

    __slots__ = ("broker_tag", "id", "link", "remote_settled", "settled", "state", "tag")

    def __init__(self, link: "SenderLink", tag: bytes, *, settled: bool, broker_tag: int) -> None:
        self.link = link
        self.tag = tag
        self.settled = settled
        self.broker_tag = broker_tag
        self.id = -1  # it has none before its first transfer
        self.remote_settled = False
        self.state = DeliveryState(StateCode.NONE, [])

    def settle(self, state: Described | None = None) -> None:
        """Forget it, and tell the client so, unless it has forgotten it before."""
        if self.settled:
            return
        self.settled = True
        if self.id >= 0:
            self.link.channel.forget(self)
            if not self.remote_settled:
                self.link.channel.settle(self.id, state, receiver=False)


class IncomingDelivery:
    """A message that the client sends: until it is settled."""

    __slots__ = ("format", "id", "link", "presettled", "state", "tag")

    def __init__(self, link: "ReceiverLink", number: int) -> None:
        self.link = link
        self.id = number
        self.presettled = False
        self.state = DeliveryState(StateCode.NONE, [])
        self.tag = b""
        self.format = 0

    def goes_on(self, transfer: AmqpTransfer) -> bool:
        """True if a further transfer says no other id, tag or format than the first [2.7.5]."""
        return (
            transfer.delivery_id in (None, self.id)
            and transfer.delivery_tag in (None, self.tag)
            and transfer.message_format in (None, self.format)
        )

    def settle(self, state: Described | None) -> None:
        if not self.presettled:
            self.link.channel.settle(self.id, state, receiver=True)


class LinkChannel(Protocol):
    """A link's view of its session."""

    over: bool  # one side has ended it
    outgoing_bytes: int

    def put(self, performative: Performative) -> None: ...

    def settle(self, number: int, state: Described | None, *, receiver: bool) -> None:
        """Queue a disposition."""

    def flow_fields(self) -> tuple[int, int, int, int]: ...

    def send(self, link: "SenderLink") -> None:
        """It has something to send."""

    def adopt_all(self, link: "SenderLink") -> None:
        """Take over what the kernel has sent by it."""

    def drop(self, link: "SenderLink") -> None:
        """Of what it has to send nothing more is sent."""

    def forget(self, delivery: OutgoingDelivery) -> None:
        """It is settled."""

    def free(self, link: "AmqpLink") -> None:
        """Both sides have detached it."""


class LinkOwner(Protocol):
    def flow(self) -> None:
        """The client's credit, or its count of deliveries, has changed."""

    def fail(self, error: TidingsError) -> None:
        """End the link with an error."""

    def updated(self, delivery: OutgoingDelivery) -> None:
        """The client has said what became of a delivery."""

    def adopted(self, delivery: OutgoingDelivery) -> None:
        """The kernel has sent this message, and it is not settled."""

    def received(self, delivery: IncomingDelivery, payload: bytes, *, more: bool) -> None:
        """A part of a message, or all of it."""

    def aborted(self, delivery: IncomingDelivery) -> None:
        """The client has given up a message that it has sent parts of."""


class AmqpLink:
    """The common part of links of both directions."""

    receives = False

    def __init__(self, channel: LinkChannel, handle: int, attach: AmqpAttach) -> None:
        self.channel = channel
        self.handle = handle  # ours
        self.remote_handle = attach.handle
        self.name = attach.name
        self.remote_source: Terminus | None = read_source(attach.source)
        self.remote_target: Target | None = read_target(attach.target)
        self.remote_snd_settle_mode = attach.snd_settle_mode
        self.remote_rcv_settle_mode = attach.rcv_settle_mode
        self.remote_max_message_size = attach.max_message_size
        self.remote_properties = attach.properties
        self.snd_settle_mode = attach.snd_settle_mode
        self.rcv_settle_mode = attach.rcv_settle_mode
        self.max_message_size = 0
        self.counters = AmqpLinkCounters()
        self.owner: LinkOwner | None = None
        self.remote_detached = False
        self._attached = self._detached = False

    @property
    def answerable(self) -> bool:
        return not self._detached and not self.channel.over

    @property
    def attached(self) -> bool:
        return self._attached

    def attach(self, source: Terminus | None, target: Target | None) -> None:
        """Answer the client's attach."""
        if not self.answerable or self._attached:
            return
        self._attached = True
        self.channel.put(
            AmqpAttach(
                self.name,
                self.handle,
                self.receives,
                self.snd_settle_mode,
                self.rcv_settle_mode,
                None if source is None else source.as_source(),
                None if target is None else target.as_target(),
                initial_delivery_count=None if self.receives else self.counters.delivery_count,
                max_message_size=self.max_message_size,
            )
        )

    def refuse(self, error: Described) -> None:
        """Attach without source or target and detach with the error, as the specification requires."""
        self.attach(None, None)
        self.detach(closed=True, error=error)

    def detach(self, *, closed: bool, error: AmqpValue = None) -> None:
        if not self.answerable:
            return
        self._leave()
        self._detached = True
        self.channel.put(AmqpDetach(self.handle, closed, error))
        if self.remote_detached:
            self.channel.free(self)

    def detached(self) -> None:
        """The client has detached it."""
        self.remote_detached = True
        if self._detached:
            self.channel.free(self)

    def put_flow(self, *, drain: bool = False) -> None:
        if not self.answerable or not self._attached:
            return
        one = self.counters
        window = self.channel.flow_fields()
        self.channel.put(AmqpFlow(*window, self.handle, one.delivery_count, one.credit, drain=drain))

    def _leave(self) -> None:
        """Before the detach."""


class SenderLink(AmqpLink):
    """We send."""

    def __init__(self, channel: LinkChannel, handle: int, attach: AmqpAttach) -> None:
        super().__init__(channel, handle, attach)
        self.draining = False
        self.pending: deque[tuple[OutgoingDelivery, bytes, int]] = deque()  # content, and how much of it is sent
        self.pending_bytes = 0
        self.unsettled: dict[int, OutgoingDelivery] = {}  # by their ids

    @property
    def allowed(self) -> int:
        """Messages that may be sent beside those that wait."""
        started = bool(self.pending) and self.pending[0][0].id >= 0  # its credit is used
        return max(self.counters.credit - len(self.pending) + started, 0)

    def send(self, tag: bytes, content: bytes, *, settled: bool, broker_tag: int = 0) -> OutgoingDelivery:
        delivery = OutgoingDelivery(self, tag, settled=settled, broker_tag=broker_tag)
        if self.answerable:
            self.pending.append((delivery, content, 0))
            self.pending_bytes += len(content)
            self.channel.send(self)
        return delivery

    def granted(self, flow: AmqpFlow) -> None:
        one = self.counters
        if flow.link_credit is not None:
            under_way = max(behind(one.delivery_count, flow.delivery_count or 0), 0)
            one.credit = max(flow.link_credit - under_way, 0)
        self.draining = one.draining = flow.drain

    def drained(self) -> None:
        """There is nothing for the rest of the credit."""
        one = self.counters
        one.delivery_count = (one.delivery_count + one.credit) % SERIAL
        one.credit = 0
        self.put_flow(drain=True)

    def adopt(self, number: int, delivery_tag: int) -> OutgoingDelivery:
        """A delivery that the kernel has sent."""
        delivery = OutgoingDelivery(self, b"", settled=False, broker_tag=delivery_tag)
        delivery.id = number
        self.unsettled[number] = delivery
        if self.owner is not None:
            self.owner.adopted(delivery)
        return delivery

    def _leave(self) -> None:
        self.channel.adopt_all(self)
        self.channel.drop(self)
        for delivery in list(self.unsettled.values()):
            delivery.settle()


class ReceiverLink(AmqpLink):
    """We receive."""

    receives = True

    def __init__(self, channel: LinkChannel, handle: int, attach: AmqpAttach) -> None:
        super().__init__(channel, handle, attach)
        self.counters.delivery_count = attach.initial_delivery_count or 0
        self._partial: IncomingDelivery | None = None

    @property
    def coordinator(self) -> bool:
        return isinstance(self.remote_target, Coordinator)

    def grant(self, more: int) -> None:
        self.counters.credit += more
        self.put_flow()

    def counted(self, flow: AmqpFlow) -> None:
        """The sender's count of deliveries, when it has used up credit without sending."""
        if flow.delivery_count is not None:
            one = self.counters
            one.credit -= behind(flow.delivery_count, one.delivery_count)
            one.delivery_count = flow.delivery_count

    def transferred(self, transfer: AmqpTransfer, payload: bytes) -> None:
        delivery = self._partial
        if delivery is None:
            if transfer.delivery_id is None or transfer.delivery_tag is None:
                raise RemoteProtocolError("E_AMQP_DECODE", "the first transfer of a message without delivery id or tag")
            delivery = IncomingDelivery(self, transfer.delivery_id)
            delivery.tag, delivery.format = transfer.delivery_tag, transfer.message_format or 0
            one = self.counters
            one.delivery_count = (one.delivery_count + 1) % SERIAL
            one.credit -= 1
        elif not delivery.goes_on(transfer):
            raise RemoteProtocolError("E_AMQP_DECODE", "another message begins before the last one has ended")
        delivery.presettled |= bool(transfer.settled)
        if transfer.state is not None:
            delivery.state = state_of(transfer.state)
        self._partial = delivery if transfer.more and not transfer.aborted else None
        if self.owner is None or not self.answerable:
            return
        if transfer.aborted:
            self.owner.aborted(delivery)
        else:
            self.owner.received(delivery, payload, more=transfer.more)
