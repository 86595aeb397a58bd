"""Persistent events that were published here and that a scheme for types still carries: stored until all have them.

Between brokers nothing of an event is on disk: whoever passed it on keeps it until those behind say that it is safe
(tidings.routing.hermes.event_custody). So this broker, where it entered, answers for it, and starts
again after a restart.

    accept ──► store ──► waiting ──take──► under way ──safe──► gone
                            ▲                    └── copies for brokers that are away ──► store ──release──► gone
                            └────────────────────────────────────────────────────────refused─┘
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from tidings.delivery.store import Acked, MailboxAdded, Recovered, Stored
from tidings.errors import TidingsError
from tidings.node.completions import CarryEvent, ReleaseEvent
from tidings.node.encoded_message import ID, expires_ms_of
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService

KIND = "events"
LOAD_MAX = 256


class EventCustody:
    def __init__(
        self, journal: Journal, service: MailboxService, window_bytes: int = 8 << 20, *, load_max: int = LOAD_MAX
    ) -> None:
        self._journal, self._service, self._window_bytes, self._load_max = journal, service, window_bytes, load_max
        self._box = 0  # the number under which the store keeps events
        self._waiting: dict[int, bytes | None] = {}  # by seq, in order; None: only the store has it
        self._under_way: dict[bytes, tuple[int, bytes]] = {}  # by tag: seq and message
        self.expired = 0
        self._bytes = 0  # of those under way
        self._memory_bytes = 0  # of those waiting

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def recover(self, recovered: Recovered) -> None:
        for box in recovered.mailboxes:
            if box.kind == KIND:
                self._box = box.mailbox
                self._waiting = dict.fromkeys(recovered.waiting[box.mailbox].seqs)

    def accept(self, message: bytes) -> None:
        """Take responsibility, once the batch that is being gathered is on disk."""
        if not self._box:
            self._box = self._service.mailboxes.take_number()
            self._journal.change(MailboxAdded(self._box, KIND, KIND))
        seq = self._service.take_seq()
        self._journal.message(Stored(seq, message, (self._box,)), len(message))
        self._journal.then(CarryEvent(seq, message))

    def wanted(self) -> list[int]:
        """Messages to be loaded from the store."""
        if self._bytes >= self._window_bytes:
            return []
        return [seq for seq, message in islice(self._waiting.items(), self._load_max) if message is None]

    def loaded(self, messages: dict[int, bytes]) -> None:
        """The store has brought these; the others are not ours."""
        for seq in [seq for seq in messages if seq in self._waiting]:
            self.add(seq, messages.pop(seq))

    def lost(self, seqs: Iterable[int]) -> None:
        """The store can never bring these: what is behind them must not wait for them."""
        for seq in [seq for seq in seqs if seq in self._waiting]:
            del self._waiting[seq]
            self._journal.later(Acked(self._box, (seq,)))

    def take(self, now_ms: int) -> Iterator[bytes]:
        """Those that may go now, in order; their tag is their message's id."""
        while self._waiting and self._bytes < self._window_bytes:
            seq, message = next(iter(self._waiting.items()))
            if message is None:
                return
            del self._waiting[seq]
            self._memory_bytes -= len(message)
            if 0 < expires_ms_of(message) <= now_ms:
                self.expired += 1
                self._journal.change(Acked(self._box, (seq,)))
                continue
            if message[ID] in self._under_way:  # it was published again, and the first one answers for it
                self._journal.change(Acked(self._box, (seq,)))
                continue
            self._under_way[message[ID]] = (seq, message)
            self._bytes += len(message)
            yield message

    def message(self, tag: bytes) -> bytes:
        """One that is under way."""
        return self._under_way[tag][1]

    def safe(self, tag: bytes, *, kept: bool) -> None:
        """It is with all that the scheme knows of; `kept`: and copies for others are in the batch that is gathered."""
        if kept:
            self._journal.then(ReleaseEvent(tag))
        else:
            self.release(tag, None)

    def release(self, tag: bytes, error: TidingsError | None) -> None:
        seq, message = self._under_way.pop(tag)
        self._bytes -= len(message)
        if error is None:
            self._journal.change(Acked(self._box, (seq,)))
        else:
            self.add(seq, message)

    def add(self, seq: int, message: bytes) -> None:
        """In memory as long as there is room; otherwise it is read again when its turn comes."""
        if self._memory_bytes < self._window_bytes or next(iter(self._waiting), seq) == seq:
            self._waiting[seq] = message
            self._memory_bytes += len(message)
        else:
            self._waiting[seq] = None
