"""Measures the points of a calibration and keeps them in a file of JSON lines, so that it goes on where it stopped."""

import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidings.capacity.cost_fit import CostPoint
from tidings.errors import UsageError
from tidings.lab.calibration.design import DesignedPoint
from tidings.lab.calibration.load import LoadPoint, connected_load
from tidings.lab.calibration.meters import MeterOverhead
from tidings.lab.calibration.target import CalibrationTarget

WARM_S, STRETCH_S = 0.15, 0.7
ROUNDS_MAX = 50
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    name: str
    load: LoadPoint
    round: int
    messages: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    waiting_s: float | None = None
    reads: float | None = None
    writes: float | None = None
    client_s: float | None = None  # CPU seconds of the clients
    failed: str = ""  # the reason

    @property
    def key(self) -> tuple[str, int]:
        return self.name, self.round

    @property
    def counts(self) -> bool:
        return not self.failed and self.messages > 0 and self.cpu_s > 0


class ResultsFile:
    """A first line of settings, then one line per point and round."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self._path = path
        self.points: list[MeasuredPoint] = []
        if path.exists() and path.stat().st_size:
            self._read(dict(settings))
        else:
            self._append({"settings": dict(settings)})

    def add(self, point: MeasuredPoint) -> None:
        self.points.append(point)
        self._append(asdict(point))

    def _append(self, document: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(document) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self, settings: dict[str, Any]) -> None:
        lines = self._path.read_text(encoding="utf-8").splitlines()
        try:
            found = json.loads(lines[0])["settings"]
            for line in lines[1:]:
                if line.endswith("}"):  # otherwise it was cut off, and is measured again
                    row = json.loads(line)
                    self.points.append(MeasuredPoint(**{**row, "load": LoadPoint(**row["load"])}))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError("E_LAB_RESULTS", f"{self._path} holds no results of a calibration: {error}") from None
        if found != settings:
            other = ", ".join(f"{name} {found.get(name)!r}" for name in settings if settings[name] != found.get(name))
            raise UsageError(
                "E_LAB_RESULTS", f"{self._path} is of another calibration ({other}); choose another --results"
            )


def measure_points(
    target: CalibrationTarget,
    points: Sequence[DesignedPoint],
    results: ResultsFile,
    *,
    minutes: float,
    seed: int = 0,
    stretch_s: float = STRETCH_S,
) -> Iterator[MeasuredPoint]:
    """Every point once, however long that takes, then again in another order until the time is over."""
    begin, overhead = time.monotonic(), MeterOverhead.of(target.meter)
    measured = {one.key for one in results.points}
    for number in range(ROUNDS_MAX):
        order = [one for one in points if (one.name, number) not in measured]
        random.Random(f"order {seed} {number}").shuffle(order)
        for point in order:
            if number and time.monotonic() - begin > minutes * 60:
                return
            found = _measured(target, overhead, point, number, stretch_s)
            results.add(found)
            yield found


def _measured(
    target: CalibrationTarget, overhead: MeterOverhead, point: DesignedPoint, number: int, stretch_s: float
) -> MeasuredPoint:
    topic = f"tidings.lab.{os.getpid()}.{point.name.replace(' ', '-').replace('=', '-')}.{number}".replace("0.", "0-")
    try:
        with connected_load(target.address, point.load, target.client, topic, tls=target.tls) as load:
            load.run(WARM_S)
            found = load.measure(target.meter, overhead, stretch_s)
    except UsageError as error:
        if error.code != "E_LAB_STUCK":
            raise
        return MeasuredPoint(point.name, point.load, number, failed=error.reason)
    waiting = found.waits.mean if found.waits is not None else None
    counted = (found.messages, found.seconds, found.cpu_s, waiting, found.reads, found.writes, found.client_s)
    return MeasuredPoint(point.name, point.load, number, *counted)


def cost_points(measured: Sequence[MeasuredPoint]) -> list[CostPoint]:
    """The round with the median cost of each point that counts."""
    by_name: dict[str, list[MeasuredPoint]] = {}
    for one in measured:
        if one.counts:
            by_name.setdefault(one.name, []).append(one)
    return [_typical(runs) for runs in by_name.values()]


def _typical(runs: Sequence[MeasuredPoint]) -> CostPoint:
    """Of an even number the cheaper one, for what disturbs makes dearer; reads and writes must be of the same round."""
    one = sorted(runs, key=lambda run: run.cpu_s / run.messages)[(len(runs) - 1) // 2]
    client_s = None if one.load.persistent else one.client_s
    reads, writes, client_s = (
        None if value is None else value / one.messages for value in (one.reads, one.writes, client_s)
    )
    return CostPoint(one.load.traffic, one.cpu_s / one.messages, one.name, reads, writes, client_s)


def wake_seconds(measured: Sequence[MeasuredPoint]) -> float:
    """Waiting of messages that meet an idle broker: the shortest mean of points with one message in flight."""
    found = [one.waiting_s for one in measured if one.counts and one.load.in_flight == 1 and one.waiting_s is not None]
    return min(found, default=0.0)
