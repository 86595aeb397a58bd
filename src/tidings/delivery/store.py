"""Interface of the store, which keeps what must outlive the process: records in, state out.

The store is a journal. Its unit is the *batch*: a sequence of records that becomes durable as a whole or not at
all. What the journal amounts to is a small state: which mailboxes there are, which messages wait in which of them,
and a few notes. `apply` of `MemoryStore` is the definition of that state in a dozen lines; every other store is held
to it by `hardening.contracts.store`.

Rules that keep recovery simple:
- `Stored.seq` rises from record to record over the whole life of a store (gaps are fine). So a message's place in a
  mailbox is its seq, and "waits in order" needs no further numbers.
- A record about something that is not there (an acknowledgement for a message that is gone, a message for a mailbox
  that was removed) has no effect and is no error: requests cross removals.

>>> store = MemoryStore()
>>> store.append([MailboxAdded(7, "queue:orders", "queue"), Stored(1, b"first", (7,)), Stored(2, b"second", (7,))])
>>> store.append([Acked(7, (1,))])
>>> list(store.recover().waiting[7].seqs), store.read([2])
([2], [b'second'])
"""

from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias, assert_never

from tidings.errors import StoreError, UsageError

SEQ_MAX = 2**63 - 1
NAME_BYTES_MAX = 0xFFFF  # of a mailbox or a note
TARGETS_MAX = 0xFFFF  # mailboxes of one `Stored`
RECENT_MAX, RECENT_BYTES_MAX = 16_384, 64  # messages that `MemoryStore` remembers when they are gone, and of each


@dataclass(frozen=True, slots=True)
class Stored:
    """A message and the durable mailboxes it waits in."""

    seq: int
    message_bytes: bytes
    mailboxes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Acked:
    """These messages no longer wait in this mailbox."""

    mailbox: int
    seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MailboxAdded:
    """`kind`, `predicate` and `options` mean nothing to the store; the same number again replaces them."""

    mailbox: int
    name: str
    kind: str
    predicate: bytes = b""
    options: bytes = b""


@dataclass(frozen=True, slots=True)
class MailboxRemoved:
    """The mailbox and all that waits in it are gone; the number may be used again."""

    mailbox: int


@dataclass(frozen=True, slots=True)
class Attached:
    """The mailbox has a consumer: after a crash, what waits in it may have been delivered already."""

    mailbox: int


