"""A link by which the broker sends: one subscription.

Credit. What the client allows is passed on to the broker in slices, so that a client with a small session window or a
slow socket cannot make the broker hold more than a slice of its messages. To drain, the broker delivers the waiting
messages and takes back the rest of a slice; if a slice was used up, there may be more, and another one follows.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from tidings.errors import RemoteError, TidingsError
from tidings.kernel.codec import decode_message
from tidings.protocols.amqp.address import address_of
from tidings.protocols.amqp.conditions import condition_of
from tidings.protocols.amqp.context import Context
from tidings.protocols.amqp.engine.link import IncomingDelivery, OutgoingDelivery, SenderLink
from tidings.protocols.amqp.engine.states import DeliveryState, StateCode, state_of, written
from tidings.protocols.amqp.message import write_message
from tidings.protocols.amqp.source import LinkSource, answer_source, read_source
from tidings.protocols.amqp.transactions import AmqpTransactions
from tidings.protocols.native.frames import ACK_DEAD, ACK_ELSEWHERE, ACK_RELEASE, ACK_RETRY, FrameType
from tidings.protocols.native.peer import Delivered, Dropped, Fields

SLICE = 256  # messages that the broker may have under way to us
WINDOW_BYTES = 1 << 20  # of what waits for the client's session window, before the broker gets no more credit


class ConsumerState(Enum):
    ASKED = "asked"
    ACTIVE = "active"
    ENDED = "ended"


class Provisional(NamedTuple):
    """An outcome that a delivery has if a transaction commits."""

    session: int
    flags: int  # of the acknowledgement
    state: StateCode


class ConsumerLink:
    def __init__(self, context: Context, link: SenderLink, transactions: AmqpTransactions) -> None:
        self.number = context.next_number()
        self._context = context
        self._link = link
        self._transactions = transactions
        self._state = ConsumerState.ASKED
        self._source: LinkSource | None = None
        self.starved = False  # the client has credit that the broker does not know of
        self._counters = link.counters  # `granted`: credit that the broker has of us
        self._counters.subscription = self.number
        self._counters.message_bytes_max = link.remote_max_message_size
        self._draining = False  # the broker was asked to
        self._unsettled: dict[int, OutgoingDelivery] = {}
        self._confirming: list[
            tuple[OutgoingDelivery, StateCode]
        ] = []  # with the outcome that we agree to once it is on disk
        self._agreeing = 0  # number of these that the broker was asked about
        self._provisional: dict[int, Provisional] = {}  # of deliveries that are not settled
        self._committing: dict[int, list[tuple[OutgoingDelivery, StateCode]]] = {}  # by session, with the outcome
        self._dropped = 0  # messages, since the client was last told
        self._dropped_reason = ""

    # --- beginning and end ----------------------------------------------------------------------------------------

    def attach(self) -> None:
        """The client wants it: ask the broker."""
        context = self._context
        self._source = source = read_source(self._link, context)
        if source.temporary:
            context.peer.ask(FrameType.TEMPORARY, {"queue": source.destination}, _ignore)
        context.peer.ask(FrameType.SUBSCRIBE, {"subscription": self.number, **source.fields}, self._subscribed)

    def _subscribed(self, answer: Fields | RemoteError) -> None:
        if self._state is ConsumerState.ENDED:
            return
        assert self._source is not None
        if isinstance(answer, RemoteError):
            self._state = ConsumerState.ENDED
            self._link.refuse(condition_of(answer))
            return
        self._state = ConsumerState.ACTIVE
        answer_source(self._link, self._source)
        self._counters.says_destination = self._source.wild
        self._counters.presettled = self._source.presettled
        self._counters.hot = True
        self.flow()

    def refuse(self) -> None:
        """The broker refused it."""
        self._state = ConsumerState.ENDED

    def fail(self, error: TidingsError) -> None:
        if self._state is not ConsumerState.ENDED:
            self.abandon()
            self._link.detach(closed=True, error=condition_of(error))

    def end(self, *, closed: bool) -> None:
        """The client has detached the link; `closed`: and wants no more of what it stands for."""
        if self._state is ConsumerState.ENDED:
            return  # it was we who ended it
        self._state, source = ConsumerState.ENDED, self._source
        assert source is not None
        requests = self._end_subscription(source)
        if closed and source.durable:
            requests.append((FrameType.UNSUBSCRIBE, {"durable": source.durable, "shared": source.shared}))
        for type, fields in requests[:-1]:
            self._context.peer.ask(type, fields, _ignore)
        self._context.peer.ask(*requests[-1], lambda answer: self._gone(answer, closed=closed))

    def abandon(self) -> None:
        """The session around it is gone: so is the subscription, unless it is kept."""
        if self._state is not ConsumerState.ENDED:
            self._state = ConsumerState.ENDED
            assert self._source is not None
            for type, fields in self._end_subscription(self._source):
                self._context.peer.ask(type, fields, _ignore)

    def _end_subscription(self, source: LinkSource) -> list[tuple[FrameType, Fields]]:
        """The frames that end it. Unsettled messages are returned and not counted as tried."""
        self._counters.hot = False
        self._link.channel.adopt_all(self._link)
        for tag, one in self._provisional.items():  # it counts without the link, should its transaction commit
            self._transactions.acknowledge(self.number, tag, one.flags, one.session)
        self._provisional.clear()
        self._transactions.leave(self)
        self._unsettled.clear()
        requests: list[tuple[FrameType, Fields]] = []
        requests.append((FrameType.UNSUBSCRIBE, {"subscription": self.number, "release": True}))
        if source.temporary:
            requests.append((FrameType.TEMPORARY, {"queue": source.destination, "remove": True}))
        return requests

    def _gone(self, answer: Fields | RemoteError, *, closed: bool) -> None:
        link, error = self._link, None
        if not link.attached:
            link.attach(link.remote_source, link.remote_target)
        if isinstance(answer, RemoteError) and answer.code != "E_DURABLE_BUSY":  # others share it: it stays for them
            error = condition_of(answer)
        link.detach(closed=closed, error=error)

    def touched(self) -> None:
        """The kernel has sent by this link, or heard of its credit."""
        self._counters.touched = False
        self.flow()

    # --- credit ---------------------------------------------------------------------------------------------------

    def flow(self) -> None:
        """Credit has changed, or there is room again: see what the broker should be told."""
        if self._state is not ConsumerState.ACTIVE or self._draining:
            return
        link, peer = self._link, self._context.peer
        allowed = link.allowed
        if allowed < self._counters.granted:
            self._drain()  # the client has taken credit back
            return
        target = min(allowed, SLICE)
        if self._counters.granted * 2 <= target and self._counters.granted < target:
            self.starved = link.channel.outgoing_bytes >= WINDOW_BYTES
            if not self.starved:
                peer.credit(self.number, target - self._counters.granted)
                self._counters.granted = target
        if link.draining and allowed and self._counters.granted:
            self._drain()

    def _drain(self) -> None:
        self._draining = True
        self._context.peer.ask(FrameType.DRAIN, {"subscription": self.number}, self._drained)

    def _drained(self, answer: Fields | RemoteError) -> None:
        self._draining = False
        if self._state is not ConsumerState.ACTIVE or isinstance(answer, RemoteError):
            return
        self._counters.granted = 0
        if answer.get("credit") and self._link.draining:
            self._link.drained()
        self.flow()

    # --- deliveries -----------------------------------------------------------------------------------------------

    def deliver(self, delivered: Delivered) -> None:
        if self._state is ConsumerState.ENDED:
            return  # the broker gets it back with the subscription's end
        assert self._source is not None
        self._counters.granted = max(self._counters.granted - 1, 0)
        tag, link, peer = delivered.tag, self._link, self._context.peer
        content = content_of(delivered, link, self._context, say_destination=self._source.wild, notices=self._notices())
        if not content:
            if tag:  # others may be able to take it, if there can be others
                peer.ack(self.number, tag, ACK_RELEASE | ACK_ELSEWHERE if self._source.common else ACK_DEAD)
            self.flow()
            return
        self._counters.sent += 1
        self._dropped = 0
        self._counters.hot = True
        settled = self._source.presettled or not tag
        delivery = link.send(b"%d" % self._counters.sent, content, settled=settled, broker_tag=tag)
        if not settled:
            self._unsettled[tag] = delivery
        elif tag:
            peer.ack(self.number, tag)
        if self._counters.granted * 2 <= SLICE:
            self.flow()

    def dropped(self, dropped: Dropped) -> None:
        """AMQP has no frame to say so: the next message carries it, in its delivery annotations."""
        self._dropped += dropped.count
        self._counters.hot = False  # until it is said
        self._dropped_reason = dropped.reason

    def _notices(self) -> dict[str, int | str]:
        return {"x-opt-dropped": self._dropped, "x-opt-dropped-reason": self._dropped_reason} if self._dropped else {}

    def updated(self, delivery: OutgoingDelivery) -> None:
        """The client says what became of a delivery."""
        tag = delivery.broker_tag
        if tag not in self._unsettled:
            return
        state, session = delivery.state, 0
        transacted = state.code is StateCode.TRANSACTIONAL
        if transacted:
            session = self._transactions.session_of(state.field(0))
            inner = state.field(1)
            state = _ACCEPTED if inner is None else state_of(inner)
        outcome = _outcome(state)
        if transacted and not session:
            outcome = ACK_RETRY  # no such transaction: it did not happen
        self._provisional.pop(tag, None)  # what is said last counts
        if outcome is None:
            if not delivery.remote_settled:
                return  # not decided yet
            outcome = ACK_RELEASE  # settled without a word
        if session and not delivery.remote_settled:
            self._provisional[tag] = Provisional(session, outcome, state.code)
            self._transactions.enlist(session, self)
            return
        del self._unsettled[tag]
        self._transactions.acknowledge(self.number, tag, outcome, session)
        if delivery.remote_settled or transacted:
            delivery.settle()
        else:
            self._confirming.append((delivery, state.code))
            self._confirm()

    def adopted(self, delivery: OutgoingDelivery) -> None:
        self._unsettled[delivery.broker_tag] = delivery

    def received(self, delivery: IncomingDelivery, payload: bytes, *, more: bool) -> None:
        """The broker sends."""

    def aborted(self, delivery: IncomingDelivery) -> None:
        """The broker sends."""

    # --- outcomes in a transaction, of a receiver that keeps the deliveries until its end -------------------------

    def commit(self, session: int) -> None:
        """They become part of it: from here on they share its fate."""
        deliveries = self._committing.setdefault(session, [])
        for tag in self._of(session):
            one = self._provisional.pop(tag)
            self._transactions.acknowledge(self.number, tag, one.flags, session)
            deliveries.append((self._unsettled.pop(tag), one.state))

    def committed(self, session: int, *, done: bool) -> None:
        """Settle the transaction's deliveries; without `done` the broker delivers the messages again."""
        for delivery, state in self._committing.pop(session, ()):
            delivery.settle(written(state) if done else None)

    def roll_back(self, session: int) -> None:
        """They were never said: the deliveries are the client's, as before."""
        for tag in self._of(session):
            del self._provisional[tag]

    def _of(self, session: int) -> list[int]:
        return [tag for tag, one in self._provisional.items() if one.session == session]

    # --- a receiver that settles second ---------------------------------------------------------------------------

    def _confirm(self) -> None:
        """It forgets a delivery when we have: not before the broker will not remember it either, whatever happens."""
        if self._confirming and not self._agreeing:
            self._agreeing = len(self._confirming)
            self._context.peer.ask(FrameType.SYNC, {}, self._confirmed)

    def _confirmed(self, answer: Fields | RemoteError) -> None:
        count, self._agreeing = self._agreeing, 0
        if isinstance(answer, RemoteError):
            return  # the disk takes nothing: asked again with the next one
        for delivery, state in self._confirming[:count]:
            delivery.settle(written(state))
        del self._confirming[:count]
        self._confirm()


