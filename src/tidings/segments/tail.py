"""The newest stored histories, in one file that is appended to: what is too little for a segment.

A quiet broker stores a few ids a second. As a segment each of these would take kilobytes; here it takes as many bytes
as a merged list of runs grows by. While the file is small it is rewritten, merged, with every append; a larger one
is appended to, and merged once it has grown by a quarter. `HistoryStore` moves its content to a segment when that is
large or old enough.

    TIDTAIL1 | length u32, crc32 u32, batch | length, crc32, batch | …

A batch has the different lists of its entries, then the entries, which name their list by number. Reading ends at the
first batch that is not whole: the process died while it wrote that, before anybody was told that it is stored.
"""

import errno
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tidings.errors import CodecError, StoreError
from tidings.model.reader import Reader, put_varint
from tidings.segments.durable import sync_directory
from tidings.tracking.recording.compact import compact
from tidings.tracking.recording.history import FilterEncoding, HistoryEntry, HistoryKind, Key

MAGIC = b"TIDTAIL1"
REWRITE_BYTES = 8 << 10  # a smaller file is rewritten each time
BATCH_BYTES_MAX = 1 << 30
PEER_BYTES_MAX = 1 << 16
_HEAD = struct.Struct("<II")
_KINDS, _ENCODINGS = tuple(HistoryKind), tuple(FilterEncoding)
_U64 = 2**64 - 1


