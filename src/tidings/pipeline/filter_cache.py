"""Cache of stored filters on a worker: metadata of all of them in memory, bits loaded on demand.

It answers as `tidings.tracking.query.archive.Archive` does, from the files of a clean table. Bits are read a row group
at a time and kept until others need the room, so the filters may be larger than memory: ids that are asked in order of
time need each group once.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.errors import StoreError
from tidings.pipeline.storage_paths import StoragePath
from tidings.segments.names import SegmentName
from tidings.segments.tracking import row_entry
from tidings.tracking.query.archive import FilterIndex
from tidings.tracking.recording.history import FilterEncoding, HistoryEntry, HistoryKind, Key, Searchable, newest

ABOUT = (
    *("broker", "incarnation", "sequence", "kind", "origin", "peer", "encoding", "count", "full"),
    *("first_ms", "last_ms", "singles_ms", "opened_ms", "stored_ms", "segment", "position"),
)


@dataclass(frozen=True, slots=True)
class CachedFilter(HistoryEntry):
    """An entry whose bits are in the cache."""

    cache: "FilterCache | None" = None
    group: int = 0  # of all row groups of all files
    row: int = 0

    def opened(self) -> Searchable:
        assert self.cache is not None
        return self.cache.opened(self.group, self.row)


class _Group:
    __slots__ = ("bytes", "data", "opened")

    def __init__(self, data: dict[int, tuple[bytes, str]]) -> None:
        self.data = data  # by row, until it is opened
        self.opened: dict[int, Searchable] = {}
        self.bytes = sum(len(one) for one, _ in data.values())


class FilterCache:
    def __init__(self, files: Sequence[StoragePath], bytes_max: int = 1 << 30) -> None:
        self.histories: dict[tuple[int, Key], list[CachedFilter]] = {}
        self.stored: dict[int, dict[int, int]] = {}  # broker -> incarnation -> when it last stored an entry
        self.writers: dict[int, set[str]] = {}
        self._bytes_max, self._bytes = bytes_max, 0
        self._groups: OrderedDict[int, _Group] = OrderedDict()
        self._files: list[tuple[StoragePath, int]] = []  # of each group: its file and number there
        self._index: dict[tuple[int, Key], FilterIndex[CachedFilter]] = {}
        self._stragglers: dict[tuple[int, int, int], set[str]] = {}
        for row in sorted(self._rows(files), key=lambda row: (row["segment"], row["position"])):
            self._add(row)

    def matching(self, broker: int, key: Key, moment: int) -> list[HistoryEntry]:
        index = self._index.get((broker, key))
        return [] if index is None else newest(index.at(moment))

    def stragglers(self, broker: int, origin: int, moment: int) -> list[str]:
        return sorted(self._stragglers.get((broker, origin, moment), ()))

    def opened(self, group: int, row: int) -> Searchable:
        held = self._groups.get(group)
        if held is None:
            held = self._load(group)
        else:
            self._groups.move_to_end(group)
        searchable = held.opened.get(row)
        if searchable is None:
            data, encoding = held.data.pop(row)
            entry = _bare(data, encoding)
            searchable = held.opened[row] = entry.opened()
        return searchable

    def _load(self, group: int) -> _Group:
        place, number = self._files[group]
        system, path = place.open()
        try:
            table = pq.ParquetFile(path, filesystem=system).read_row_group(number, columns=["data", "encoding"])
        except (pa.ArrowException, OSError) as error:
            raise StoreError("E_STORE_DAMAGED", f"{place.uri}: {error}") from None
        made = _Group(dict(enumerate(zip(table["data"].to_pylist(), table["encoding"].to_pylist(), strict=True))))
        self._bytes += made.bytes
        while self._groups and self._bytes > self._bytes_max:
            self._bytes -= self._groups.popitem(last=False)[1].bytes
        self._groups[group] = made
        return made

    def _rows(self, files: Sequence[StoragePath]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for place in files:
            system, path = place.open()
            with pq.ParquetFile(path, filesystem=system) as file:
                for number in range(file.num_row_groups):
                    about = file.read_row_group(number, columns=list(ABOUT)).to_pylist()
                    group = len(self._files)
                    self._files.append((place, number))
                    rows += [row | {"group": group, "row": i, "data": b""} for i, row in enumerate(about)]
        return rows

    def _add(self, row: Mapping[str, Any]) -> None:
        plain = row_entry(row)
        values = {name: getattr(plain, name) for name in HistoryEntry.__dataclass_fields__}
        entry = CachedFilter(**values, cache=self, group=row["group"], row=row["row"])
        broker = row["broker"]
        self.histories.setdefault((broker, entry.key), []).append(entry)
        index = self._index.setdefault((broker, entry.key), FilterIndex())
        which = (entry.incarnation, entry.sequence)
        index.add(entry, which, entry.count, entry.full, entry.span, entry.singles)
        for moment in entry.singles if entry.key.kind is HistoryKind.DELIVER else ():
            self._stragglers.setdefault((broker, entry.key.origin, moment), set()).add(entry.key.peer)
        last_ms = self.stored.setdefault(broker, {})
        last_ms[entry.incarnation] = max(last_ms.get(entry.incarnation, 0), entry.stored_ms)
        name = SegmentName.parse(row["segment"])
        if name is not None:
            self.writers.setdefault(broker, set()).add(name.writer)


def _bare(data: bytes, encoding: str) -> HistoryEntry:
    """An entry with only the fields that are needed to open its bits."""
    return HistoryEntry(Key(HistoryKind.ROUTE, 0), 0, None, (), 0, False, FilterEncoding(encoding), data, 0, 0)


@dataclass(frozen=True, slots=True)
class BrokerFilterCache:
    """One broker's view of the cache, for its recorder."""

    cache: FilterCache
    since_ms: int  # what is older may be missing

    def matching(self, broker: int, key: Key, moment: int) -> list[HistoryEntry]:
        return self.cache.matching(broker, key, moment)

    def stragglers(self, broker: int, origin: int, moment: int) -> list[str]:
        return self.cache.stragglers(broker, origin, moment)

    def stored_ms(self, broker: int) -> Mapping[int, int]:
        return self.cache.stored.get(broker, {})
