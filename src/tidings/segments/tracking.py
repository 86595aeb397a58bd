"""Tracking's rows: entries and attachments as rows of their tables, and the archive that answers from segments.

The archive knows the time range of every stored filter and where it lies; a query reads the filters of its matching
set and nothing else, the most recently read ones from memory.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from tidings.errors import StoreError
from tidings.model.tables import ATTACHMENTS, HISTORIES
from tidings.segments.reader import Segment, open_segment, read_rows, segments
from tidings.segments.writer import FILTERS_PER_GROUP
from tidings.tracking.attachments import Attachment, AttachmentKind
from tidings.tracking.history import Encoding, Entry, Key, Kind, newest
from tidings.tracking.time_index import TimeIndex

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
    """An entry without its data, and where that is."""

    entry: Entry
    segment: Segment
    row: int


class SegmentArchive:
    """`tracking.archive.Archive` over the segments of a directory. A damaged segment is left out and named."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._histories: dict[tuple[int, Key], TimeIndex[Place]] = {}
        self._seen: set[Path] = set()
        self._files: OrderedDict[Path, pq.ParquetFile] = OrderedDict()
        self.since_ms = 0
        self._stored_ms: dict[int, dict[int, int]] = {}
        self.damaged: list[StoreError] = []
        self.refresh()

    def refresh(self) -> None:
        """Take in segments that have come since."""
        listed = segments(self._root, HISTORIES)
        if listed and listed[0].name.sequence > 0:
            self.since_ms = listed[0].name.created_ms  # older ones were deleted
        for segment in listed:
            if segment.path not in self._seen:
                self._seen.add(segment.path)
                try:
                    self._index(segment)
                except StoreError as error:
                    self.damaged.append(error)
                    self.since_ms = max(self.since_ms, segment.name.created_ms)  # it may have held anything older

    def stored_ms(self, broker: int) -> Mapping[int, int]:
        return self._stored_ms.get(broker, {})

    def matching(self, broker: int, key: Key, moment: int) -> list[Entry]:
        index = self._histories.get((broker, key))
        if index is None:
            return []
        places = {id(place.entry): place for place in index.at(moment)}
        return [self._load(places[id(entry)]) for entry in newest(place.entry for place in places.values())]

    def _index(self, segment: Segment) -> None:
        file = open_segment(segment, HISTORIES)
        columns = [column.name for column in HISTORIES.columns if column.name != "data"]
        for number, row in enumerate(file.read(columns=columns).to_pylist()):
            entry = row_entry(row, b"")
            last_ms = self._stored_ms.setdefault(row["broker"], {})
            last_ms[entry.incarnation] = max(last_ms.get(entry.incarnation, 0), entry.stored_ms)
            index = self._histories.setdefault((row["broker"], entry.key), TimeIndex())
            index.add(Place(entry, segment, number), entry.span, entry.singles)

    def _load(self, place: Place) -> Entry:
        file = self._open(place.segment)
        group, row = divmod(place.row, FILTERS_PER_GROUP)
        data = file.read_row_group(group, columns=["data"])["data"][row].as_py()
        return replace(place.entry, data=data)

    def _open(self, segment: Segment) -> pq.ParquetFile:
        if segment.path in self._files:
            self._files.move_to_end(segment.path)
        else:
            self._files[segment.path] = open_segment(segment, HISTORIES)
            if len(self._files) > OPEN_SEGMENTS_MAX:
                self._files.popitem(last=False)
        return self._files[segment.path]
