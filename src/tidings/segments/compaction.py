"""Offline compaction of stored histories: fewer and fuller filters, in fewer and larger segments, the same answers.

Segments are taken in runs of limited size, oldest first; what `tracking.compact` makes of a run is written as one
segment with the time of the last one in it, so that retention still knows its age. Only then the old ones are deleted:
a crash in between leaves filters twice, which answers the same, and the next run puts that right.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidings.model.tables import HISTORIES
from tidings.segments.history_store import CATALOG, lock
from tidings.segments.reader import Segment, read_segment, segments
from tidings.segments.tracking import entry_row, row_entry
from tidings.segments.writer import SegmentWriter
from tidings.tracking.recording.compact import compact
from tidings.tracking.recording.history import HistoryEntry

RUN_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Compacted:
    """Sizes before and after a compaction."""

    segments_before: int = 0
    segments_after: int = 0
    filters_before: int = 0
    filters_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


def compact_segments(root: Path, capacity: int = 0, *, run_bytes_max: int = RUN_BYTES_MAX) -> Compacted:
    """Of all brokers with histories here, none of which may be running. `capacity`: n, as for `tracking.compact`."""
    held = lock(root)
    try:
        for left in root.glob(f"{CATALOG}*"):  # it speaks of segments that are about to go
            left.unlink()
        done = [_compact(root, run, capacity) for run in _runs(root, run_bytes_max)]
    finally:
        held.close()
    return Compacted(*(sum(column) for column in zip(*done, strict=True))) if done else Compacted()


def _runs(root: Path, bytes_max: int) -> Iterator[list[Segment]]:
    run: list[Segment] = []
    size = 0
    for segment in segments(root, HISTORIES):
        more = segment.path.stat().st_size
        if run and size + more > bytes_max:
            yield run
            run, size = [], 0
        run.append(segment)
        size += more
    if run:
        yield run


def _compact(root: Path, run: list[Segment], capacity: int) -> tuple[int, int, int, int, int, int]:
    rows = [row for segment in run for row in read_segment(segment, HISTORIES).to_pylist()]
    by_broker: dict[int, list[HistoryEntry]] = {}
    for row in rows:
        by_broker.setdefault(row["broker"], []).append(row_entry(row))
    merged = [(broker, entry) for broker, own in by_broker.items() for entry in compact(own, capacity)]
    bytes_before = sum(segment.path.stat().st_size for segment in run)
    if len(run) == 1 and len(merged) == len(rows):  # nothing to gain
        return 1, 1, len(rows), len(rows), bytes_before, bytes_before
    writer = SegmentWriter(root, HISTORIES, run[-1].name.writer)
    path = writer.append([entry_row(*one) for one in merged], run[-1].name.created_ms)
    for segment in run:
        segment.path.unlink()
    return len(run), 1, len(rows), len(merged), bytes_before, path.stat().st_size
