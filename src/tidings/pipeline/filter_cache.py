"""Cache of stored filters on a worker: metadata of those that concern its ids in memory, bits loaded on demand.

It answers as `tidings.tracking.query.archive.Archive` does, from the files of a clean table. Bits are read a row group
at a time and kept until others need the room, so the filters may be larger than memory: files are sorted by origin and
time, and ids that are asked in this order need each group once.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.errors import StoreError
from tidings.pipeline.storage_paths import StoragePath
from tidings.segments.tracking import row_entry
from tidings.tracking.query.archive import FilterIndex
from tidings.tracking.recording.history import FilterEncoding, HistoryEntry, HistoryKind, Key, Searchable, newest

ABOUT = (
    *("broker", "incarnation", "sequence", "kind", "origin", "peer", "encoding", "count", "full"),
    *("first_ms", "last_ms", "singles_ms", "opened_ms", "stored_ms", "segment", "position"),
)
FILE, ROW = "_file", "_row"  # where a filter is: the file's path below the table, and its row there, from 0
FILES_OPEN = 16
Stored: TypeAlias = Mapping[int, Mapping[int, int]]  # broker -> incarnation -> when it last stored an entry


@dataclass(frozen=True, slots=True)
class CachedFilter(HistoryEntry):
    """An entry whose bits are in the cache."""

    cache: "FilterCache | None" = None
    file: str = ""
    row: int = 0

    def opened(self) -> Searchable:
        assert self.cache is not None
        return self.cache.opened(self.file, self.row)


class _Group:
    __slots__ = ("bytes", "data", "opened")

    def __init__(self, data: dict[int, tuple[bytes, str]]) -> None:
        self.data = data  # by row, until it is opened
        self.opened: dict[int, Searchable] = {}
        self.bytes = sum(len(one) for one, _ in data.values())


@dataclass(frozen=True, slots=True)
class _File:
    parquet: pq.ParquetFile
    starts: list[int]  # the first row of each row group


class FilterCache:
    """`rows` are the columns `ABOUT` of filters and where they are; `stored` is of all filters, not only of these."""

    def __init__(
        self, place: StoragePath, rows: Sequence[Mapping[str, Any]], stored: Stored, bytes_max: int = 1 << 30
    ) -> None:
        self.histories: dict[tuple[int, Key], list[CachedFilter]] = {}
        self.stored = stored
        self.bytes_read = 0
        self._place, self._bytes_max, self._bytes = place, bytes_max, 0
        self._groups: OrderedDict[tuple[str, int], _Group] = OrderedDict()
        self._files: OrderedDict[str, _File] = OrderedDict()
        self._errors: dict[tuple[str, int], float] = {}
        self._index: dict[tuple[int, Key], FilterIndex[CachedFilter]] = {}
        self._stragglers: dict[tuple[int, int, int], set[str]] = {}
        for row in sorted(rows, key=lambda row: (row["segment"], row["position"])):
            self._add(row)

    def matching(self, broker: int, key: Key, moment: int) -> list[HistoryEntry]:
        return list[HistoryEntry](self.filters(broker, key, moment))

    def filters(self, broker: int, key: Key, moment: int) -> list[CachedFilter]:
        index = self._index.get((broker, key))
        return [] if index is None else newest(index.at(moment))

    def stragglers(self, broker: int, origin: int, moment: int) -> list[str]:
        return sorted(self._stragglers.get((broker, origin, moment), ()))

    def opened(self, path: str, row: int) -> Searchable:
        file = self._file(path)
        number = bisect_right(file.starts, row) - 1
        held = self._groups.get((path, number))
        if held is None:
            held = self._load(path, number, file)
        else:
            self._groups.move_to_end((path, number))
        at = row - file.starts[number]
        searchable = held.opened.get(at)
        if searchable is None:
            data, encoding = held.data.pop(at)
            entry = _bare(data, encoding)
            searchable = held.opened[at] = entry.opened()
            self._errors[path, row] = searchable.fpp()
        return searchable

    def error(self, entry: CachedFilter) -> float:
        """A filter's probability of an error; its bits are not read again for that."""
        known = self._errors.get((entry.file, entry.row))
        return entry.opened().fpp() if known is None else known

    def _file(self, path: str) -> _File:
        found = self._files.get(path)
        if found is None:
            place = self._place.under(path)
            system, at = place.open()
            try:
                parquet = pq.ParquetFile(at, filesystem=system)
            except (pa.ArrowException, OSError) as error:
                raise StoreError("E_STORE_DAMAGED", f"{place.uri}: {error}") from None
            rows = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
            found = self._files[path] = _File(parquet, [0, *accumulate(rows[:-1])])
            if len(self._files) > FILES_OPEN:
                self._files.popitem(last=False)[1].parquet.close()
        else:
            self._files.move_to_end(path)
        return found

    def _load(self, path: str, number: int, file: _File) -> _Group:
        try:
            table = file.parquet.read_row_group(number, columns=["data", "encoding"])
        except (pa.ArrowException, OSError) as error:
            raise StoreError("E_STORE_DAMAGED", f"{self._place.under(path).uri}: {error}") from None
        made = _Group(dict(enumerate(zip(table["data"].to_pylist(), table["encoding"].to_pylist(), strict=True))))
        self.bytes_read += made.bytes
        self._bytes += made.bytes
        while self._groups and self._bytes > self._bytes_max:
            self._bytes -= self._groups.popitem(last=False)[1].bytes
        self._groups[path, number] = made
        return made

    def _add(self, row: Mapping[str, Any]) -> None:
        plain = row_entry(row)
        values = {name: getattr(plain, name) for name in HistoryEntry.__dataclass_fields__}
        entry = CachedFilter(**values, cache=self, file=row[FILE], row=row[ROW])
        broker = row["broker"]
        self.histories.setdefault((broker, entry.key), []).append(entry)
        index = self._index.setdefault((broker, entry.key), FilterIndex())
        which = (entry.incarnation, entry.sequence)
        index.add(entry, which, entry.count, entry.full, entry.span, entry.singles)
        for moment in entry.singles if entry.key.kind is HistoryKind.DELIVER else ():
            self._stragglers.setdefault((broker, entry.key.origin, moment), set()).add(entry.key.peer)


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
