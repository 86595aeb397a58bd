"""A broker's records on disk: segments of histories and attachments, the archive over them, retention.

    <root>/tail   <root>/histories/…parquet   <root>/attachments/…parquet   <root>/catalog.db  …/lock  …/era-…

Changes of attachments are written before the histories that came with them or after them, so a stored filter never
names a subscriber that the attachment map does not know. Copies of filters that have grown since are deleted once the
later copy is on disk. What is exact goes to the *tail* first (`tail`), and from there, merged, to segments of a useful
size. A full disk keeps no broker from running: what cannot be written is for later, and that it ran is recorded in a
way that takes no space (`run_markers`). All calls come from one thread.
"""

import fcntl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tidings.errors import StoreError
from tidings.model.tables import ATTACHMENTS, HISTORIES
from tidings.segments import run_markers
from tidings.segments.archive import SegmentArchive
from tidings.segments.reader import read_segment, segments
from tidings.segments.retention import SegmentRetention, mark, sweep
from tidings.segments.tail import Tail
from tidings.segments.tracking import attachment_row, entry_columns, read_attachments
from tidings.segments.writer import SegmentWriter
from tidings.tracking.recording.attachments import (
    Attachment,
    AttachmentKind,
    relevant,
    since_of_last,
    without_old_publishers,
)
from tidings.tracking.recording.compact import compact
from tidings.tracking.recording.history import FilterEncoding, HistoryEntry

CATALOG, LOCK, TAIL = "catalog.db", "lock", "tail"
TAIL_ENCODINGS = (FilterEncoding.RUNS, FilterEncoding.LINES)
SEGMENT_BYTES = 256 << 10  # what the tail holds at most …
TAIL_MS_MAX = 3_600_000  # … and for how long: the pipeline reads segments
ATTACHMENT_SEGMENTS_MAX = 64  # above this number, they are written as one
FRESH_SEGMENTS_MAX = 4


