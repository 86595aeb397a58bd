"""Transactions of AMQP (specification, part 4): a coordinator's link, and what is done under a transaction's id.

A transaction is a session of the native protocol that is in one; its id is the session's number. What is posted in it,
and the outcomes of what was received, go to the broker at once, which keeps them back until the commit. A message that
was refused here, before the broker could know of it, spoils the transaction: it can only be rolled back.

Outcomes of deliveries that the receiver has not settled wait at their links for the end of the transaction (4.4.2):
after a rollback the deliveries are still the receiver's, and undecided. To the broker they go with the commit.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from tidings.errors import RemoteError, RemoteProtocolError, TidingsError
from tidings.protocols.amqp.conditions import condition_of
from tidings.protocols.amqp.context import Context
from tidings.protocols.amqp.engine.link import IncomingDelivery
from tidings.protocols.amqp.engine.states import ACCEPTED, StateCode, written
from tidings.protocols.amqp.sections import MessageSection, decode_sections
from tidings.protocols.amqp.wire.types import AmqpValue, Described, ulong
from tidings.protocols.native.frames import ACK_WITH_COMMIT, FrameType
from tidings.protocols.native.peer import Fields

DECLARE, DISCHARGE = 0x31, 0x32
SESSIONS_MAX = 0xFFFF
OnDone: TypeAlias = Callable[[bytes | None, TidingsError | None], None]  # the new transaction's id, what went wrong
_NUMBERS: dict[AmqpValue, int] = {"amqp:declare:list": DECLARE, "amqp:discharge:list": DISCHARGE}


class Enlisted(Protocol):
    """Holds outcomes that wait for the end of a transaction."""

    def commit(self, session: int) -> None: ...

    def committed(self, session: int, *, done: bool) -> None: ...

    def roll_back(self, session: int) -> None: ...


class AmqpTransactions:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._open: dict[int, TidingsError | None] = {}  # session -> why it cannot be committed, if that is so
        self.posting: dict[object, int] = {}  # link -> the session of a message that is not complete
        self._enlisted: dict[int, set[Enlisted]] = {}
        self._last = 0

    def enlist(self, session: int, link: Enlisted) -> None:
        self._enlisted.setdefault(session, set()).add(link)

    def leave(self, link: Enlisted) -> None:
        """It ends, and has nothing that waits."""
        for links in self._enlisted.values():
            links.discard(link)

    def session_of(self, txn_id: AmqpValue) -> int:
        """The session in this transaction; 0: there is none."""
        session = int.from_bytes(txn_id, "big") if isinstance(txn_id, bytes) and len(txn_id) == 2 else 0
        return session if session in self._open else 0

    def acknowledge(self, subscription: int, tag: int, flags: int, session: int) -> None:
        if session and flags:
            flags |= ACK_WITH_COMMIT
        self._context.peer.ack(subscription, tag, flags, session=session)

    def spoil(self, session: int, error: TidingsError) -> None:
        """Something that belongs to it was refused."""
        if session in self._open and self._open[session] is None:
            self._open[session] = error

    def command(self, content: bytes, on_done: OnDone) -> set[int]:
        """A message to the coordinator. Returns the session that it begins, if it does."""
        command = _command(content)
        fields = command.value if isinstance(command.value, list) else []
        if command.descriptor == DECLARE:
            if fields and fields[0] is not None:
                raise RemoteProtocolError(
                    "E_AMQP_NOT_IMPLEMENTED", "a transaction can include only this broker", fatal=False
                )
            return {self._declare(on_done)}
        session = self.session_of(fields[0] if fields else None)
        if not session:
            raise RemoteProtocolError("E_AMQP_TRANSACTION_UNKNOWN", "unknown transaction id", fatal=False)
        self._discharge(session, fails=bool(fields[1:2] and fields[1]), on_done=on_done)
        return set()

    def roll_back(self, sessions: set[int]) -> None:
        """Their coordinator's link is gone."""
        for session in sessions & self._open.keys():
            self._discharge(session, fails=True, on_done=lambda _, __: None)

    def _declare(self, on_done: OnDone) -> int:
        if len(self._open) >= SESSIONS_MAX:
            raise RemoteProtocolError(
                "E_TRANSACTIONS", f"a connection can have at most {SESSIONS_MAX} open transactions", fatal=False
            )
        self._last = self._last % SESSIONS_MAX + 1
        while self._last in self._open:
            self._last = self._last % SESSIONS_MAX + 1
        session = self._last
        self._open[session] = None

        def begun(answer: Fields | RemoteError) -> None:
            if isinstance(answer, RemoteError):
                self._open.pop(session, None)
                on_done(None, answer)
            else:
                on_done(session.to_bytes(2, "big"), None)

        self._context.peer.ask(FrameType.BEGIN, {}, begun, session=session)
        return session

    def _discharge(self, session: int, *, fails: bool, on_done: OnDone) -> None:
        if session in self.posting.values():
            self.spoil(
                session,
                RemoteProtocolError("E_AMQP_PARTIAL", "the transaction contains an incomplete message", fatal=False),
            )
        failure = self._open.pop(session)
        commits = not fails and failure is None
        links = self._enlisted.pop(session, set())
        for link in links:
            if commits:
                link.commit(session)
            else:
                link.roll_back(session)

        def ended(answer: Fields | RemoteError) -> None:
            error = answer if isinstance(answer, RemoteError) else None if fails else failure
            for link in links:
                link.committed(session, done=error is None)
            on_done(None, None if error is None else _rolled_back(error))

        end = FrameType.COMMIT if commits else FrameType.ROLLBACK
        self._context.peer.ask(end, {}, ended, session=session)


def _rolled_back(error: TidingsError) -> TidingsError:
    """Whatever the reason, the answer to a discharge says what became of the transaction."""
    return RemoteProtocolError("E_TRANSACTION_FAILED", f"rolled back: {error.code}: {error.reason}", fatal=False)


def declared(delivery: IncomingDelivery, txn_id: bytes) -> None:
    delivery.settle(written(StateCode.DECLARED, txn_id))


def accept_in(delivery: IncomingDelivery, session: int) -> None:
    """A message posted in a transaction is accepted, should it commit."""
    delivery.settle(written(StateCode.TRANSACTIONAL, session.to_bytes(2, "big"), ACCEPTED))


def reject(delivery: IncomingDelivery, error: TidingsError) -> None:
    delivery.settle(written(StateCode.REJECTED, condition_of(error)))


def _command(content: bytes) -> Described:
    sections = [one for one in decode_sections(content) if one.section is MessageSection.VALUE]
    value: AmqpValue = sections[0].value if len(sections) == 1 else None
    if isinstance(value, Described):
        descriptor = value.descriptor
        number: AmqpValue = _NUMBERS.get(descriptor) if isinstance(descriptor, str) else descriptor
        if number in (DECLARE, DISCHARGE):
            return Described(ulong(number), value.value)
    raise RemoteProtocolError("E_AMQP_TRANSACTION", "a coordinator accepts only declare and discharge", fatal=False)
