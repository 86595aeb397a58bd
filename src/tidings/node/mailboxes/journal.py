"""Collects records to be written in batches, with the completions that follow from each.

What is gathered leaves as one `Persist`, and while that one is under way the next is gathered: group commit. Never two
at a time, because a record may rest on one before it (a message on the mailbox made for it): were the first refused
and the second written, the store would drop what was promised to be kept.

There are two sorts of records. A message is refused when it cannot be written: its publisher gets an error and may try
again. A change of state (a mailbox made, a message acknowledged) has happened all the same, so its record stays at the
head of the line until it is written; unless no store could ever keep it: all others would wait behind it without end.
If both were in one batch and it was refused, the changes are tried once more without the messages: what frees space
must not wait behind what has no space. Some changes nobody waits for (acknowledgements: lost in a crash, the
message comes again, marked): they are not worth an fsync of their own and go with the next batch, within about a
second.

Changes that had to wait, for a full disk say, may be more than a store takes at once. Those that do not fit go first,
in batches of their own; the batch they were part of fails with them, as a whole.

The journal carries nothing out: it keeps completions in order beside what they wait for and returns them when the fate
of that is known (`completer`).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from tidings.delivery.store import (
    Acked,
    Attached,
    Counted,
    Detached,
    MailboxAdded,
    MailboxRemoved,
    Note,
    Record,
    Stored,
    check_record,
)
from tidings.errors import TidingsError, UsageError
from tidings.node.completions import Completion
from tidings.node.effects import Persist
from tidings.node.network.relay_dedup import RelayDedup

CHANGES_BYTES_MAX = 64 << 20  # in one batch, about: a store may take no more than 512 MiB
LATER_MAX = 1000  # changes that nobody waits for, before they are written all the same


class Flush(NamedTuple):
    """Output of the journal: a batch to be written, or completions of one that needs no write."""

    write: Persist | None = None
    completions: Sequence[Completion] = ()
    more: bool = False  # flush again when these are carried out


@dataclass(slots=True)
class _Group:
    """Places in a batch."""

    messages: list[int] = field(default_factory=list)
    completions: list[int] = field(default_factory=list)
    bytes: int = 0


@dataclass(slots=True)
class _Batch:
    changes: list[Record] = field(default_factory=list)
    changes_bytes: int = 0  # of those that may be large, about
    messages: list[Record | RelayDedup | None] = field(default_factory=list)  # None: withdrawn
    completions: list[Completion | None] = field(default_factory=list)
    changes_only: set[int] = field(default_factory=set)  # places of completions that wait for no message
    groups: dict[Hashable, _Group] = field(default_factory=dict)
    bytes: int = 0
    urgent: bool = False  # some change should not wait for the next batch

    def records(self) -> list[Record]:
        """The records to write, composed when the batch leaves."""
        return [*self.changes, *self.said()]

    def said(self) -> list[Record]:
        """The records of its messages; those that were to be asked for late, too: now is the time."""
        records: list[Record] = []
        for one in self.messages:
            if isinstance(one, RelayDedup):
                records += one.notes()
            elif one is not None:
                records.append(one)
        return records

    def waiting(self, *, changes_only: bool) -> list[Completion]:
        """Completions that wait for changes alone, or those that also wait for messages."""
        return [
            one
            for place, one in enumerate(self.completions)
            if one is not None and (place in self.changes_only) is changes_only
        ]

    def all_waiting(self) -> list[Completion]:
        return [one for one in self.completions if one is not None]


class Journal:
    def __init__(self, later_max: int = LATER_MAX, changes_bytes_max: int = CHANGES_BYTES_MAX) -> None:
        self._later_max, self._changes_bytes_max = later_max, changes_bytes_max
        self.pending_bytes = 0  # of messages that are neither refused nor durable yet
        self._open_batch = _Batch()
        self._unwritten: list[Record] = []  # changes of a batch that failed
        self._again: _Batch | None = None  # the changes of a batch that failed with its messages, or the rest of one
        self._under_way: _Batch | None = None
        self._ticket = 0
        self.group: Hashable = None  # what messages and completions given now belong to: `withdraw`

    @property
    def idle(self) -> bool:
        """Nothing is under way, or waits to be."""
        return not (self._under_way or self._again or self._unwritten or self._open_batch.changes)

    @property
    def empty(self) -> bool:
        """Nothing was gathered since the last batch left."""
        batch = self._open_batch
        return not (batch.changes or batch.messages or batch.completions)

    @property
    def pending_messages(self) -> int:
        """About how many messages are gathered or under way."""
        under_way = 0 if self._under_way is None else len(self._under_way.messages)
        return under_way + len(self._open_batch.messages)

    @property
    def leaving(self) -> bool:
        """The next `flush` sends what is being gathered, or what was gathered before it."""
        batch = self._open_batch
        return self._under_way is None and bool(batch.urgent or batch.messages or batch.completions)

    def change(self, record: Record) -> None:
        """Something is so from now on; the record is written as soon as that is possible."""
        self._open_batch.changes.append(record)
        self._open_batch.changes_bytes += _size(record)
        self._open_batch.urgent = True

    def later(self, record: Record) -> None:
        """The same for a change nobody waits for: it goes with the next batch, or with a `flush` that retries."""
        batch = self._open_batch
        batch.changes.append(record)
        if type(record) is Note:
            batch.changes_bytes += _size(record)
        if len(batch.changes) >= self._later_max:
            batch.urgent = True

    def message(self, record: Record | RelayDedup, size: int) -> None:
        """Adds something that counts only once it is written. What depends on the fate of the batch before
        (`RelayDedup`) is asked for its records late, when that is known."""
        batch = self._open_batch
        if self.group is not None:
            group = batch.groups.setdefault(self.group, _Group())
            group.messages.append(len(batch.messages))
            group.bytes += size
        batch.messages.append(record)
        batch.bytes += size
        self.pending_bytes += size

    def then(self, completion: Completion) -> None:
        """Return this when the fate of all that was gathered so far is known."""
        batch = self._open_batch
        if self.group is not None:
            batch.groups.setdefault(self.group, _Group()).completions.append(len(batch.completions))
        batch.completions.append(completion)

    def then_changed(self, completion: Completion) -> None:
        """The same for what waits for changes alone, whatever becomes of messages in the same batch."""
        batch = self._open_batch
        batch.changes_only.add(len(batch.completions))
        batch.completions.append(completion)

    def withdraw(self, group: Hashable) -> list[Completion]:
        """Take back what was gathered of this group: it would overtake what was refused of it. Returns its completions,
        to be refused too."""
        batch = self._open_batch
        gone = batch.groups.pop(group, None)
        if gone is None:
            return []
        for place in gone.messages:
            batch.messages[place] = None
        completions = [one for place in gone.completions if (one := batch.completions[place]) is not None]
        for place in gone.completions:
            batch.completions[place] = None
        batch.bytes -= gone.bytes
        self.pending_bytes -= gone.bytes
        return completions

    def is_storing(self, mailbox: int) -> bool:
        """True if a message for this mailbox waits to be on disk."""
        batches = (self._open_batch, self._under_way, self._again)
        return any(
            isinstance(one, Stored) and mailbox in one.mailboxes
            for batch in batches
            if batch is not None
            for one in batch.messages
        )

    def is_noting(self, key: str) -> bool:
        """True if a note under this key waits to be on disk."""
        batches = [batch.changes for batch in (self._open_batch, self._under_way, self._again) if batch is not None]
        return any(type(one) is Note and one.key == key for part in (*batches, self._unwritten) for one in part)

    def changes_alone(self) -> list[Record] | None:
        """The changes that go with a message written alone, at once; None: others must be waited for."""
        batch = self._open_batch
        if self._under_way is not None or self._again or self._unwritten or batch.messages or batch.completions:
            return None
        return batch.changes

    def wrote_alone(self) -> None:
        """Those changes are written."""
        self._open_batch.changes.clear()
        self._open_batch.changes_bytes = 0
        self._open_batch.urgent = False

    @property
    def next_ticket(self) -> int:
        """Of the next batch that leaves."""
        return self._ticket + 1

    def late_alone(self, record: Stored, size: int, completion: Completion) -> None:
        """The write of those changes and of this message takes long: a batch that has left, with the next ticket."""
        assert self._under_way is None
        self.message(record, size)
        self.then(completion)
        self._under_way, self._open_batch = self._open_batch, _Batch()
        self._ticket += 1

    def flush(self, *, retry: bool = False) -> Flush:
        """Return what was gathered as one effect; with `retry` also if there is only what failed or nobody waits
        for."""
        if self._under_way is not None:
            return _NOTHING
        if self._again is not None:
            batch, self._again = self._again, None
            return self._send(batch, more=True)
        batch = self._open_batch
        if not (batch.urgent or batch.messages or batch.completions or (retry and (batch.changes or self._unwritten))):
            return _NOTHING
        if self._unwritten:
            batch.changes[:0] = self._unwritten
            batch.changes_bytes += sum(map(_size, self._unwritten))
            self._unwritten = []
        self._open_batch = _Batch()
        return self._send(batch, more=False)

    def _send(self, batch: _Batch, *, more: bool) -> Flush:
        """`more`: if this one needs no write, the next may leave."""
        if batch.changes_bytes > self._changes_bytes_max:
            batch.messages = [*batch.said()]  # before more is gathered, of which it must not speak
            batch = self._first_of(batch)
        records = batch.records()
        if not records:  # nothing to write, and all before it is: it is done
            return Flush(None, batch.all_waiting(), more)
        self._under_way = batch
        self._ticket += 1
        return Flush(Persist(self._ticket, tuple(records)))

    def _first_of(self, batch: _Batch) -> _Batch:
        """As many of its changes as may go together; the rest follows."""
        fitting, size = 1, _size(batch.changes[0])
        while fitting < len(batch.changes) and size + _size(batch.changes[fitting]) <= self._changes_bytes_max:
            size += _size(batch.changes[fitting])
            fitting += 1
        first = _Batch(batch.changes[:fitting])
        del batch.changes[:fitting]
        batch.changes_bytes -= size
        self._again = batch
        return first

    def finished(self, ticket: int, error: TidingsError | None) -> list[Completion]:
        """The batch is written, or refused with this error: the completions that this decides."""
        batch = self._under_way
        assert batch is not None
        assert ticket == self._ticket
        self._under_way = None
        self.pending_bytes -= batch.bytes
        if error is None:
            return batch.all_waiting()
        if batch.messages:
            self._again = _Batch(_possible(batch.changes), completions=[*batch.waiting(changes_only=True)])
            return batch.waiting(changes_only=False)
        changes, completions = batch.changes, batch.all_waiting()
        if self._again is not None:  # the rest of it
            rest, self._again = self._again, None
            changes, completions = [*changes, *rest.changes], [*completions, *rest.all_waiting()]
            self.pending_bytes -= rest.bytes
        self._unwritten = _possible(changes)
        return completions


_NOTHING = Flush()


def _size(record: Record) -> int:
    """About as much as it takes on disk, or less."""
    match record:
        case MailboxAdded(name=name, predicate=predicate, options=options):
            return len(name) + len(predicate) + len(options)
        case Note(key=key, value=value):
            return len(key) + len(value)
        case Acked(seqs=seqs):
            return 8 * len(seqs)
        case Stored() | MailboxRemoved() | Attached() | Detached() | Counted():
            return 16
        case _:
            assert_never(record)


def _possible(records: list[Record]) -> list[Record]:
    """Those that some store can keep."""
    return [one for one in records if _is_possible(one)]


def _is_possible(record: Record) -> bool:
    try:
        check_record(record)
    except UsageError:
        return False
    return True
