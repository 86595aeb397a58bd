"""Tracking's rows: entries and attachments as rows of their tables, and the archive that answers from segments.

The archive knows the time of every stored filter and where it lies; a query reads the filters of its matching set and
nothing else.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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
E = TypeVar("E", bound=Enum)
_HISTORY = ("broker", "kind", "origin", "peer")
_FILTER = (
    *("incarnation", "sequence", "encoding", "count", "full"),
    *("first_ms", "last_ms", "singles_ms", "opened_ms", "stored_ms"),
)


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


def row_entry(row: Mapping[str, Any]) -> Entry:
    """The opposite of `entry_row`."""
    key = Key(_known(Kind, row["kind"]), row["origin"], row["peer"])
    return replace(_entry(key, *(row[name] for name in _FILTER)), data=row["data"])


def _entry(
    key: Key,
    incarnation: int,
    sequence: int,
    encoding: str,
    count: int,
    full: bool,
    first_ms: int | None,
    last_ms: int | None,
    singles: Sequence[int],
    opened_ms: int,
    stored_ms: int,
) -> Entry:
    """Of the columns in `_FILTER`, without its data."""
    span = None if first_ms is None or last_ms is None else (first_ms, last_ms)
    known = _known(Encoding, encoding)
    return Entry(key, sequence, span, tuple(singles), count, full, known, b"", opened_ms, stored_ms, incarnation)


def _known(names: type[E], name: str) -> E:
    try:
        return names(name)
    except ValueError as error:
        raise StoreError("E_STORE_DAMAGED", f"a row of histories: {error}") from None


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
    """Where a filter lies, and all about it but its data."""

    segment: Segment
    row: int
    entry: Entry


class SegmentArchive:
    """`tracking.archive.Archive` over the segments of a directory.

    It keeps in memory where each filter lies and its time, not its data; some segments stay open. A segment is checked
    against its checksum when a filter is first read from it. A damaged one is left out and named in `damaged`, and as
    nobody knows what was in it, the archive counts as incomplete for everything older.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._histories: dict[tuple[int, Key], FilterIndex[Place]] = {}
        self._seen: set[Path] = set()
        self._verified: set[Path] = set()
        self._open: OrderedDict[Path, pq.ParquetFile] = OrderedDict()
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
        index = self._histories.get((broker, key))
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
        with open_segment(segment, HISTORIES, verified=True) as file:
            try:
                about = file.read(columns=[*_HISTORY, *_FILTER])
            except (pa.ArrowException, OSError) as error:
                raise StoreError("E_STORE_DAMAGED", f"{segment.path}: {error}") from None
        keys: dict[tuple[int, str, int, str], tuple[Key, FilterIndex[Place]]] = {}
        histories = zip(*(about[name].to_pylist() for name in _HISTORY), strict=True)
        filters = zip(*(about[name].to_pylist() for name in _FILTER), strict=True)
        for number, (history, parts) in enumerate(zip(histories, filters, strict=True)):
            if history not in keys:
                broker, kind, origin, peer = history
                key = Key(_known(Kind, kind), origin, peer)
                keys[history] = key, self._histories.setdefault((broker, key), FilterIndex())
            key, index = keys[history]
            entry = _entry(key, *parts)
            last_ms = self._stored_ms.setdefault(history[0], {})
            last_ms[entry.incarnation] = max(last_ms.get(entry.incarnation, 0), entry.stored_ms)
            which = (entry.incarnation, entry.sequence)
            index.add(Place(segment, number, entry), which, entry.count, entry.full, entry.span, entry.singles)

    def _load(self, place: Place) -> Entry:
        file = self._opened(place.segment)
        group, row = divmod(place.row, FILTERS_PER_GROUP)
        try:
            data = file.read_row_group(group, columns=["data"], use_threads=False)["data"][row].as_py()
        except (pa.ArrowException, OSError, IndexError) as error:
            raise StoreError("E_STORE_DAMAGED", f"{place.segment.path}: {error}") from None
        return replace(place.entry, data=data)

    def _opened(self, segment: Segment) -> pq.ParquetFile:
        path = segment.path
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        if path not in self._verified:
            open_segment(segment, HISTORIES)
            self._verified.add(path)
        self._open[path] = open_segment(segment, HISTORIES, verified=True)
        if len(self._open) > OPEN_SEGMENTS_MAX:
            self._open.popitem(last=False)[1].close()
        return self._open[path]