class HistoryStore:
    def __init__(
        self,
        root: Path,
        broker: int,
        retention: SegmentRetention | None = None,
        attachments_max: int | None = None,
        tail_ms_max: int = TAIL_MS_MAX,
    ) -> None:
        """`attachments_max`: the number of detached subscribers that are kept; None: all. `tail_ms_max`: the age at
        which the content of the tail becomes a segment."""
        self._tail_ms_max = tail_ms_max
        self._root, self._broker, self._retention = root, broker, retention or SegmentRetention()
        self._attachments_max = attachments_max
        self._lock = lock(root)
        self._writer = f"b{broker}"
        self._histories = SegmentWriter(root, HISTORIES, self._writer)
        self._attachments = SegmentWriter(root, ATTACHMENTS, self._writer)
        self._fresh: list[tuple[Path, Sequence[Attachment], int]] = []  # written since `maintain`, and when
        self._owed: list[Attachment] = []  # eras of earlier processes that are not stored yet
        self._last_ms = 0
        self.hindrances: list[StoreError] = []  # what could not be tidied at the start
        try:
            self._tail, damage = self._open_tail(root / TAIL)
            self.archive = SegmentArchive(root, root / CATALOG, self._tail)
            self.archive.damaged += damage
            self._lost_tail = bool(damage)
        except BaseException:
            self._lock.close()
            raise

    def _open_tail(self, path: Path) -> tuple[Tail, list[StoreError]]:
        """Set aside if it cannot be read: of the time before, something is missing then."""
        try:
            return Tail(path, self._broker), []
        except StoreError as error:
            if error.code != "E_STORE_DAMAGED":
                raise
            path.rename(path.with_name(path.name + ".damaged"))
            return Tail(path, self._broker), [error]

    def close(self) -> None:
        with suppress(StoreError):  # a full disk: it stays where it is
            self._settle([], self._last_ms)
        self.archive.close()
        self._lock.close()

    def recover(self, now_ms: int) -> tuple[list[Attachment], Mapping[int, int]]:
        """Attachments in the order of their making, and when each earlier process last stored something."""
        self._last_ms = now_ms
        self._set_damaged_aside(now_ms)
        try:
            mark(self._root, HISTORIES, self._writer, now_ms if self._lost_tail else 0)  # while there is room for it
            self._settle([], now_ms)
            self.maintain()
            self.retire(now_ms)
        except StoreError as error:  # a full disk, say: it is tried again every now and then
            self.hindrances.append(error)
        past = read_attachments(self._root, self._broker)
        self._owed = [era for era in run_markers.signed(self._root, self._broker) if era not in past]
        return [*past, *self._owed], self.archive.stored_ms(self._broker)

    def begin_tenure(self, number: int, now_ms: int, *, complete: bool) -> None:
        """Nothing is known of earlier tenures whose records are on other machines; `complete`: all copies were read."""
        if not complete:
            self.archive.doubt_before(now_ms)
            return
        try:
            if number > run_markers.tenure(self._root, self._broker) + 1:
                mark(self._root, HISTORIES, self._writer, now_ms)
                self.archive.refresh()
            run_markers.note_tenure(self._root, self._broker, number)
        except (StoreError, OSError) as error:
            self.archive.doubt_before(now_ms)
            self.hindrances.append(StoreError("E_STORE_IO", f"the tenure cannot be recorded: {error}"))

    def sign(self, era: Attachment) -> None:
        """Leaves a marker for an era that could not be stored, so that later processes know of it."""
        try:
            run_markers.sign(self._root, self._broker, era)
        except OSError as error:
            raise StoreError(
                "E_STORE_IO", f"cannot record the start of this process in {self._root}: {error}"
            ) from None

    def append(self, changes: Sequence[Attachment], entries: Sequence[HistoryEntry], now_ms: int) -> None:
        """On disk when it returns; a StoreError if not all of it is. To be given again then: twice does no harm."""
        if changes:
            changes = [*self._owed, *changes]
            self._fresh.append((self._write(changes, now_ms), changes, now_ms))
            self._owed = []
            eras = [change for change in changes if change.kind is AttachmentKind.ERA and change.attached]
            run_markers.unsign(self._root, self._broker, eras)
        self._last_ms = now_ms
        exact = [entry for entry in entries if entry.encoding in TAIL_ENCODINGS]
        if len(exact) < len(entries):
            self._store([entry for entry in entries if entry.encoding not in TAIL_ENCODINGS], now_ms)
        if exact:
            self._append(exact, now_ms)

    def _append(self, entries: list[HistoryEntry], now_ms: int) -> None:
        size = self._tail.bytes + sum(map(len, {entry.data for entry in entries}))
        since_ms = self._tail.since_ms
        if size >= SEGMENT_BYTES or (since_ms is not None and abs(now_ms - since_ms) > self._tail_ms_max):
            self._settle(entries, now_ms)
        else:
            self._tail.append(entries)

    def _settle(self, entries: list[HistoryEntry], now_ms: int) -> None:
        """The tail and these become a segment."""
        together = compact([*self._tail.entries, *entries])
        if together:
            self._store(together, now_ms)
            self._tail.clear()

    def _store(self, entries: list[HistoryEntry], now_ms: int) -> None:
        path = self._histories.append_columns(entry_columns(self._broker, entries), now_ms)
        self.archive.add(path, [(self._broker, entry) for entry in entries])

    def maintain(self) -> None:
        """Every now and then: delete what is stored again elsewhere, and let what was written bit by bit be one
        segment, or `retire` would find thousands to read while everything waits for it."""
        for path in self.archive.superseded():
            path.unlink(missing_ok=True)
            self.archive.forget(path)
        if len(self._fresh) > FRESH_SEGMENTS_MAX:
            self._write([change for _, changes, _ in self._fresh for change in changes], self._fresh[-1][2])
            for path, _, _ in self._fresh:
                path.unlink(missing_ok=True)
        self._fresh = []

    def _write(self, changes: Sequence[Attachment], now_ms: int) -> Path:
        return self._attachments.append([attachment_row(self._broker, change) for change in changes], now_ms)

    def retire(self, now_ms: int) -> None:
        """More seldom, because it looks at every segment: delete what is too old or too much."""
        for segment in sweep(self._root, HISTORIES, self._retention, now_ms):
            self.archive.forget(segment.path)
        self.archive.refresh()
        self.archive.retake()
        if len(segments(self._root, ATTACHMENTS)) > ATTACHMENT_SEGMENTS_MAX:
            self._rewrite_attachments(now_ms)

    def _rewrite_attachments(self, now_ms: int) -> None:
        """Rewrites them as one segment, without those that are too old to be asked about or above the limit."""
        self._set_damaged_aside(now_ms)
        changes, old = read_attachments(self._root, self._broker), segments(self._root, ATTACHMENTS)
        if self._attachments_max is not None:
            changes = without_old_publishers(changes, 2 * self._attachments_max)
            since_ms = since_of_last(changes, self._attachments_max)
            if since_ms > self.archive.since_ms:
                mark(self._root, HISTORIES, self._writer, since_ms)
                self.archive.refresh()
        self._write(relevant(changes, self.archive.since_ms), now_ms)
        self._fresh = []
        for segment in old:
            segment.path.unlink(missing_ok=True)

    def _set_damaged_aside(self, now_ms: int) -> None:
        """Attachments that cannot be read keep no broker from running: of the time before, something may be missing."""
        for segment in segments(self._root, ATTACHMENTS):
            try:
                read_segment(segment, ATTACHMENTS)
            except StoreError as error:
                if error.code != "E_STORE_DAMAGED":
                    raise
                mark(self._root, HISTORIES, self._writer, now_ms)
                segment.path.rename(segment.path.with_name(segment.path.name + ".damaged"))
                self.archive.damaged.append(error)
                self.archive.refresh()


def lock(root: Path) -> "LockedFile":
    """One process at a time writes here."""
    return LockedFile(root / LOCK)


class LockedFile:
    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = path.open("a")
        except OSError as error:
            raise StoreError("E_STORE_IO", f"cannot open {path}: {error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise StoreError("E_STORE_LOCKED", f"{path.parent} is in use by another process") from None

    def close(self) -> None:
        self._file.close()
