"""The archive of stored histories: answers from segments, reading the filters of a matching set and nothing else."""

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.errors import StoreError
from tidings.extras import lazy
from tidings.model.tables import HISTORIES
from tidings.segments.filter_catalog import FilterCatalog, FilterLocation
from tidings.segments.names import SegmentName
from tidings.segments.reader import Segment, open_segment, segments
from tidings.segments.retention import since_ms
from tidings.segments.tail import Tail
from tidings.segments.tracking import row_entry
from tidings.tracking.recording.history import HistoryEntry, HistoryKind, Key, newest

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = lazy("pyarrow"), lazy("pyarrow.parquet")

OPEN_SEGMENTS_MAX = 16
GROUPS_MAX = 32  # of rows that were read lately: other subscribers' filters of the same time lie beside this one's
_ABOUT = [column.name for column in HISTORIES.columns if column.name != "data"]


class SegmentArchive:
    """`tracking.archive.Archive` over the segments of a directory. `catalog`: where to keep what is known about them,
    None for memory. `tail`: what is not in segments yet, of the broker that writes here.

    A segment is checked against its checksum when a filter is first read from it. A damaged one is left out and named
    in `damaged`, and as its content is unknown, the archive counts as incomplete for everything older.
    """

    def __init__(self, root: Path, catalog: Path | None = None, tail: Tail | None = None) -> None:
        self._root, self._tail = root, tail
        self._catalog = FilterCatalog(catalog)
        self._verified: set[str] = set()
        self._open: OrderedDict[str, pq.ParquetFile] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
        self._given_up: set[str] = set()
        self.since_ms = 0
        self.damaged: list[StoreError] = []
        self.refresh()

    def __len__(self) -> int:
        return len(self._catalog)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
        self._catalog.close()

    def refresh(self) -> None:
        """Take in segments that have come since, and forget those that are gone."""
        self._mending(self._refresh)

    @property
    def hindrance(self) -> str | None:
        """The reason why the catalogue is not in its file."""
        return self._catalog.hindrance

    def retake(self) -> None:
        """Put the catalogue back into its file, if there is room again."""
        self._catalog.retake()

    def _mending(self, work: Callable[[], None]) -> None:
        """Runs an operation on the catalogue; if it fails, the catalogue is rebuilt from the directory."""
        try:
            work()
        except sqlite3.Error as error:
            self._catalog.mend(error)
            try:
                self._refresh()
            except sqlite3.Error as again:
                raise StoreError("E_STORE_IO", f"the catalogue of histories: {again}") from again

    def _refresh(self) -> None:
        self.since_ms = max(self.since_ms, since_ms(self._root, HISTORIES))
        listed = {str(segment.name): segment for segment in segments(self._root, HISTORIES)}
        known = self._catalog.segments()
        for name in known.keys() - listed.keys():
            if known[name]:  # it was still needed, and retention would have said so before
                self._doubt(name)
            self._catalog.forget(name)
        for name, segment in listed.items():
            if name not in known and name not in self._given_up:
                try:
                    entries = _entries(segment)
                except StoreError as error:
                    self._give_up(name, error)
                else:
                    self._catalog.add(name, entries)

    def doubt_before(self, ms: int) -> None:
        """In this process: of the time before, there may be more than is here."""
        self.since_ms = max(self.since_ms, ms)

    def add(self, path: Path, rows: Iterable[tuple[int, HistoryEntry]]) -> None:
        """A segment that was just written, and what is in it: broker and entry of each row."""
        self._mending(lambda: self._catalog.add(path.name, rows))

    def forget(self, path: Path) -> None:
        """A segment that was deleted."""
        self._mending(lambda: self._catalog.forget(path.name))
        self._verified.discard(path.name)
        if path.name in self._open:
            self._open.pop(path.name).close()

    def superseded(self) -> list[Path]:
        """Segments with nothing in them that is not stored again elsewhere."""
        return list(map(self._path, self._catalog.superseded()))

    def stored_ms(self, broker: int) -> Mapping[int, int]:
        stored = dict(self._catalog.stored_ms(broker))
        for incarnation, ms in ({} if self._tail is None else self._tail.stored_ms()).items():
            stored[incarnation] = max(stored.get(incarnation, 0), ms)
        return stored

    def stragglers(self, broker: int, origin: int, moment: int) -> list[str]:
        late = [] if self._tail is None else self._tail.stragglers(origin, moment)
        return sorted({*late, *self._catalog.stragglers(broker, HistoryKind.DELIVER.value, origin, moment)})

    def matching(self, broker: int, key: Key, moment: int) -> list[HistoryEntry]:
        found = [] if self._tail is None else self._tail.matching(key, moment)
        for place in self._catalog.find(broker, key, moment):
            try:
                found.append(self._load(place))
            except StoreError as error:  # damaged, or deleted since
                self._give_up(place.segment, error)
        return newest(found)

    def _path(self, name: str) -> Path:
        return self._root / HISTORIES.name / name

    def _give_up(self, name: str, error: StoreError) -> None:
        self._given_up.add(name)
        self.damaged.append(error)
        self._doubt(name)

    def _doubt(self, name: str) -> None:
        parsed = SegmentName.parse(name)
        assert parsed is not None
        self.since_ms = max(self.since_ms, parsed.created_ms + 1)

    def _load(self, place: FilterLocation) -> HistoryEntry:
        row = place.row
        about = self._opened(place.segment).metadata
        for group in range(about.num_row_groups):
            if row < (size := about.row_group(group).num_rows):
                return row_entry(self._group(place.segment, group).slice(row, 1).to_pylist()[0])
            row -= size
        raise StoreError("E_STORE_DAMAGED", f"{self._path(place.segment)}: there is no row {place.row}")

    def _group(self, name: str, group: int) -> "pa.Table":
        found = self._groups.get((name, group))
        if found is not None:
            self._groups.move_to_end((name, group))
            return found
        file = self._opened(name)
        try:
            found = file.read_row_group(group, use_threads=False)
        except (pa.ArrowException, OSError, IndexError) as error:
            raise StoreError("E_STORE_DAMAGED", f"{self._path(name)}: {error}") from None
        self._groups[name, group] = found
        if len(self._groups) > GROUPS_MAX:
            self._groups.popitem(last=False)
        return found

    def _opened(self, name: str) -> "pq.ParquetFile":
        if name in self._open:
            self._open.move_to_end(name)
            return self._open[name]
        segment_name = SegmentName.parse(name)
        assert segment_name is not None
        segment = Segment(segment_name, self._path(name))
        if name not in self._verified:
            open_segment(segment, HISTORIES).close()
            self._verified.add(name)
        self._open[name] = open_segment(segment, HISTORIES, verified=True)
        if len(self._open) > OPEN_SEGMENTS_MAX:
            self._open.popitem(last=False)[1].close()
        return self._open[name]


def _entries(segment: Segment) -> list[tuple[int, HistoryEntry]]:
    """Brokers and entries, without their data."""
    with open_segment(segment, HISTORIES, verified=True) as file:
        try:
            rows = file.read(columns=_ABOUT).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise StoreError("E_STORE_DAMAGED", f"{segment.path}: {error}") from None
    return [(row["broker"], row_entry(row)) for row in rows]
