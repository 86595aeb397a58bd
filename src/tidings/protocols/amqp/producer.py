"""A link by which we receive: a publisher's, or a transaction coordinator's.

A delivery is settled when the broker has accepted the message, which for a durable one means that it is on disk. So
many messages as a link has credit may be under way between the two.
"""

from functools import partial

from tidings.errors import CodecError, LimitError, RemoteError, RemoteProtocolError, SecurityError, TidingsError
from tidings.kernel.codec import encode_message
from tidings.model.destination import NAME_BYTES_MAX as DESTINATION_BYTES_MAX
from tidings.model.destination import Destination
from tidings.protocols.amqp.address import read_address
from tidings.protocols.amqp.conditions import condition_of
from tidings.protocols.amqp.context import Context
from tidings.protocols.amqp.engine.link import RCV_FIRST, IncomingDelivery, OutgoingDelivery, ReceiverLink
from tidings.protocols.amqp.engine.states import ACCEPTED, StateCode
from tidings.protocols.amqp.engine.terminus import Coordinator, Terminus
from tidings.protocols.amqp.message import Incoming, read_message
from tidings.protocols.amqp.source import address_of_pattern, answer_lifetime
from tidings.protocols.amqp.transactions import AmqpTransactions, accept_in, declared, reject
from tidings.protocols.amqp.wire.types import symbols
from tidings.protocols.native.frames import FrameType
from tidings.protocols.native.peer import Fields

CREDIT = 2000
FRAME_OVERHEAD = 64  # of the frame around a message
FIELDS_OVERHEAD = 256  # of what our fields take more than AMQP's
PARTIAL_MESSAGES = 2  # of the largest size may be incomplete on a connection
_TRANSACTIONS = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
_CLOSED = RemoteProtocolError("E_AMQP_LINK", "the link of one of the transaction's messages was closed", fatal=False)


