"""Messages that go from one queue to another, in one batch with their end where they were: dead letters above all."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import Mailbox
from tidings.delivery.message_cache import MessageCache
from tidings.errors import TidingsError
from tidings.kernel.codec import altered, decode_message, encode_message
from tidings.model.destination import Destination
from tidings.model.message import PROPERTIES_MAX, Message
from tidings.model.values import Value
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.completions import FinishMove, Outcome
from tidings.node.effects import Log
from tidings.node.mailboxes.mailbox_table import MailboxTable
from tidings.tracking.recording.losses import LossCause

EXPIRED, REJECTED, TOO_OFTEN = "expired", "rejected by its consumer", "delivered too often"
OVERFLOWED = "its queue was full"
ORIGIN, CAUSE = "JMSXOriginalDestination", "JMSXDeathCause"


class MailboxAccess(Protocol):
    """The part of the mailbox service that dead letters need."""

    message_cache: MessageCache

    def finished(self, mailbox: Mailbox, seqs: list[int]) -> None: ...
    def lose(self, mailbox: Mailbox, seq: int, cause: LossCause) -> None: ...
    def finished_if_written(self, mailbox: Mailbox, seqs: list[int]) -> None: ...
    def returned(self, mailbox: Mailbox, dead: list[BacklogPosition]) -> None: ...
    def relocate(self, message: bytes, mailbox: Mailbox, expires_ms: int, outcome: Outcome) -> None: ...


class DeadLetters:
    def __init__(
        self, service: MailboxAccess, mailboxes: MailboxTable, grave: Destination, outbox: AnswerBatch
    ) -> None:
        self.buried = 0
        self.failed = 0  # could not be buried, and wait where they were
        self.unread: dict[int, list[tuple[Mailbox, BacklogPosition, str]]] = {}  # their bytes are being fetched
        self._service = service
        self._mailboxes = mailboxes
        self._grave = grave
        self._outbox = outbox

    def bury(self, mailbox: Mailbox, places: Iterable[BacklogPosition], cause: str) -> None:
        """Move these to the dead-letter queue."""
        for place in places:
            held = self._service.message_cache.get(place.seq)
            if held is None:
                self.unread.setdefault(place.seq, []).append((mailbox, place, cause))
            else:
                self._bury(mailbox, place, held.message, cause)

    def loaded(self, messages: Mapping[int, bytes]) -> None:
        for seq, message in messages.items():
            for mailbox, place, cause in self.unread.pop(seq, ()):
                self._bury(mailbox, place, message, cause)

    def lost(self, seqs: Iterable[int]) -> None:
        """The store will never bring these."""
        for seq in seqs:
            for mailbox, _, _ in self.unread.pop(seq, ()):
                mailbox.finish(seq)
                self._service.finished(mailbox, [seq])

    def move(self, mailbox: Mailbox, place: BacklogPosition, message: bytes, target: Destination) -> bool:
        """A message that has left the backlog goes to the end of another queue; False: it cannot, and is back."""
        return self._relocate(decode_message(message), target, FinishMove(mailbox, place, cause=""))

    def finish_move(self, move: FinishMove, error: TidingsError | None) -> None:
        """The message is in the other queue, or (`error`) cannot be there and stays in its mailbox."""
        mailbox, place = move.mailbox, move.place
        if error is not None and move.cause:
            self._kept(mailbox, place, move.cause, error)
        elif error is not None and self._mailboxes.is_open(mailbox):
            mailbox.put_back(place)
        else:
            if move.cause:
                self._service.lose(mailbox, place.seq, LossCause.BURIED)
            mailbox.finish(place.seq)

    def _bury(self, mailbox: Mailbox, place: BacklogPosition, message: bytes, cause: str) -> None:
        try:
            letter = decode_message(message)
        except TidingsError as error:
            self._kept(mailbox, place, cause, error)
        else:
            grave = self._grave_of(mailbox)
            again = (
                cause == OVERFLOWED and CAUSE in letter.properties
            )  # full graves must not fill each other without end
            if letter.destination == grave or again:
                self._die_twice(mailbox, place, cause)
                return
            self.buried += self._relocate(marked(letter, cause), grave, FinishMove(mailbox, place, cause))

    def _grave_of(self, mailbox: Mailbox) -> Destination:
        own = None if mailbox.quota is None else mailbox.quota.policy.dead_letters
        return own or self._grave

    def _kept(self, mailbox: Mailbox, place: BacklogPosition, cause: str, error: TidingsError) -> None:
        """Better delivered too often than lost, but not unnoticed."""
        self.failed += 1
        fields: dict[str, object] = {"mailbox": mailbox.name, "cause": cause, "error": str(error)}
        self._outbox.add(Log("ERROR", "a dead letter cannot be made, the message stays where it is", fields))
        self._keep(mailbox, place, cause)

    def _die_twice(self, mailbox: Mailbox, place: BacklogPosition, cause: str) -> None:
        """There is no second graveyard: a dead letter stays until somebody rejects it, or its time is over."""
        if cause == TOO_OFTEN:
            self._keep(mailbox, place, cause)
            return
        self.buried += 1
        self._service.finished(mailbox, [place.seq])
        mailbox.finish(place.seq)

    def _keep(self, mailbox: Mailbox, place: BacklogPosition, cause: str) -> None:
        if not self._mailboxes.is_open(mailbox):
            mailbox.finish(place.seq)
        elif cause == REJECTED:  # of the others this delivery is counted already, or there was none
            mailbox.put_back_tried(place)
            self._service.returned(mailbox, [])
        else:
            mailbox.put_back(place)

    def _relocate(self, message: Message, target: Destination, move: FinishMove) -> bool:
        try:
            moved = encode_message(altered(message, destination=target))
            queue = self._mailboxes.queue(target, may_make=True)
        except TidingsError as error:  # no more mailboxes, or more than a message can hold
            self.finish_move(move, error)
            return False
        self._service.finished_if_written(move.mailbox, [move.place.seq])
        self._service.relocate(moved, queue, message.expiration_ms or 0, move)
        return True


def marked(letter: Message, cause: str) -> Message:
    """With where it was sent to and what it died of, as far as there is room: a message may be full."""
    properties: dict[str, Value] = dict(letter.properties)
    for name, text in ((ORIGIN, str(letter.destination)), (CAUSE, cause)):
        if name in properties or len(properties) < PROPERTIES_MAX:
            properties[name] = text
    expiration_ms = None if cause == EXPIRED else letter.expiration_ms  # or it would expire there again
    return altered(letter, properties=properties, expiration_ms=expiration_ms)
