"""Tracking's rows: entries and attachments as rows of their tables, and the archive that answers from segments.

The archive knows the time of every stored filter and where it lies; a query reads the filters of its matching set and
nothing else.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.errors import StoreError
from tidings.model.tables import ATTACHMENTS, HISTORIES
from tidings.segments.reader import Segment, open_segment, read_rows, segments
from tidings.segments.writer import FILTERS_PER_GROUP
from tidings.tracking.archive import FilterIndex
from tidings.tracking.attachments import Attachment, AttachmentKind
from tidings.tracking.history import Encoding, Entry, Key, Kind, newest

OPEN_SEGMENTS_MAX = 16


def entry_row(broker: int, entry: Entry) -> dict[str, Any]:
    first_ms, last_ms = entry.span or (None, None)
    return {
        "broker": broker,
        "incarnation": entry.incarnation,
        "sequence": entry.sequence,
        "kind": entry.key.kind.value,
        "origin": entry.key.origin,
        "peer": entry.key.peer,
        "encoding": entry.encoding.value,
        "count": entry.count,
        "full": entry.full,
        "first_ms": first_ms,
        "last_ms": last_ms,
        "singles_ms": list(entry.singles),
        "opened_ms": entry.opened_ms,
        "stored_ms": entry.stored_ms,
        "data": entry.data,
    }


def row_entry(row: Mapping[str, Any], data: bytes | None = None) -> Entry:
    """The opposite of `entry_row`; a row without its data gets `data`."""
    span = None if row["first_ms"] is None else (row["first_ms"], row["last_ms"])
    try:
        kind, encoding = Kind(row["kind"]), Encoding(row["encoding"])
    except ValueError as error:
        raise StoreError("E_STORE_DAMAGED", f"a row of histories: {error}") from None
    return Entry(
        key=Key(kind, row["origin"], row["peer"]),
        sequence=row["sequence"],
        span=span,
        singles=tuple(row["singles_ms"]),
        count=row["count"],
        full=row["full"],
        encoding=encoding,
        data=row["data"] if data is None else data,
        opened_ms=row["opened_ms"],
        stored_ms=row["stored_ms"],
        incarnation=row["incarnation"],
    )


def attachment_row(broker: int, change: Attachment) -> dict[str, Any]:
    return {
        "broker": broker,
        "incarnation": change.incarnation,
        "kind": change.kind.value,
        "peer": change.peer,
        "ms": change.ms,
        "attached": change.attached,
    }


def read_attachments(root: Path, broker: int) -> list[Attachment]:
    """All changes at one broker, in the order of their making."""
    rows: Iterable[Mapping[str, Any]] = read_rows(root, ATTACHMENTS)
    return [
        Attachment(AttachmentKind(row["kind"]), row["peer"], row["ms"], row["attached"], row["incarnation"])
        for row in rows
        if row["broker"] == broker
    ]


class Place(NamedTuple):
    """Where a filter lies."""

    segment: Segment
    row: int


class Opened(NamedTuple):
    file: pq.ParquetFile
    about: pa.Table  # every column but the data


class SegmentArchive:
    """`tracking.archive.Archive` over the segments of a directory.

    It keeps in memory where each filter lies and its time, nothing else; some segments stay open. A segment is checked
    against its checksum when a filter is first read from it. A damaged one is left out and named in `damaged`, and as
    nobody knows what was in it, the archive counts as incomplete for everything older.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._histories: dict[tuple[int, str, int, str], FilterIndex[Place]] = {}
        self._seen: set[Path] = set()
        self._verified: set[Path] = set()
        self._open: OrderedDict[Path, Opened] = OrderedDict()
        self._stored_ms: dict[int, dict[int, int]] = {}
        self.since_ms = 0
        self.damaged: list[StoreError] = []
        self.refresh()

    def refresh(self) -> None:
        """Take in segments that have come since."""
        listed = segments(self._root, HISTORIES)
        if listed and listed[0].name.sequence > 0:
            self.since_ms = max(self.since_ms, listed[0].name.created_ms)  # older ones were deleted
        for segment in listed:
            if segment.path not in self._seen:
                self._seen.add(segment.path)
                try:
                    self._index(segment)
                except StoreError as error:
                    self._give_up(segment, error)

    def stored_ms(self, broker: int) -> Mapping[int, int]:
        return self._stored_ms.get(broker, {})

    def matching(self, broker: int, key: Key, moment: int) -> list[Entry]:
        index = self._histories.get((broker, key.kind.value, key.origin, key.peer))
        found = []
        for place in [] if index is None else index.at(moment):
            try:
                found.append(self._load(place))
            except StoreError as error:  # damaged, or deleted since
                self._give_up(place.segment, error)
        return newest(found)

    def _give_up(self, segment: Segment, error: StoreError) -> None:
        self.damaged.append(error)
        self.since_ms = max(self.since_ms, segment.name.created_ms)

    def _index(self, segment: Segment) -> None:
        about = _about(segment, open_segment(segment, HISTORIES, verified=True))
        columns = [about[name].to_pylist() for name in (*_HISTORY, *_FILTER)]
        for number, row in enumerate(zip(*columns, strict=True)):
            broker, kind, origin, peer, incarnation, sequence, count, full, first_ms, last_ms, singles, stored_ms = row
            last = self._stored_ms.setdefault(broker, {})
            last[incarnation] = max(last.get(incarnation, 0), stored_ms)
            index = self._histories.setdefault((broker, kind, origin, peer), FilterIndex())
            span = None if first_ms is None else (first_ms, last_ms)
            index.add(Place(segment, number), (incarnation, sequence), count, full, span, singles)

    def _load(self, place: Place) -> Entry:
        opened = self._opened(place.segment)
        group, row = divmod(place.row, FILTERS_PER_GROUP)
        try:
            data = opened.file.read_row_group(group, columns=["data"])["data"][row].as_py()
        except (pa.ArrowException, OSError, IndexError) as error:
            raise StoreError("E_STORE_DAMAGED", f"{place.segment.path}: {error}") from None
        return row_entry(opened.about.slice(place.row, 1).to_pylist()[0], data)

    def _opened(self, segment: Segment) -> Opened:
        path = segment.path
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        if path not in self._verified:
            open_segment(segment, HISTORIES)
            self._verified.add(path)
        file = open_segment(segment, HISTORIES, verified=True)
        self._open[path] = Opened(file, _about(segment, file))
        if len(self._open) > OPEN_SEGMENTS_MAX:
            self._open.popitem(last=False)[1].file.close()
        return self._open[path]


_HISTORY = ("broker", "kind", "origin", "peer")
_FILTER = ("incarnation", "sequence", "count", "full", "first_ms", "last_ms", "singles_ms", "stored_ms")


def _about(segment: Segment, file: pq.ParquetFile) -> pa.Table:
    try:
        return file.read(columns=[column.name for column in HISTORIES.columns if column.name != "data"])
    except (pa.ArrowException, OSError) as error:
        raise StoreError("E_STORE_DAMAGED", f"{segment.path}: {error}") from None
