"""What a bulk trace reads of filters that do not fit into memory: each filter that concerns its ids about once."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench.pipeline_data import START_MS, Traffic

from tidings.pipeline.filter_cache import ABOUT, FILE, ROW
from tidings.pipeline.jobs.trace import TraceRecords, binary, trace_bucket, tracer_of
from tidings.pipeline.merging import order_of
from tidings.segments.tracking import entry_row
from tidings.tracking.ids import IdArray, id_times
from tidings.tracking.recording.history import BloomSettings
from tidings.tracking.recording.recorder import TrackingSettings

TRAFFIC = Traffic(
    120_000, brokers=3, topics=6, seconds=600, bloom=BloomSettings(capacity=1000, bits=1 << 15, hashes=12, skew_ms=1000)
)
BUCKETS = 4


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A table's file with one filter in each row group, sorted as files of the table are; its rows."""
    folder = tmp_path_factory.mktemp("histories")
    found = [entry_row(broker, entry) for broker, entry in TRAFFIC.entries()]
    found = [row | {"segment": "s", "position": number, "day": "x"} for number, row in enumerate(found)]
    found.sort(key=lambda row: [row[name] for name in order_of("histories")])
    pq.write_table(pa.Table.from_pylist(found), folder / "a.parquet", row_group_size=1)
    return folder, [row | {FILE: "a.parquet", ROW: number} for number, row in enumerate(found)]


def records(folder: Path, stored_ms: int, bytes_max: int) -> TraceRecords:
    changes = tuple((broker, tuple(TRAFFIC.changes(broker))) for broker in TRAFFIC.numbers)
    stored = tuple((broker, 1, stored_ms) for broker in TRAFFIC.numbers)
    return TraceRecords(str(folder), stored, changes, (), (), TrackingSettings(), bytes_max)


def about(rows: list[dict[str, Any]], first_ms: int, last_ms: int) -> pa.Table:
    """Metadata of those that overlap, as Spark brings it."""

    def overlaps(row: dict[str, Any]) -> bool:
        span = () if row["first_ms"] is None else ((row["first_ms"], row["last_ms"]),)
        ranges = (*span, *((at, at) for at in row["singles_ms"]))
        return any(first <= last_ms and last >= first_ms for first, last in ranges)

    chosen = [row for row in rows if overlaps(row)]
    return pa.Table.from_pylist([{name: row[name] for name in (*ABOUT, FILE, ROW)} for row in chosen])


def all_ids() -> IdArray:
    ids = np.concatenate([TRAFFIC.ids(origin) for origin in TRAFFIC.numbers])
    return ids[np.argsort(id_times(ids), kind="stable")]


def test_filters_larger_than_memory_are_read_about_once(rows: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, filters = rows
    stored_ms = max(row["stored_ms"] for row in filters)
    sizes = [len(row["data"]) for row in filters]
    few = records(folder, stored_ms, bytes_max=8 * max(sizes))
    assert sum(sizes) > 20 * few.filters_bytes_max
    read = traced = 0
    for ids in np.array_split(all_ids(), BUCKETS):
        times = id_times(ids)
        tracer, cache = tracer_of(about(filters, int(times[0]), int(times[-1])), few)
        numbers, paths = tracer.trace(ids)
        read, traced = read + cache.bytes_read, traced + len(numbers)
        assert sum(path.confirmed for path in paths) > 0
    assert traced == TRAFFIC.messages
    assert read <= 1.2 * sum(sizes), f"{read / sum(sizes):.2f} times the filters"


def test_buckets_do_not_change_what_is_found(rows: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, filters = rows
    asked = records(folder, max(row["stored_ms"] for row in filters), 1 << 30)
    ids = all_ids()[::40]

    def traced(parts: int) -> tuple[dict[bytes, int], set[str]]:
        found: dict[bytes, int] = {}
        reports: set[str] = set()
        for some in np.array_split(ids, parts):
            times = id_times(some)
            table = trace_bucket(pa.table({"id": binary(some)}), about(filters, int(times[0]), int(times[-1])), asked)
            found |= dict(zip(table["id"].to_pylist(), table["path"].to_pylist(), strict=True))
            reports |= {text for text in table["report"].to_pylist() if text is not None}
        return found, reports

    assert traced(1) == traced(7)
    assert trace_bucket(pa.table({"id": binary(ids[:0])}), about(filters, 0, 0), asked).num_rows == 0


def test_ids_of_no_known_time_are_answered_too(rows: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, filters = rows
    early = np.frombuffer(bytes([0, 0, 0, 9, 0, 0, 0, 1]) + bytes(8), np.uint8).reshape(1, 16)
    found = trace_bucket(pa.table({"id": binary(early)}), about(filters, 0, 0), records(folder, START_MS, 1 << 20))
    assert '"confirmed": false' in found["report"][0].as_py()