def content_of(
    delivered: Delivered,
    link: SenderLink,
    context: Context,
    *,
    say_destination: bool,
    notices: Mapping[str, int | str] | None = None,
) -> bytes:
    """The message as this link can send it; empty: it cannot."""
    try:
        message = decode_message(delivered.message)
        annotations: dict[str, int | str] = dict(notices or {})
        if say_destination:
            annotations["x-opt-destination"] = address_of(message.destination)
        content = write_message(message, delivered.attempt, context.now_ms, annotations)
    except TidingsError:  # what it keeps for AMQP is not what we put there
        return b""
    return b"" if 0 < link.remote_max_message_size < len(content) else content


def _ignore(_: object) -> None:
    """The answer changes nothing."""


_ACCEPTED = DeliveryState(StateCode.ACCEPTED, [])


def _outcome(state: DeliveryState) -> int | None:
    """As flags of an acknowledgement; None: not decided."""
    match state.code:
        case StateCode.ACCEPTED:
            return 0
        case StateCode.REJECTED:
            return ACK_DEAD
        case StateCode.RELEASED:
            return ACK_RELEASE
        case StateCode.MODIFIED:
            failed, undeliverable = state.field(0) is True, state.field(1) is True
            return (ACK_RETRY if failed else ACK_RELEASE) | (ACK_ELSEWHERE if undeliverable else 0)
        case _:
            return None
