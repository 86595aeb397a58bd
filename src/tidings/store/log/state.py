"""The small state of a store: mailboxes, attached subscribers, delivery counts, notes.

It changes in place, in two tables of the same content (`state` and `state_copy`), so that no single page of the file
is the only one that knows a mailbox. A value is a batch of one record: the same checksums, the same code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from tidings.delivery.batch_codec import Head, pack, unpack
from tidings.delivery.store import (
    SEQ_MAX,
    Acked,
    Attached,
    Counted,
    Damage,
    Detached,
    MailboxAdded,
    MailboxRemoved,
    Note,
    Record,
    Stored,
)
from tidings.errors import CodecError, UsageError

TABLES = ("state", "state_copy")
VERSION_KEY = "version"


@dataclass(frozen=True, slots=True)
class StateChange:
    """One row of the state set or deleted."""

    key: str
    record: Record
    since: int  # the last seq before the change
    blob: bytes | None  # None: delete the row


def setting(key: str, record: Record, since: int = 0) -> StateChange:
    return StateChange(key, record, since, pack(Head(0, last_seq=since), [record]))


@dataclass(slots=True)
class StoreState:
    mailboxes: dict[int, MailboxAdded] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)  # mailbox -> the last seq before it was made
    attached: set[int] = field(default_factory=set)
    notes: dict[str, bytes] = field(default_factory=dict)
    counted: dict[tuple[int, int], int] = field(default_factory=dict)

    def prepare(self, batch: Sequence[Record], last_seq: int) -> tuple[list[Record], list[StateChange], int]:
        """Translate a batch into records for the log, changes of the state and the last seq, without applying them.

        The log gets only what has an effect at this point, so that its reader need not know the order of records
        within a batch: messages for mailboxes there are, acknowledgements of messages that came before.
        """
        records: list[Record] = []
        changes: list[StateChange] = []
        known = self.since
        for position, record in enumerate(batch):
            if type(record) is Stored:
                if not last_seq < record.seq <= SEQ_MAX:
                    reason = f"seq {record.seq} does not follow {last_seq}"
                    raise UsageError("E_STORE_SEQ", reason, position=position)
                last_seq = record.seq
                boxes = record.mailboxes
                if len(boxes) == 1 and boxes[0] in known:
                    records.append(record)
                elif boxes := tuple(sorted(known.keys() & set(boxes))):
                    records.append(Stored(record.seq, record.message_bytes, boxes))
            elif type(record) is Acked:
                seqs = record.seqs
                if seqs and max(seqs) > last_seq:
                    seqs = tuple(seq for seq in seqs if seq <= last_seq)
                if seqs and record.mailbox in known:
                    records.append(record if seqs is record.seqs else Acked(record.mailbox, seqs))
            elif type(record) is Counted:
                if record.seq <= last_seq and record.mailbox in known:
                    records.append(record)
            else:
                known = dict(known) if known is self.since else known
                changes += _changes(record, known, last_seq)
        return records, changes, last_seq

    def apply(self, changes: Sequence[StateChange]) -> list[tuple[int, int]]:
        """The changes are durable. Returns the mailboxes that went, each with the last seq it can have held."""
        gone = []
        for change in changes:
            match change.record:
                case MailboxAdded(mailbox):
                    self.mailboxes[mailbox] = change.record
                    self.since[mailbox] = change.since
                case MailboxRemoved(mailbox):
                    self.mailboxes.pop(mailbox, None)
                    self.since.pop(mailbox, None)
                    gone.append((mailbox, change.since))
                    for pair in [pair for pair in self.counted if pair[0] == mailbox and pair[1] <= change.since]:
                        del self.counted[pair]
                case Attached(mailbox):
                    self.attached.add(mailbox)
                case Detached(mailbox):
                    self.attached.discard(mailbox)
                case Note(key, b""):
                    self.notes.pop(key, None)
                case Note(key, value):
                    self.notes[key] = value
                case Stored() | Acked() | Counted():
                    raise AssertionError(f"{change.record} is not a setting")
                case _:
                    assert_never(change.record)
        return gone

    def rows(self, changes: Sequence[StateChange]) -> dict[str, bytes | None]:
        """The rows of these changes, which were not applied, as they are; None: there is none."""
        return {change.key: self._row(change) for change in changes}

    def _row(self, change: StateChange) -> bytes | None:
        match change.record:
            case MailboxAdded(mailbox) | MailboxRemoved(mailbox):
                record = self.mailboxes.get(mailbox)
                return None if record is None else setting(change.key, record, self.since[mailbox]).blob
            case Attached(mailbox) | Detached(mailbox):
                return setting(change.key, Attached(mailbox)).blob if mailbox in self.attached else None
            case Note(key):
                return setting(change.key, Note(key, self.notes[key])).blob if key in self.notes else None
            case Stored() | Acked() | Counted():
                raise AssertionError(f"{change.record} is not a setting")
            case _:
                assert_never(change.record)

    def load(self, tables: Sequence[Mapping[object, object]]) -> list[Damage]:
        """From both copies whatever is sound. What one of them has lost the other one has."""
        damaged: list[Damage] = []
        for key in sorted(tables[0].keys() | tables[1].keys(), key=repr):
            found: list[StateChange] = []
            for table in tables:
                with_key = _setting(key, table.get(key))
                found += [] if with_key is None else [with_key]
            if len(found) < 2 or found[0] != found[1]:
                loss = "the copy is used" if found else "it is lost"
                damaged.append(Damage(f"damaged entry {key!r} in the state: {loss}"))
            if key != VERSION_KEY:
                self.apply(found[:1])
        self.attached &= self.mailboxes.keys()
        return damaged


def _setting(key: object, blob: object) -> StateChange | None:
    if not isinstance(key, str) or not isinstance(blob, bytes):
        return None
    try:
        found = unpack(blob)
    except CodecError:
        return None
    if len(found.records) != 1:
        return None
    return StateChange(key, found.records[0], found.head.last_seq, blob)


def _changes(record: Record, known: dict[int, int], last_seq: int) -> list[StateChange]:
    """Rows to be set or deleted; `known` (mailbox -> since) goes along."""
    match record:
        case MailboxAdded(mailbox):
            known.setdefault(mailbox, last_seq)
            return [setting(f"mailbox/{mailbox}", record, known[mailbox])]
        case MailboxRemoved(mailbox):
            if mailbox not in known:
                return []
            del known[mailbox]
            detached = StateChange(f"attached/{mailbox}", Detached(mailbox), last_seq, None)
            return [StateChange(f"mailbox/{mailbox}", record, last_seq, None), detached]
        case Attached(mailbox):
            return [setting(f"attached/{mailbox}", record)] if mailbox in known else []
        case Detached(mailbox):
            return [StateChange(f"attached/{mailbox}", record, last_seq, None)]
        case Note(key):
            return [
                setting(f"note/{key}", record) if record.value else StateChange(f"note/{key}", record, last_seq, None)
            ]
        case Stored() | Acked() | Counted():
            return []
        case _:
            assert_never(record)
