"""A store as a log of batches that eats its own tail, over whatever keeps the batches (`LogFile`).

    batch    a sequence of records as `tidings.delivery.batch_codec` packs it, numbered without gaps: oldest ... newest
    state    what is small and changes in place: mailboxes, which are attached, notes; two copies of each

What keeps them does what it is good at: the transaction. What a batch holds is packed, checked and found here: a
checksum for every record, any number of mailboxes for a message, recovery that reads arrays, one row for a batch of
any size.

Space. Messages and acknowledgements are appended; nothing is changed in place. An acknowledgement matters only as
long as its message is in the log, and it always comes later in it. So if batches only ever leave at the oldest
end, an acknowledgement that leaves can have no message left to be about. A batch leaves when nothing in it is live; if
one message stays for long, `_move` writes the live messages of the oldest batches again at the young end. It begins
when more than half of the log (and 4 MiB) is dead, or when there are too many tiny batches, so the log stays below
about three times what is live plus 8 MiB and the tail, and each byte is rewritten about once for each byte that came
in meanwhile. (The log-structured file system of Rosenblum and Ousterhout, 1992, section 3.5, with the simplest policy.)

The last batches, the *tail*, stay when all in them is dead (16 384 messages, 4 MiB or 4096 batches, whichever is
less; not when there is no room), so that a broker that starts knows the last messages, those it is done with too
(`recent`).

All calls may come from any thread, one at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, Protocol, TypeVar

import numpy as np

from tidings.delivery.batch_codec import Head, heads, pack, scan
from tidings.delivery.store import Counted, Damage, Recent, Record, Recovered, Stored
from tidings.errors import StoreError, UsageError
from tidings.store.log.contents import Contents, Written
from tidings.store.log.state import StateChange
from tidings.store.log.tail import TailLimits

BATCH_BYTES_MAX = 512 << 20
COUNTED_BYTES = 33  # what a delivery count takes in the log


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Thresholds at which housekeeping begins; `append` itself does it at twice the slack."""

    slack_bytes: int = 4 << 20  # waste below this is not worth moving anything
    slack_batches: int = 4096
    small_bytes: int = 64 << 10  # more batches than the slack and one for each of these: they are too small
    move_bytes: int = 1 << 20  # of batches moved in one go; more than `small_bytes`, or they stay too small
    quota_bytes: int = 0  # of messages that wait, before more are refused; 0: what the disk takes
    tail: TailLimits = field(default_factory=TailLimits)  # that stays when it is dead


class LogRows(Protocol):
    """All that is kept, as it is kept: to be carried from one keeper to another."""

    def settings(self) -> Sequence[Mapping[object, object]]:
        """Both copies of the state."""

    def batches(self) -> Iterator[tuple[int, bytes]]:
        """In order, in bounded memory."""

    def fill(self, settings: Sequence[Mapping[object, object]], batches: Iterator[tuple[int, bytes]]) -> None:
        """Take these into a store that holds nothing, in one transaction; it must be opened again to be used."""


class LogFile(LogRows, Protocol):
    """Keeper of the batches and the state. Its own errors are made the store's by `translate`."""

    def check(self, *, frees: bool) -> None:
        """Raises what is known to prevent a write; `frees`: of a batch without messages."""

    def write(
        self, number: int, blob: bytes, changes: Sequence[StateChange], *, delete_before: int, frees: bool
    ) -> None:
        """One transaction: a new batch, old ones deleted (0: none). What frees space may use a reserve."""

    def tidy(self) -> bool:
        """Housekeeping of its own; True: there is more to do."""

    def batch(self, number: int) -> bytes | None:
        """A whole batch; None: it was lost."""

    def message(self, number: int, start: int, size: int) -> bytes | None:
        """Bytes of a batch, if they are still what they were."""

    def has_room(self) -> bool: ...

    def is_full(self, error: Exception) -> bool: ...

    def translate(self, error: BaseException) -> None:
        """Raise an error of its own as the store's."""

    def close(self) -> None: ...


F_co = TypeVar("F_co", bound=LogFile, covariant=True)


