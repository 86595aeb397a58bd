"""Stored notes of keys: which messages have which values of chosen attributes.

    <root>/keys/since   <root>/keys/1762000000123.log  …124.log  …

A file has *batches*, each the notes of one attribute (`key_notes`) with the span of their messages' times. The last
file grows: while it is small it is rewritten, merged, with every append; a larger one is appended to, and merged once
it has grown by a quarter. At 1 MiB, or after a day, the next one begins. A search reads the files whose batches have
its attribute and its time, the newest first. `since` tells from when each attribute has been recorded.

    length u32, crc32 u32, batch | length, crc32, batch | …
    batch: size of name u16, first_ms u64, last_ms u64, name, notes
"""

import errno
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from tidings.errors import CodecError, StoreError
from tidings.segments.durable import sync_directory
from tidings.segments.retention import SegmentRetention
from tidings.tracking.ids import as_ids, id_times
from tidings.tracking.recording.key_notes import KeyBatch, answered, encode_keys, find_key
from tidings.tracking.trace_answer import KeyAnswer, KeyQuery

FOLDER, SINCE, SUFFIX = "keys", "since", ".log"
REWRITE_BYTES = 8 << 10
FILE_BYTES = 1 << 20
FILE_MS = 86_400_000
SHARE = 4  # of the room that histories may take: a quarter
_FRAME, _BATCH = struct.Struct("<II"), struct.Struct("<HQQ")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Notes of one attribute, and the span of the times of their messages."""

    name: str
    first_ms: int
    last_ms: int
    data: bytes = b""

    def matches(self, query: KeyQuery) -> bool:
        return self.name == query.name and self.first_ms <= query.last_ms and self.last_ms >= query.first_ms


@dataclass(slots=True)
class _File:
    path: Path
    opened_ms: int
    size: int = 0
    merged_size: int = 0  # when it was last rewritten
    batches: list[StoredBatch] = field(default_factory=list)  # of the last file with their data, of others without

    @property
    def last_ms(self) -> int:
        return max((batch.last_ms for batch in self.batches), default=self.opened_ms)


class KeyStore:
    """Of one broker. All calls come from one thread."""

    def __init__(self, root: Path, names: Iterable[str], retention: SegmentRetention, now_ms: int) -> None:
        self._folder, self._retention = root / FOLDER, retention
        self.damaged: list[StoreError] = []
        self._files: list[_File] = []
        self._since: dict[str, int] = {}
        wanted, self._written = tuple(names), False
        if not wanted and not self._folder.exists():
            return
        self._load()
        known = self._read_since()
        self._since = {name: known.get(name, now_ms) for name in wanted}
        if self._since != known:
            with suppress(StoreError):  # a full disk: it is tried again with what is to be appended
                self._write_since()

    def append(self, batches: Iterable[KeyBatch], now_ms: int) -> None:
        """On disk when it returns; a StoreError if not."""
        if not self._written:
            self._write_since()
        fresh = [_stored(batch) for batch in batches]
        file = self._files[-1] if self._files else None
        if file is None or file.size >= FILE_BYTES or abs(now_ms - file.opened_ms) > FILE_MS:
            if file is not None:
                self._write(file)
                file.batches = [StoredBatch(one.name, one.first_ms, one.last_ms) for one in file.batches]
            opened_ms = max(now_ms, 0 if file is None else file.opened_ms + 1)
            file = _File(self._folder / f"{opened_ms}{SUFFIX}", opened_ms)
            self._files.append(file)
        frames = b"".join(map(_frame, fresh))
        merged = file.batches
        file.batches = [*merged, *fresh]
        try:
            if file.size < REWRITE_BYTES or file.size + len(frames) > file.merged_size + file.merged_size // 4:
                self._write(file)
            else:
                _do(file.path, lambda: _append(file, frames))
        except StoreError:
            file.batches = merged
            raise

    def find(self, broker: int, query: KeyQuery) -> KeyAnswer:
        """Returns the messages that are stored; they are complete from `since_ms` on."""
        ids, more = np.empty((0, 16), np.uint8), False
        for file in reversed(self._files):
            if any(batch.matches(query) for batch in file.batches):
                if more := len(ids) >= query.count:
                    break
                ids = np.concatenate([ids, find_key((one.data for one in self._read(file, query)), query)])
        recorded = query.name in self._since
        found = answered(broker, query, ids, more=more, since_ms=self._since.get(query.name, 0))
        return KeyAnswer(broker, found.messages, found.more, found.since_ms, recorded)

    def retire(self, now_ms: int) -> None:
        """Deletes files that are too old, or too much, oldest first."""
        age_ms, bytes_max = self._retention.age_ms_max, self._retention.bytes_max
        while len(self._files) > 1:
            first, total = self._files[0], sum(file.size for file in self._files)
            too_old = age_ms is not None and now_ms - self._files[1].opened_ms > age_ms
            if not too_old and (bytes_max is None or total <= bytes_max // SHARE):
                break
            self._incomplete_until(first.last_ms + 1)
            _do(first.path, partial(first.path.unlink, missing_ok=True))
            del self._files[0]

    def _incomplete_until(self, ms: int) -> None:
        since = {name: max(ms, before) for name, before in self._since.items()}
        if since != self._since:
            self._since = since
            self._write_since()

    def _load(self) -> None:
        paths = sorted((path for path in self._folder.glob(f"*{SUFFIX}") if path.stem.isdecimal()), key=_opened_ms)
        for path in paths:
            file = _File(path, _opened_ms(path))
            last = path == paths[-1]
            try:
                data = path.read_bytes()
            except OSError as error:
                raise StoreError("E_STORE_IO", f"cannot read {path}: {error}") from None
            for batch, end in _batches(data):
                file.batches.append(batch if last else StoredBatch(batch.name, batch.first_ms, batch.last_ms))
                file.size = file.merged_size = end
            self._files.append(file)
            if not last and file.size < len(data):  # of the last one that is a batch whose writing was cut short
                self.damaged.append(StoreError("E_STORE_DAMAGED", f"{path}: damaged at byte {file.size}"))

    def _read(self, file: _File, query: KeyQuery) -> Iterator[StoredBatch]:
        if file is self._files[-1]:
            yield from (batch for batch in file.batches if batch.matches(query))
            return
        try:
            data = file.path.read_bytes()
        except OSError as error:
            raise StoreError("E_STORE_IO", f"cannot read {file.path}: {error}") from None
        yield from (batch for batch, _ in _batches(data) if batch.matches(query))

    def _write(self, file: _File) -> None:
        """Merges the notes of each attribute, and writes the file as a whole."""
        names = dict.fromkeys(batch.name for batch in file.batches)
        merged = [_merged([one for one in file.batches if one.name == name]) for name in names]
        data = b"".join(map(_frame, merged))
        _do(file.path, lambda: _replace(file.path, data))
        file.batches, file.size, file.merged_size = merged, len(data), len(data)

    def _read_since(self) -> dict[str, int]:
        try:
            found = json.loads((self._folder / SINCE).read_text())
            read = {str(name): int(ms) for name, ms in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError):  # then all begins now
            return {}
        if self.damaged:
            until = max(file.opened_ms for file in self._files)
            read = {name: max(ms, until) for name, ms in read.items()}
        return read

    def _write_since(self) -> None:
        path = self._folder / SINCE
        _do(path, lambda: self._folder.mkdir(mode=0o700, parents=True, exist_ok=True))
        _do(path, lambda: _replace(path, json.dumps(self._since).encode()))
        self._written = True


def _stored(batch: KeyBatch) -> StoredBatch:
    times = id_times(as_ids(batch.ids))
    return StoredBatch(batch.name, int(times.min()), int(times.max()), encode_keys([batch]))


def _merged(batches: list[StoredBatch]) -> StoredBatch:
    if len(batches) == 1:
        return batches[0]
    first, last = min(one.first_ms for one in batches), max(one.last_ms for one in batches)
    return StoredBatch(batches[0].name, first, last, encode_keys([one.data for one in batches]))


def _frame(batch: StoredBatch) -> bytes:
    name = batch.name.encode()
    body = _BATCH.pack(len(name), batch.first_ms, batch.last_ms) + name + batch.data
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def _batches(data: bytes) -> Iterator[tuple[StoredBatch, int]]:
    """Batches, and where each ends, up to the first that is not whole."""
    at = 0
    while at + _FRAME.size + _BATCH.size <= len(data):
        size, crc = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + size]
        if len(body) < max(size, _BATCH.size) or zlib.crc32(body) != crc:
            return
        named, first_ms, last_ms = _BATCH.unpack_from(body)
        start = _BATCH.size + named
        at += _FRAME.size + size
        with suppress(UnicodeDecodeError, CodecError):
            yield StoredBatch(body[_BATCH.size : start].decode(), first_ms, last_ms, body[start:]), at


def _opened_ms(path: Path) -> int:
    return int(path.stem)


def _append(file: _File, frames: bytes) -> None:
    with file.path.open("r+b") as out:
        out.truncate(file.size)  # what an append that failed may have left
        out.seek(file.size)
        out.write(frames)
        out.flush()
        os.fsync(out.fileno())
    file.size += len(frames)


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    try:
        with temporary.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()  # on a full disk an incomplete file takes space
        raise
    sync_directory(path.parent)


def _do(path: Path, work: Callable[[], object]) -> None:
    try:
        work()
    except OSError as error:
        code = "E_STORE_FULL" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "E_STORE_IO"
        raise StoreError(code, f"cannot write {path}: {error}") from None