class ProducerLink:
    def __init__(self, context: Context, link: ReceiverLink, transactions: AmqpTransactions) -> None:
        self._context = context
        self._link = link
        self._transactions = transactions
        self._destination: Destination | None = None
        self._coordinator = link.coordinator
        self._temporary = ""
        self._sessions: set[int] = set()  # transactions declared here
        self._content = bytearray()  # of a delivery that is not complete
        self._too_large = False
        self._under_way: dict[int, IncomingDelivery] = {}  # not settled by us
        self._taken = 0
        self._ended = False
        self._discards = False  # the link is refused, and what still comes is of no interest

    # --- beginning and end ----------------------------------------------------------------------------------------

    def attach(self) -> None:
        link, target = self._link, self._link.remote_target
        link.rcv_settle_mode = RCV_FIRST
        if isinstance(target, Coordinator):
            answer: Coordinator | Terminus = Coordinator(symbols(*_TRANSACTIONS))
        else:
            target = target or Terminus()
            answer = answer_lifetime(target, kept=False)
            if target.dynamic:
                answer.address = self._make_temporary(target)
            elif target.address:
                self._destination = self._named(target, target.address)
        link.max_message_size = self._message_bytes_max()
        link.attach(link.remote_source, answer)
        if self._destination is not None:
            link.counters.destination, link.counters.queue = self._destination.name, self._destination.queue
            link.counters.hot = True
        link.grant(CREDIT)

    def _message_bytes_max(self) -> int:
        """The parts of a message that need not be kept twice, for AMQP and for all other protocols."""
        name = DESTINATION_BYTES_MAX if self._destination is None else len(self._destination.name.encode())
        return max(self._context.frame_bytes_max - FRAME_OVERHEAD - FIELDS_OVERHEAD - name, 1)

    def _named(self, target: Terminus, address: str) -> Destination:
        context = self._context
        text = read_address(address, target.capability_names, plain_is_queue=context.plain_is_queue)
        destination = Destination.parse(text)
        if not context.permits("publish", str(destination)):
            raise SecurityError("E_FORBIDDEN", f"no permission to publish to {destination}")
        return destination

    def _make_temporary(self, target: Terminus) -> str:
        """The address of a new destination, which ends with the link."""
        context = self._context
        topic = "temporary-topic" in target.capability_names
        self._destination = Destination(context.next_temporary(), queue=not topic)
        if not topic:
            self._temporary = str(self._destination)
            context.peer.ask(FrameType.TEMPORARY, {"queue": self._temporary}, self._refused)
        return address_of_pattern(str(self._destination))

    def _refused(self, answer: object) -> None:
        if isinstance(answer, RemoteError):
            self.fail(answer)

    def refuse(self) -> None:
        """The broker refused it."""
        self._discards = True

    def end(self, *, closed: bool) -> None:
        self._leave()
        self._link.detach(closed=closed)

    def abandon(self) -> None:
        self._leave()

    def _leave(self) -> None:
        self._ended = True
        self._link.counters.hot = False
        self._forget_content()
        self._transactions.roll_back(self._sessions)
        if self._temporary:
            remove: Fields = {"queue": self._temporary, "remove": True}
            self._context.peer.ask(FrameType.TEMPORARY, remove, lambda _: None)

    def fail(self, error: TidingsError) -> None:
        if not self._discards and not self._ended:
            self._discards = True
            self._link.counters.hot = False
            self._forget_content()
            self._link.detach(closed=True, error=condition_of(error))

    # --- deliveries -----------------------------------------------------------------------------------------------

    def flow(self) -> None:
        """The sender has used up credit without sending."""
        self._less()

    def refused(self, delivery: IncomingDelivery, error: TidingsError) -> None:
        """The broker has refused a message that the kernel has published."""
        self._taken += 1
        self._under_way[self._taken] = delivery
        self._settled(self._taken, error)

    def adopted(self, delivery: OutgoingDelivery) -> None:
        """The client sends."""

    def updated(self, delivery: OutgoingDelivery) -> None:
        """The client sends."""

    def aborted(self, delivery: IncomingDelivery) -> None:
        self._forget_content()
        self._less()

    def received(self, delivery: IncomingDelivery, payload: bytes, *, more: bool) -> None:
        if self._overdrawn():
            return
        self._keep(payload)
        if more:
            self._note_posting(delivery)
            return
        content, too_large = bytes(self._content), self._too_large
        self._forget_content()
        if self._discards:
            self._transactions.spoil(self._claimed(delivery), _CLOSED)
            return
        self._taken += 1
        self._under_way[self._taken] = delivery
        session = 0
        try:
            session = self._session_of(delivery)
            if too_large:
                raise CodecError("E_AMQP_SIZE", f"message exceeds the limit of {self._context.frame_bytes_max} bytes")
            self._take(content, session, self._taken)
        except TidingsError as error:
            self._transactions.spoil(session, error)
            self._settled(self._taken, error)

    def _session_of(self, delivery: IncomingDelivery) -> int:
        """Of the transaction it belongs to; 0: to none."""
        session = self._claimed(delivery)
        if not session and delivery.state.code is StateCode.TRANSACTIONAL:
            raise RemoteProtocolError("E_AMQP_TRANSACTION_UNKNOWN", "unknown transaction id", fatal=False)
        return session

    def _claimed(self, delivery: IncomingDelivery) -> int:
        """The session of the transaction that it names; 0: it names none, or there is none such."""
        if delivery.state.code is not StateCode.TRANSACTIONAL:
            return 0
        return self._transactions.session_of(delivery.state.field(0))

    def _note_posting(self, delivery: IncomingDelivery) -> None:
        """A transaction does not end well amid one of its messages."""
        if self not in self._transactions.posting and (session := self._claimed(delivery)):
            self._transactions.posting[self] = session

    def _keep(self, part: bytes) -> None:
        """Part of a message. Of one that is too large nothing is kept, but its end is waited for.

        To detach the link in the middle would be as right, but some clients send on and lose the connection.
        """
        context = self._context
        if self._discards or self._too_large:
            return
        self._content += part
        context.partial_bytes += len(part)
        if context.partial_bytes > PARTIAL_MESSAGES * context.frame_bytes_max:
            raise LimitError(
                "E_AMQP_PARTIAL", "too many incomplete messages: finish some before you start others", fatal=True
            )
        if len(self._content) > context.frame_bytes_max:
            self._forget_content()
            self._too_large = True

    def _forget_content(self) -> None:
        self._context.partial_bytes -= len(self._content)
        self._content.clear()
        self._too_large = False
        self._transactions.posting.pop(self, None)

    def _take(self, content: bytes, session: int, number: int) -> None:
        context = self._context
        if self._coordinator:
            self._sessions |= self._transactions.command(content, partial(self._commanded, number))
            return
        incoming = Incoming(self._destination, context.next_id, context.now_ms, context.plain_is_queue)
        message = encode_message(read_message(content, incoming))
        if (size := len(message) + FRAME_OVERHEAD) > context.frame_bytes_max:
            reason = f"with what is kept of it for AMQP it takes {size} bytes, of {context.frame_bytes_max} at most"
            raise CodecError("E_AMQP_SIZE", reason)
        context.peer.publish(message, lambda error: self._settled(number, error, session), session=session)

    def _commanded(self, number: int, txn_id: bytes | None, error: TidingsError | None) -> None:
        if txn_id is None or self._ended:
            self._settled(number, error)
        else:
            declared(self._under_way.pop(number), txn_id)
            self._less()

    def _settled(self, number: int, error: TidingsError | None, session: int = 0) -> None:
        """The broker has decided."""
        if self._ended:
            return
        delivery = self._under_way.pop(number)
        if error is not None:
            if delivery.presettled:
                self.fail(error)  # there is no other way to say it
            else:
                reject(delivery, error)
        elif session:
            accept_in(delivery, session)
        else:
            delivery.settle(ACCEPTED)
        self._less()

    def _less(self) -> None:
        """One less is under way: the publisher may send one more, told in larger portions."""
        if self._overdrawn():
            return
        counters = self._link.counters
        more = CREDIT - counters.credit - len(self._under_way) - counters.under_way
        if more * 2 >= CREDIT and not self._discards:
            self._link.grant(more)

    def _overdrawn(self) -> bool:
        """The client has sent more than its credit, or less than nothing: it is refused."""
        if 0 <= self._link.counters.credit <= CREDIT:
            return False
        error = RemoteProtocolError("E_AMQP_CREDIT", "delivery-count disagrees with the credit granted", fatal=False)
        self.fail(error)
        return True
