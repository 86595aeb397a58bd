"""Retention of segments: deletes whole segments, oldest first, when they are too old or their total size is too large.

Before the first is deleted a file records up to which time: for an older time "not found" must not be taken for "did
not happen". There is one for each writer, `since-b3` for broker 3, so that folders of several brokers can be copied
together; a file named `since` alone is valid for all. It exists from the start and always has the same length, so that
old segments can be deleted on a full disk, which takes no new file.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tidings.errors import StoreError, UsageError
from tidings.model.tables import Table
from tidings.segments.durable import sync_directory
from tidings.segments.names import TEMPORARY_PREFIX
from tidings.segments.reader import Segment, segments

SINCE = "since"
FULL = errno.ENOSPC, errno.EDQUOT


@dataclass(frozen=True, slots=True)
class SegmentRetention:
    """Of one table; None: no limit."""

    age_ms_max: int | None = None
    bytes_max: int | None = None

    def __post_init__(self) -> None:
        if (self.age_ms_max or 0) < 0 or (self.bytes_max or 0) < 0:
            raise UsageError("E_SEGMENT_RETENTION", "a limit must not be negative")


def expired(found: list[tuple[Segment, int]], retention: SegmentRetention, now_ms: int) -> list[Segment]:
    """Selects the segments that have to be deleted; they are given with their sizes, oldest first."""
    total = sum(size for _, size in found)
    gone = []
    for segment, size in found:
        too_old = retention.age_ms_max is not None and now_ms - segment.name.created_ms > retention.age_ms_max
        too_many = retention.bytes_max is not None and total > retention.bytes_max
        if too_old or too_many:
            gone.append(segment)
            total -= size
    return gone


def sweep(root: Path, table: Table, retention: SegmentRetention, now_ms: int) -> list[Segment]:
    """Delete what has to go; returns it."""
    there = [segment for segment in segments(root, table) if segment.path.is_file()]
    found = [(segment, segment.path.stat().st_size) for segment in there]
    gone = expired(found, retention, now_ms)
    latest = {segment.name.writer: segment.name.created_ms + 1 for segment in gone}  # the last of each: they are sorted
    for writer, ms in latest.items():
        mark(root, table, writer, ms)
    for segment in gone:
        segment.path.unlink(missing_ok=True)
    return gone


def marked_writer(name: str) -> str | None:
    """Of whom a file of this name says up to when segments went; empty: of all; None: it is no such file.

    >>> marked_writer("since-b3"), marked_writer("since"), marked_writer("README")
    ('b3', '', None)
    """
    word, dash, writer = name.partition("-")
    return writer if word == SINCE and bool(dash) == bool(writer) else None


def marked_ms(data: bytes, where: str) -> int:
    """The time recorded in such a file."""
    try:
        return int(data)
    except ValueError as error:
        raise StoreError("E_STORE_DAMAGED", f"{where}: {error}") from None


def since_ms(root: Path, table: Table) -> int:
    """The time before which segments of any writer may have been deleted; 0: none were."""
    directory = root / table.name
    if not directory.is_dir():
        return 0
    return max((_read(path) for path in directory.iterdir() if marked_writer(path.name) is not None), default=0)


def mark(root: Path, table: Table, writer: str, ms: int) -> None:
    """Say so, before it is deleted. What was said before about a later time stays."""
    path = root / table.name / f"{SINCE}-{writer}"
    text = f"{max(ms, _read(path)):013}"
    try:
        _put(path, text)
    except OSError as error:
        code = "E_STORE_FULL" if error.errno in FULL else "E_STORE_IO"
        raise StoreError(code, f"cannot write {path}: {error}") from None


def _put(path: Path, text: str) -> None:
    temporary = path.with_name(TEMPORARY_PREFIX + path.name)
    try:
        _write(temporary, "w", text)
        temporary.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        if error.errno not in FULL or not path.exists():
            raise
        temporary.unlink(missing_ok=True)
        _write(path, "r+", text)  # in place: so few bytes of one sector are written as a whole or not at all


def _write(path: Path, mode: Literal["w", "r+"], text: str) -> None:
    with path.open(mode) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> int:
    try:
        return marked_ms(path.read_bytes(), str(path))
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise StoreError("E_STORE_DAMAGED", f"{path}: {error}") from None
