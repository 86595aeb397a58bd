"""Bulk trace without Spark: the same reports as one search for each id, whatever happened to the brokers."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardening.support.tracking import START_MS, World

from tidings.model.message_id import MessageId
from tidings.pipeline.bulk import NO_RECORDS, Tracer
from tidings.pipeline.filter_cache import FILE, ROW, FilterCache
from tidings.pipeline.storage_paths import StoragePath
from tidings.segments.tracking import entry_row
from tidings.tracking.ids import id_array
from tidings.tracking.recording.history import BloomSettings, newest
from tidings.tracking.recording.recorder import TrackingSettings
from tidings.tracking.recording.strategies import AsyncStrategy, BloomStrategy, RunStrategy, Strategy

BLOOM = BloomSettings(capacity=30, bits=256, hashes=4, skew_ms=20, jitter_ms=20)  # errs often


def shelf(world: World, folder: Path, bytes_max: int) -> FilterCache:
    folder.mkdir()
    rows = [
        entry_row(broker, entry) | {"segment": f"{START_MS}-b{broker}-00000000-00000000.parquet", "position": position}
        for broker in world.links
        for position, entry in enumerate(newest(one for of, one in world.archive.entries() if of == broker))
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "histories.parquet", row_group_size=7)
    about = [row | {"data": b"", FILE: "histories.parquet", ROW: number} for number, row in enumerate(rows)]
    return FilterCache(StoragePath.of(folder), about, stored_ms(rows), bytes_max)


def stored_ms(rows: list[dict[str, Any]]) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for row in rows:
        own = found.setdefault(row["broker"], {})
        own[row["incarnation"]] = max(own.get(row["incarnation"], 0), row["stored_ms"])
    return found


@pytest.mark.parametrize(
    "strategy", [BloomStrategy(BLOOM), AsyncStrategy(), RunStrategy(20, 20)], ids=["bloom", "async", "runs"]
)
@pytest.mark.parametrize("forwards", [False, True])
def test_bulk_is_one_by_one(tmp_path: Path, strategy: Strategy, forwards: bool) -> None:
    settings = TrackingSettings(strategy, persist_ms=200, skew_between_brokers_ms=50, forwards=forwards)
    for seed in range(3):
        world = World(random.Random(seed), settings, BLOOM, brokers=6)
        world.run(300, again=0.05, end=0.01)
        for broker in world.links:
            world.restart(broker, killed=seed == 2)
        since = {1: world.now_ms - 300} if seed == 1 else {}
        tracer = Tracer(shelf(world, tmp_path / str(seed), 20_000), world.changes, settings, since)
        strange = [MessageId(1, 2, world.now_ms - 500, 7), MessageId(1, 99, world.now_ms), MessageId(1, 2, 0)]
        asked = [message for message, _ in world.sent] + strange
        numbers, paths = tracer.trace(id_array(*asked))
        for message, number in zip(asked, numbers.tolist(), strict=True):
            assert replace(paths[number], message=message) == tracer.trace_one(message)
        assert sum(path.confirmed for path in paths) > 20


def test_what_is_known_of_a_lost_broker_is_told_by_the_others(tmp_path: Path) -> None:
    """As by a live trace whose origin does not answer."""
    settings = TrackingSettings(BloomStrategy(BLOOM), persist_ms=200, skew_between_brokers_ms=50)
    world = World(random.Random(4), settings, BLOOM, brokers=6)
    world.run(300)
    world.now_ms += 10_000
    for broker in world.links:
        world.restart(broker, killed=False)
    lost = 2
    left = {broker: changes for broker, changes in world.changes.items() if broker != lost}
    tracer = Tracer(shelf(world, tmp_path / "x", 1 << 20), left, settings)
    asked = [message for message, _ in world.sent if message.broker == lost]
    numbers, paths = tracer.trace(id_array(*asked))
    for message, number in zip(asked, numbers.tolist(), strict=True):
        told = world.trace(message, unreachable=[lost])
        assert replace(paths[number], message=message) == replace(told, unasked={lost: NO_RECORDS})
    assert sum(len(path.hops) > 1 for path in paths) > 10


def test_nothing_asked_is_nothing_found(tmp_path: Path) -> None:
    world = World(random.Random(1), TrackingSettings(BloomStrategy(BLOOM)), BLOOM)
    world.run(40)
    world.restart(1, killed=False)
    tracer = Tracer(shelf(world, tmp_path / "x", 1 << 20), world.changes, world.settings)
    numbers, paths = tracer.trace(id_array())
    assert (len(numbers), paths) == (0, [])
