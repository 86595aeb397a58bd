"""Segments as a small network of brokers, a lab and an archive would have left them; for tests of the pipeline."""

import json
import random
from pathlib import Path

from hardening.support.tracking import World
from tidings.capacity.processing import Fitted, Load
from tidings.lab.run_verdict import CounterSample, to_rows
from tidings.matching.workload import Workload
from tidings.model.tables import ATTACHMENTS, HISTORIES, MESSAGES, RUNS, SAMPLES, SIMULATIONS
from tidings.segments.tracking import attachment_row, entry_row
from tidings.segments.writer import SegmentWriter
from tidings.tracking.recording.history import BloomSettings
from tidings.tracking.recording.recorder import TrackingSettings
from tidings.tracking.recording.strategies import BloomStrategy

TRACKING = TrackingSettings(
    BloomStrategy(BloomSettings(capacity=30, bits=256, hashes=4, skew_ms=20, jitter_ms=20)),
    persist_ms=200,
    skew_between_brokers_ms=50,
)
SERVER = Fitted.of("base", t_rcv=2e-5, t_fltr=1e-6, t_tx=1e-5)


def record_world(root: Path, seed: int = 1, messages: int = 400) -> World:
    """Brokers that were killed now and then, and all ended in order long after the last message."""
    assert isinstance(TRACKING.strategy, BloomStrategy)
    world = World(random.Random(seed), TRACKING, TRACKING.strategy.settings)
    world.run(messages, again=0.05, end=0.01)
    world.now_ms += 10_000
    for broker in world.links:
        world.restart(broker, killed=False)
    for broker in world.links:
        own = [entry_row(broker, entry) for of, entry in world.archive.entries() if of == broker]
        writer = SegmentWriter(root, HISTORIES, f"b{broker}")
        for start in range(0, len(own), 25):
            writer.append(own[start : start + 25], world.now_ms + start)
        changes = [attachment_row(broker, change) for change in world.changes[broker]]
        SegmentWriter(root, ATTACHMENTS, f"b{broker}").append(changes, world.now_ms)
    return world


def record_messages(root: Path, seed: int = 1, count: int = 500, *, copies: int = 50) -> None:
    """Archived by two brokers, some of them by both."""
    messages = Workload(seed, conjunctions=1).messages(0, count)
    data = Workload(seed, conjunctions=1).encoded_messages(0, count)
    rows, at = [], 0
    for message in messages:
        size = int.from_bytes(data[at : at + 4], "little")
        id = message.id
        row = {"id": bytes(id), "publisher": id.publisher, "broker": id.broker, "ms": id.ms, "source": "b1"}
        rows.append(row | {"size": size, "message": data[at + 4 : at + 4 + size]})
        at += 4 + size
    half = count // 2
    SegmentWriter(root, MESSAGES, "b1").append(rows[: half + copies], 1_000)
    SegmentWriter(root, MESSAGES, "b2").append([row | {"source": "b2"} for row in rows[half:]], 2_000)


def record_runs(root: Path, runs: int = 3, *, broken: bool = True, busy: float = 0) -> None:
    """A measured server that keeps to `SERVER` but for a little noise; the first run of each point does not count, and
    one that is `broken` says nothing about itself. `busy`: so much of the machine is used by others."""
    rng = random.Random(1)
    described, samples = [], []
    for filters in (1, 50, 200, 1000):
        for copies in (1, 10):
            load = Load(filters, copies)
            for number in range(runs + 1):
                run, start = f"filters-{filters}-{copies}#{number}", 1_762_000_000_000 + number * 60_000
                run += "-busy" if busy else ""
                rate = SERVER.received(load) * rng.uniform(0.99, 1.01) * (1 - busy)
                share = (0.99 if number else 0.5) * (1 - busy)
                seconds = [CounterSample(s, rate * s, rate * copies * s, share * s, 0.2 * s, 5e7) for s in range(8)]
                samples += to_rows(run, "generator", seconds, start)
                told = {"server": "tidings", "parameters": {"filters": filters, "copies": copies}, "lost": 0}
                told |= {"kind": "filters", "load": {"filters": filters, "replication": copies}}
                rules = {"server_share_min": 0.6 * (1 - busy), "per_cpu_second": 1} if busy else {}
                told |= {"measure": {"warm_s": 1, "cool_s": 1, **rules}}
                described.append(_run(run, start, json.dumps(told)))
    if broken:
        described.append(_run("filters-broken#0", 1_762_000_000_000, "no JSON"))
    SegmentWriter(root, RUNS, "lab").append(described, 1_000)
    SegmentWriter(root, SAMPLES, "lab").append(samples, 1_000)


def record_simulations(root: Path) -> None:
    """Two systems over what is varied, three seeds; and a queue over time."""
    rows = []
    for seed in (1, 2, 3):
        common = {"run": f"paper-{seed}", "scenario": "paper", "seed": seed, "node": None}
        for system in ("one", "two"):
            for x in (1, 2, 4):
                value = float(x * len(system) + seed)
                labels = json.dumps({"system": system, "x": x})
                rows.append(common | {"at_ms": 0.0, "metric": "delay_ms", "value": value, "labels": labels})
        for at_s in range(3):
            queue = {"at_ms": at_s * 1000.0, "metric": "queue", "value": float(at_s * seed), "labels": "{}"}
            rows.append(common | queue)
    SegmentWriter(root, SIMULATIONS, "sim").append(rows, 1_000)


def _run(run: str, start: int, parameters: str) -> dict[str, object]:
    times = {"started_ms": start, "ended_ms": start + 8000}
    told = {"parameters": parameters, "outcome": "done", "environment": "{}"}
    return {"run": run, "experiment": "filters", "seed": None, **times, **told}