class LogStore(Generic[F_co]):
    _file: F_co  # opened by the class derived from this, which also loads the contents
    _contents: Contents

    def __init__(self, limits: LogLimits) -> None:
        self._limits = limits
        self._mutex = Lock()
        self._use = _Use(self)
        self._damaged: list[Damage] = []
        self._unsound: set[int] = set()  # seqs of messages that went bad since the store was opened
        self._closed = False

    def _load(self, tables: Sequence[Mapping[object, object]], batches: Iterator[tuple[int, bytes]]) -> None:
        """The contents, again if the file had to be rebuilt; what is damaged goes on the list."""
        self._contents = Contents.load(tables, batches, self._damaged, self._limits.tail)

    @property
    def rows(self) -> LogRows:
        """Of a store that nobody uses meanwhile."""
        return self._file

    # --- the interface ---

    def append(self, batch: Sequence[Record]) -> None:
        with self._use:
            contents = self._contents
            if not contents.few_unsettled():
                self._settle()
            records, changes, last_seq = contents.state.prepare(batch, contents.last_seq)
            frees = not any(type(record) is Stored for record in records)
            try:
                self._file.check(frees=frees)
                if self._limits.quota_bytes and not frees and contents.index.live_bytes > self._limits.quota_bytes:
                    reason = f"the messages that wait take more than the {self._limits.quota_bytes} bytes allowed"
                    raise StoreError("E_STORE_FULL", reason)
                oldest = contents.index.first if contents.unsettled else contents.index.dead_until()
                blob = self._write(records, changes, last_seq, oldest, frees=frees)
            except Exception as error:
                if self._file.is_full(error):
                    contents.index.tail.clear()  # its place is needed
                raise
            contents.unsettled.append(Written(contents.newest, blob, records, changes, oldest))

    def recover(self) -> Recovered:
        with self._use:
            self._settle()
            state, damaged = self._contents.state, tuple(self._damaged)
            waiting = self._contents.index.all_waiting(state.mailboxes)
            boxes = tuple(state.mailboxes[number] for number in sorted(state.mailboxes))
            attached, counted, notes = frozenset(state.attached), dict(state.counted), dict(state.notes)
            return Recovered(boxes, waiting, attached, counted, notes, self._contents.last_seq, damaged)

    def read(self, seqs: Sequence[int]) -> list[bytes]:
        with self._use:
            self._settle()
            places = self._contents.index.places(np.array(seqs, np.int64))
            if isinstance(places, int):
                if seqs[places] in self._unsound:
                    raise StoreError("E_STORE_DAMAGED", f"message {seqs[places]} is damaged", position=places)
                raise UsageError("E_STORE_SEQ", f"no message {seqs[places]} waits", position=places)
            messages = []
            for position, (number, start, size) in enumerate(places):
                message = self._file.message(number, start, size)
                if message is None:
                    raise StoreError("E_STORE_DAMAGED", f"message {seqs[position]} is damaged", position=position)
                messages.append(message)
            return messages

    def recent(self, count: int, size: int) -> list[Recent]:
        with self._use:
            self._settle()
            found: dict[int, Recent] = {}
            for number in range(self._contents.newest, self._contents.index.first - 1, -1):
                blob = self._file.batch(number)
                for record in heads(blob, size) if blob else ():
                    found.setdefault(record.seq, record)
                if len(found) >= count and number <= self._contents.index.last_before_tail:
                    break
            return [found[seq] for seq in sorted(found)[-count:]]

    def maintain(self) -> bool:
        with self._use:
            self._settle()
            self._file.check(frees=True)
            if self._surplus() > 0.5:
                self._move(self._limits.move_bytes)
                return True
            return self._file.tidy()

    def has_room(self) -> bool:
        with self._use:
            if not self._file.has_room():
                return False
            if self._limits.quota_bytes:
                self._settle()
            return not self._limits.quota_bytes or self._contents.index.live_bytes <= self._limits.quota_bytes

    def close(self) -> None:
        with self._mutex:
            if not self._closed:
                self._closed = True
                try:
                    self._file.close()
                except Exception as error:
                    self._file.translate(error)
                    raise

    def disk_bytes(self) -> int:
        """Bytes of all batches; the file may be larger, its free pages are reused."""
        with self._use:
            self._settle()
            return self._contents.index.disk_bytes

    # --- writing ---

    def _write(
        self, records: Sequence[Record], changes: Sequence[StateChange], last_seq: int, oldest: int, *, frees: bool
    ) -> bytes:
        """A new batch, those before `oldest` deleted."""
        contents = self._contents
        number = contents.newest + 1
        blob = pack(Head(number, oldest, last_seq), records)
        if len(blob) > BATCH_BYTES_MAX:
            raise UsageError("E_STORE_BATCH", f"{len(blob)} bytes in one batch, at most {BATCH_BYTES_MAX} are allowed")
        delete_before = oldest if oldest > contents.index.first else 0
        self._file.write(number, blob, changes, delete_before=delete_before, frees=frees)
        contents.newest, contents.last_seq = number, last_seq
        return blob

    def _settle(self) -> None:
        """Take note of the batches written last."""
        if not self._contents.unsettled:
            return
        size = self._contents.settle()
        if self._surplus() > 1:  # no one calls `maintain`, or there is never a pause
            try:
                self._move(max(self._limits.move_bytes, 4 * size))
            except Exception as error:  # the batches are safe; room is made another time
                with suppress(StoreError):
                    self._file.translate(error)
                    raise

    def _surplus(self) -> float:
        """Dead bytes of the file relative to the limit; at 1 housekeeping is due."""
        index, limits = self._contents.index, self._limits
        live = index.live_bytes + COUNTED_BYTES * len(self._contents.state.counted)
        waste = (index.disk_bytes - index.tail.bytes - live) / (2 * (limits.slack_bytes + live))
        batches = index.batches - len(index.tail)
        tiny = batches / (2 * (limits.slack_batches + index.disk_bytes // limits.small_bytes))
        return max(waste, tiny)

    def _move(self, size: int) -> None:
        """Rewrite the live messages of the oldest batches, so that these can be deleted."""
        index, counted = self._contents.index, self._contents.state.counted
        last = index.oldest(size)
        records: list[Record] = []
        for seq, number, start, length, mailboxes in index.live_until(last):
            message = self._file.message(number, start, length)
            if message is None:  # it must not get a new checksum
                self._unsound.add(seq)
                for mailbox in mailboxes:
                    index.leave(mailbox, (seq,))
                continue
            records.append(Stored(seq, message, mailboxes))
            if counted:
                mine = [mailbox for mailbox in mailboxes if (mailbox, seq) in counted]
                records += [Counted(mailbox, seq, counted[mailbox, seq]) for mailbox in mine]
        oldest = last + 1
        blob = self._write(records, (), self._contents.last_seq, oldest, frees=True)
        index.move(scan(blob, trusted=True), len(blob))
        index.forget(oldest)


class _Use:
    """One use of the store: alone, and with errors that are ours. Not a generator: those cost more."""

    __slots__ = ("_store",)

    def __init__(self, store: LogStore[LogFile]) -> None:
        self._store = store

    def __enter__(self) -> None:
        store = self._store
        store._mutex.acquire()
        if store._closed:
            store._mutex.release()
            raise StoreError("E_STORE_CLOSED", "the store is closed")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._store._mutex.release()
        if error is not None:
            self._store._file.translate(error)