@dataclass(frozen=True, slots=True)
class Detached:
    mailbox: int


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of deliveries of a message that still waits in this mailbox (`Tries.number`: 32 bits that the store
    only keeps)."""

    mailbox: int
    seq: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Note:
    """A small setting under a name; the last one counts, and an empty one is none."""

    key: str
    value: bytes


Record: TypeAlias = Stored | Acked | MailboxAdded | MailboxRemoved | Attached | Detached | Counted | Note


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that was read back and failed its checksum. `batch` and `record` say where, if that is known."""

    reason: str
    batch: int | None = None
    record: int | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The messages waiting in one mailbox, in order; compact, because there may be millions."""

    seqs: "array[int]" = field(default_factory=lambda: array("Q"))
    priorities: "array[int]" = field(default_factory=lambda: array("B"))
    sizes: "array[int]" = field(default_factory=lambda: array("I"))

    def __len__(self) -> int:
        return len(self.seqs)


class Recent(NamedTuple):
    """The beginning of a message that was stored lately, whether it still waits or not."""

    seq: int
    mailboxes: tuple[int, ...]  # it was stored for these, or (if it was moved) waits in these
    head: bytes


@dataclass(frozen=True, slots=True)
class Recovered:
    """The state a store stands for."""

    mailboxes: tuple[MailboxAdded, ...]  # by number
    waiting: Mapping[int, Waiting]  # one for every mailbox
    attached: frozenset[int]
    counted: Mapping[tuple[int, int], int]  # (mailbox, seq) -> deliveries, of those that wait
    notes: Mapping[str, bytes]
    last_seq: int  # of all that were ever stored; 0 if none was
    damaged: tuple[Damage, ...] = ()

    @property
    def last_mailbox(self) -> int:
        return max((box.mailbox for box in self.mailboxes), default=0)


class Store(Protocol):
    def append(self, batch: Sequence[Record]) -> None:
        """Return when the batch is durable. After StoreError or UsageError nothing of it is in the store."""

    def recover(self) -> Recovered:
        """The state now; what was found damaged when the store was opened is in `damaged`."""

    def read(self, seqs: Sequence[int]) -> list[bytes]:
        """The bytes of messages that still wait somewhere, in the order asked for."""

    def recent(self, count: int, size: int) -> list[Recent]:
        """At most this number of messages, those stored last, each with its first bytes (up to `RECENT_BYTES_MAX`),
        in order: all that wait, and of the others as many as the store still has."""

    def maintain(self) -> bool:
        """Housekeeping; to be called when nothing waits to be written. True: there is more to do."""

    def has_room(self) -> bool:
        """True if there is room for messages beyond what the store needs for itself."""

    def close(self) -> None:
        """Nothing but a second `close` may follow."""


def priority_of(message: bytes) -> int:
    """The one byte of a message that a store knows (docs/wire.md): a mailbox needs it to order what it has not read."""
    return message[2] if len(message) > 2 else 0


def check_record(record: Record) -> None:
    """Refuse what no store can ever keep: a name that is too long or not text."""
    match record:
        case Stored(mailboxes=mailboxes):
            if len(mailboxes) > TARGETS_MAX:
                reason = f"cannot be stored: a message for {len(mailboxes)} mailboxes, {TARGETS_MAX} are possible"
                raise UsageError("E_STORE_RECORD", reason)
        case MailboxAdded(name=name) | Note(key=name):
            try:
                size = len(name.encode())
            except UnicodeEncodeError as error:
                raise UsageError("E_STORE_RECORD", f"cannot be stored: {error}") from None
            if size > NAME_BYTES_MAX:
                reason = f"cannot be stored: a name of {size} bytes, {NAME_BYTES_MAX} are possible"
                raise UsageError("E_STORE_RECORD", reason)
        case Acked() | MailboxRemoved() | Attached() | Detached() | Counted():
            pass  # numbers only
        case _:
            assert_never(record)


def check_batch(batch: Iterable[Record], last_seq: int) -> int:
    """Refuse what breaks the rules; the last seq after the batch."""
    for position, record in enumerate(batch):
        check_record(record)
        if type(record) is Stored:
            if not last_seq < record.seq <= SEQ_MAX:
                reason = f"seq {record.seq} does not follow {last_seq}"
                raise UsageError("E_STORE_SEQ", reason, position=position)
            last_seq = record.seq
    return last_seq


class MemoryStore:
    """The store as a plain state; for tests and the simulator."""

    def __init__(self) -> None:
        self._mailboxes: dict[int, MailboxAdded] = {}
        self._waiting: dict[int, dict[int, bytes]] = {}
        self._attached: set[int] = set()
        self._counted: dict[tuple[int, int], int] = {}
        self._notes: dict[str, bytes] = {}
        self._messages: dict[int, tuple[bytes, set[int]]] = {}
        self._recent: deque[Recent] = deque(maxlen=RECENT_MAX)
        self._last_seq = 0
        self._open = True

    def append(self, batch: Sequence[Record]) -> None:
        self._check_open()
        self._last_seq = check_batch(batch, self._last_seq)
        for record in batch:
            self._apply(record)

    def _apply(self, record: Record) -> None:
        match record:
            case Stored(seq, message, mailboxes):
                boxes = self._waiting.keys() & set(mailboxes)
                for mailbox in boxes:
                    self._waiting[mailbox][seq] = message
                if boxes:
                    self._recent.append(Recent(seq, tuple(sorted(boxes)), message[:RECENT_BYTES_MAX]))
                    self._messages[seq] = (message, boxes)
            case Acked(mailbox, seqs):
                for seq in seqs:
                    self._leave(mailbox, seq)
            case MailboxAdded():
                self._mailboxes[record.mailbox] = record
                self._waiting.setdefault(record.mailbox, {})
            case MailboxRemoved(mailbox):
                for seq in list(self._waiting.get(mailbox, ())):
                    self._leave(mailbox, seq)
                self._mailboxes.pop(mailbox, None)
                self._waiting.pop(mailbox, None)
                self._attached.discard(mailbox)
            case Attached(mailbox):
                self._attached |= {mailbox} & self._waiting.keys()
            case Detached(mailbox):
                self._attached.discard(mailbox)
            case Counted(mailbox, seq, deliveries):
                if seq in self._waiting.get(mailbox, ()):
                    self._counted[mailbox, seq] = deliveries
            case Note(key, value):
                if value:
                    self._notes[key] = value
                else:
                    self._notes.pop(key, None)
            case _:
                assert_never(record)

    def _leave(self, mailbox: int, seq: int) -> None:
        if self._waiting.get(mailbox, {}).pop(seq, None) is not None:
            self._counted.pop((mailbox, seq), None)
            _, boxes = self._messages[seq]
            boxes.remove(mailbox)
            if not boxes:
                del self._messages[seq]

    def recover(self) -> Recovered:
        self._check_open()
        waiting = {
            mailbox: Waiting(
                array("Q", messages),
                array("B", map(priority_of, messages.values())),
                array("I", map(len, messages.values())),
            )
            for mailbox, messages in self._waiting.items()
        }
        boxes = tuple(self._mailboxes[mailbox] for mailbox in sorted(self._mailboxes))
        attached = frozenset(self._attached)
        return Recovered(boxes, waiting, attached, dict(self._counted), dict(self._notes), self._last_seq)

    def read(self, seqs: Sequence[int]) -> list[bytes]:
        self._check_open()
        try:
            return [self._messages[seq][0] for seq in seqs]
        except KeyError as error:
            raise UsageError("E_STORE_SEQ", f"no message {error.args[0]} waits") from None

    def recent(self, count: int, size: int) -> list[Recent]:
        self._check_open()
        waiting = {seq: Recent(seq, tuple(sorted(boxes)), message) for seq, (message, boxes) in self._messages.items()}
        found = waiting | {one.seq: one for one in self._recent}
        return [found[seq]._replace(head=found[seq].head[:size]) for seq in sorted(found)[-count:]]

    def maintain(self) -> bool:
        return False

    def has_room(self) -> bool:
        return True

    def close(self) -> None:
        self._open = False

    def _check_open(self) -> None:
        if not self._open:
            raise StoreError("E_STORE_CLOSED", "the store was closed")