class Tail:
    """Of one broker. All calls come from one thread."""

    def __init__(self, path: Path, broker: int) -> None:
        self._path, self._broker = path, broker
        self._by_key: dict[Key, list[HistoryEntry]] = {}
        self.entries: list[HistoryEntry] = []
        self.bytes = 0  # of the file
        self._merged_bytes = 0  # of it, when it was last rewritten
        self._load()

    def append(self, entries: Sequence[HistoryEntry]) -> None:
        """On disk when it returns; a StoreError if not."""
        together = [*self.entries, *entries]
        grown = self.bytes + sum(len(data) for data in {entry.data for entry in entries})
        if self.bytes < REWRITE_BYTES or grown > self._merged_bytes + self._merged_bytes // 4:
            self._write(compact(together))
            return
        frame = _frame(entries)
        _do(self._path, lambda: self._append(frame))
        self.bytes += len(frame)
        self._take(together)

    def clear(self) -> None:
        """Everything in it is stored elsewhere."""
        _do(self._path, lambda: self._path.unlink(missing_ok=True))
        self.bytes = self._merged_bytes = 0
        self._take([])

    @property
    def since_ms(self) -> int | None:
        """The time at which the first of its entries was begun."""
        return min((entry.opened_ms for entry in self.entries), default=None)

    def matching(self, key: Key, moment: int) -> list[HistoryEntry]:
        return [entry for entry in self._by_key.get(key, ()) if entry.matches(moment)]

    def stragglers(self, origin: int, moment: int) -> list[str]:
        keys = (key for key in self._by_key if key.kind is HistoryKind.DELIVER and key.origin == origin)
        return [key.peer for key in keys if any(moment in entry.singles for entry in self._by_key[key])]

    def stored_ms(self) -> Mapping[int, int]:
        """The time of the last entry that each incarnation stored."""
        last: dict[int, int] = {}
        for entry in self.entries:
            last[entry.incarnation] = max(last.get(entry.incarnation, 0), entry.stored_ms)
        return last

    def _take(self, entries: list[HistoryEntry]) -> None:
        self.entries = entries
        self._by_key = {}
        for entry in entries:
            self._by_key.setdefault(entry.key, []).append(entry)

    def _write(self, entries: list[HistoryEntry]) -> None:
        data = MAGIC + _frame(entries)
        _do(self._path, lambda: self._replace(data))
        self.bytes = self._merged_bytes = len(data)
        self._take(entries)

    def _replace(self, data: bytes) -> None:
        temporary = self._path.with_name(self._path.name + ".new")
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()  # on a full disk an incomplete file takes space
            raise
        sync_directory(self._path.parent)

    def _append(self, frame: bytes) -> None:
        with self._path.open("r+b") as file:
            file.truncate(self.bytes)  # what an append that failed may have left
            file.seek(self.bytes)
            file.write(frame)
            file.flush()
            os.fsync(file.fileno())

    def _load(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError("E_STORE_IO", f"cannot read {self._path}: {error}") from None
        entries: list[HistoryEntry] = []
        at = len(MAGIC) if data.startswith(MAGIC) else len(data)
        while at + _HEAD.size <= len(data):
            size, crc = _HEAD.unpack_from(data, at)
            batch = data[at + _HEAD.size : at + _HEAD.size + size]
            if len(batch) < size or zlib.crc32(batch) != crc:
                break
            try:
                entries += _decode(batch)
            except CodecError as error:
                raise StoreError("E_STORE_DAMAGED", f"{self._path}: {error}") from None
            at += _HEAD.size + size
        self.bytes = self._merged_bytes = at
        self._take(entries)


def _frame(entries: Iterable[HistoryEntry]) -> bytes:
    batch = _encode(list(entries))
    return _HEAD.pack(len(batch), zlib.crc32(batch)) + batch


def _encode(entries: list[HistoryEntry]) -> bytes:
    numbers: dict[bytes, int] = {}
    for entry in entries:
        numbers.setdefault(entry.data, len(numbers))
    out = bytearray()
    put_varint(out, len(numbers))
    for data in numbers:
        put_varint(out, len(data))
        out += data
    put_varint(out, len(entries))
    for entry in entries:
        _put(out, entry, numbers[entry.data])
    return bytes(out)


def _put(out: bytearray, entry: HistoryEntry, data: int) -> None:
    kind, encoding = _KINDS.index(entry.key.kind), _ENCODINGS.index(entry.encoding)
    out.append(kind | encoding << 2 | entry.full << 4 | (entry.span is not None) << 5)
    peer = entry.key.peer.encode()
    for number in (data, entry.key.origin, len(peer)):
        put_varint(out, number)
    out += peer
    for number in (entry.incarnation, entry.sequence, entry.count, entry.stored_ms, len(entry.singles)):
        put_varint(out, number)
    put_varint(out, _signed(entry.stored_ms - entry.opened_ms))
    for moment in (*entry.singles, *(entry.span or ())):
        put_varint(out, _signed(entry.stored_ms - moment))


def _decode(batch: bytes) -> list[HistoryEntry]:
    reader = Reader(batch, family="STORE")
    lists = [reader.take(reader.varint(BATCH_BYTES_MAX), "a list") for _ in range(reader.varint(len(batch)))]
    entries = [_get(reader, lists) for _ in range(reader.varint(len(batch)))]
    reader.finish("the last entry")
    return entries


def _get(reader: Reader, lists: list[bytes]) -> HistoryEntry:
    at, flags = reader.position, reader.byte()
    data, origin = reader.varint(_U64), reader.varint(2**32 - 1)
    peer = reader.text(reader.varint(PEER_BYTES_MAX), "a peer")
    incarnation, sequence, count, stored_ms, singles = (reader.varint(_U64) for _ in range(5))
    opened_ms = stored_ms - _unsigned(reader.varint(_U64))
    moments = tuple(stored_ms - _unsigned(reader.varint(_U64)) for _ in range(singles))
    span = None
    if flags & 32:
        span = (stored_ms - _unsigned(reader.varint(_U64)), stored_ms - _unsigned(reader.varint(_U64)))
    if data >= len(lists) or flags > 63:
        reader.fail("RANGE", "an entry names a list that is not there", at)
    key = Key(_KINDS[flags & 3], origin, peer)
    about = (span, moments, count, bool(flags & 16), _ENCODINGS[flags >> 2 & 3], lists[data])
    return HistoryEntry(key, sequence, *about, opened_ms, stored_ms, incarnation)


def _signed(number: int) -> int:
    return number << 1 if number >= 0 else ~number << 1 | 1


def _unsigned(number: int) -> int:
    return ~(number >> 1) if number & 1 else number >> 1


def _do(path: Path, work: Callable[[], object]) -> None:
    try:
        work()
    except OSError as error:
        code = "E_STORE_FULL" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "E_STORE_IO"
        raise StoreError(code, f"cannot write {path}: {error}") from None
