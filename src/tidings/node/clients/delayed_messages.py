"""Keeps messages that are to be delivered later, and publishes them when their time has come.

The broker that takes such a message stores it whole, persistent or not, and confirms it then. Memory has only its time
and its number. When it is due it is read, loses its delivery time and takes the path of a message of a transaction:
into mailboxes, to direct subscribers and to other brokers. Its end here is in the batch that stores it there, so after
a crash it is in one of the two places.

    accept ──► store ──► waiting ──due──► read ──► published ──► gone
                            ▲                └── refused: tried again a second later
                         restart: read once, because only the message knows its time
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import islice

from tidings.delivery.store import Acked, MailboxAdded, Recovered, Stored
from tidings.errors import TidingsError, UsageError
from tidings.kernel.codec import altered, decode_message, encode_message
from tidings.model.event_type_topics import is_event
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.publications import Publications
from tidings.node.clients.publish_dedup import DELAYED_KIND
from tidings.node.completions import ConfirmEntry, KeepDelayed, PublishDelayed
from tidings.node.effects import Log
from tidings.node.encoded_message import DELAYED, ID, expires_ms_of
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.plane import Plane

RETRY_MS = 1_000
LOAD_MAX = 256


def is_delayed(message: bytes) -> bool:
    return bool(message[1] & DELAYED)


def check_delayed(message: bytes) -> None:
    if is_event(message):
        raise UsageError("E_DELAY_EVENT", "events of types cannot be delayed")


class DelayedMessages:
    def __init__(
        self,
        plane: Plane,
        service: MailboxService,
        journal: Journal,
        outbox: AnswerBatch,
        publishing: Publications,
        *,
        load_max: int = LOAD_MAX,
    ) -> None:
        self.expired = 0
        self._plane, self._service, self._journal, self._outbox = plane, service, journal, outbox
        self._publishing, self._load_max = publishing, load_max
        self._box = 0  # the number under which the store keeps them
        self._unknown: dict[int, None] = {}  # of an earlier run: only the store has their times
        self._waiting: list[tuple[int, int]] = []  # a heap: time and number
        self._due: dict[int, bytes | None] = {}  # in order; None: it is being read
        self._refused: set[int] = set()  # could not be published yet
        self._under_way = 0  # to disk, or to subscribers

    def __len__(self) -> int:
        return len(self._unknown) + len(self._waiting) + len(self._due) + self._under_way

    def recover(self, recovered: Recovered) -> None:
        for box in recovered.mailboxes:
            if box.kind == DELAYED_KIND:
                self._box = box.mailbox
                self._unknown = dict.fromkeys(recovered.waiting[box.mailbox].seqs)

    # --- taken ----------------------------------------------------------------------------------------------------

    def accept(self, connection: int, receipt: int, message: bytes) -> None:
        """A message of a client. One that was sent before and is safe is not kept twice."""
        check_delayed(message)
        if message[ID] in self._service.publish_dedup.recent:
            self._journal.then(ConfirmEntry(connection, receipt, copy_of=message[ID]))
            return
        self._journal.then(KeepDelayed(connection, receipt, self.store(message), message[ID]))

    def store(self, message: bytes) -> tuple[int, int]:
        """Into the batch that is being gathered; returns its time and number, for `add` once that is on disk."""
        check_delayed(message)
        if not self._box:
            self._box = self._service.mailboxes.take_number()
            self._journal.change(MailboxAdded(self._box, DELAYED_KIND, DELAYED_KIND))
        seq = self._service.take_seq()
        self._journal.message(Stored(seq, message, (self._box,)), len(message))
        return decode_message(message).deliver_at_ms or 0, seq

    def kept(self, completion: KeepDelayed, error: TidingsError | None) -> None:
        connection, receipt, entry, message_id = completion
        if error is not None:
            self._outbox.refused(connection, receipt, error)
            return
        self._service.publish_dedup.recent.add(message_id)
        self.add(entry)
        self._outbox.accepted(connection, receipt)

    def add(self, entry: tuple[int, int]) -> None:
        heappush(self._waiting, entry)

    # --- due ------------------------------------------------------------------------------------------------------

    def turn(self, now_ms: int) -> bool:
        """At the end of each step; True if something is to be read."""
        while self._waiting and self._waiting[0][0] <= now_ms:
            self._due[heappop(self._waiting)[1]] = None
        busy = bool(self._due or self._unknown)
        self._publish_read(now_ms)
        return busy

    def wanted(self) -> list[int]:
        """Messages to be loaded from the store."""
        due = [seq for seq, message in islice(self._due.items(), self._load_max) if message is None]
        return [*due, *islice(self._unknown, self._load_max)]

    def loaded(self, now_ms: int, messages: dict[int, bytes]) -> None:
        """The store has brought these; the others are not ours. What is behind a gap waits for it."""
        for seq in [seq for seq in messages if seq in self._unknown]:
            del self._unknown[seq]
            self.add((decode_message(messages.pop(seq)).deliver_at_ms or 0, seq))
        for seq in [seq for seq in messages if seq in self._due]:
            self._due[seq] = messages.pop(seq)
        self._publish_read(now_ms)

    def lost(self, seqs: Iterable[int]) -> None:
        """The store can never bring these."""
        for seq in seqs:
            if seq in self._due or seq in self._unknown:
                self._due.pop(seq, None)
                self._unknown.pop(seq, None)
                self._journal.later(Acked(self._box, (seq,)))

    def published(self, completion: PublishDelayed, error: TidingsError | None) -> None:
        now_ms, seq, publication = completion
        self._under_way -= 1
        if error is None:
            self._publishing.publish(publication)
        else:
            self._service.abandon(publication.offer)
            self._try_again(now_ms, seq, error)

    def _publish_read(self, now_ms: int) -> None:
        while self._due:
            seq, message = next(iter(self._due.items()))
            if message is None:
                return
            del self._due[seq]
            self._publish(now_ms, seq, message)

    def _publish(self, now_ms: int, seq: int, message: bytes) -> None:
        if 0 < expires_ms_of(message) <= now_ms:
            self.expired += 1
            self._journal.later(Acked(self._box, (seq,)))
            return
        try:
            plain = encode_message(altered(decode_message(message), deliver_at_ms=None))
            mailboxes = self._service.mailboxes.for_message(plain, self._plane.match(plain), drops_late=True)
            limits = self._service.limits
            limits.admit([(len(plain), mailboxes)])
            publication = self._publishing.prepare(now_ms, None, limits.dated(now_ms, plain, mailboxes), mailboxes)
        except TidingsError as error:
            self._try_again(now_ms, seq, error)
            return
        self._refused.discard(seq)
        self._under_way += 1
        self._journal.message(Acked(self._box, (seq,)), 0)
        self._journal.then(PublishDelayed(now_ms, seq, publication))

    def _try_again(self, now_ms: int, seq: int, error: TidingsError) -> None:
        if seq not in self._refused:
            self._refused.add(seq)
            fields: dict[str, object] = {"seq": seq, "error": str(error)}
            self._outbox.add(Log("WARNING", "a delayed message cannot be delivered yet", fields))
        self.add((now_ms + RETRY_MS, seq))
