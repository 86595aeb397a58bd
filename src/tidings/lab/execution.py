"""Carrying out experiments: every point so often as wanted, only runs that count, everything kept.

All points are run once, of all experiments, then all again: in rounds, each with servers started afresh (running.py).
So what disturbs the machine for minutes comes to all alike, and the deviation over runs is that of another day.

What has been measured is in the folder's segments (tables `runs` and `samples`) and nowhere else. So a second start
does only what is missing, whether the first one ended, was broken off or killed: a run is there when its row in `runs`
is, which is written last and as a whole; samples without it belong to no run. A run that does not count is kept with
its reasons and repeated; if a point fails again and again the machine itself is measured (calibration.py) and the
reason is reported.

A run's name ends with a number and with letters drawn at this start, so that it is unique wherever segments of several
folders or machines are put together. What --busy measured is another point than the same without: it has another unit.
"""

import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tidings.capacity.arrays import refuse
from tidings.errors import UsageError
from tidings.lab.durations import Durations
from tidings.lab.experiment import Experiment, ExperimentPoint, per_cpu_second
from tidings.lab.machine import environment
from tidings.lab.machine_check import Calibration
from tidings.lab.run_verdict import judge, to_rows
from tidings.lab.saturation import measure_run
from tidings.lab.server_pool import ServerPool, running
from tidings.lab.special_experiments import SPECIALS
from tidings.lab.workloads import SETUPS
from tidings.model.tables import RUNS, SAMPLES
from tidings.segments.reader import read_rows
from tidings.segments.writer import SegmentWriter

DONE = "done"


@dataclass(frozen=True, slots=True)
class ExecutionStep:
    """Something happened, for who watches."""

    point: ExperimentPoint
    finished: int  # runs
    wanted: int
    text: str
    left_s: float  # about how long the rest takes


@dataclass(frozen=True, slots=True)
class _Measured:
    """Samples of a run."""

    rows: list[dict[str, Any]]  # of the table samples
    outcome: str
    described: dict[str, Any]


class Execution:
    def __init__(self, experiments: Sequence[Experiment], folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._experiments = {one.name: one for one in sorted(experiments, key=_leaves_behind)}
        if len(self._experiments) < len(experiments):
            raise refuse("two experiments have the same name", "E_LAB_EXPERIMENT")
        self._folder, self._clock = folder, clock
        self._points = [point for one in self._experiments.values() for point in one.points()]
        self._writers: dict[str, tuple[SegmentWriter, SegmentWriter]] = {}
        self._outcomes = Counter[tuple[str, bool]]()
        self._failures = Counter[str]()  # since this start
        self._durations = Durations(experiments)
        self._count(list(read_rows(folder, RUNS)))
        self._start = secrets.token_hex(3)
        self._calibration = Calibration.of(folder)
        self._environment = json.dumps(environment())
        self.given_up: dict[str, str] = {}

    def _count(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Counts the stored runs that have the unit of this measurement."""
        points, names = {point.name: point for point in self._points}, Counter(row["run"] for row in rows)
        for row in rows:
            experiment, name = self._experiments.get(row["experiment"]), str(row["run"]).rpartition("#")[0]
            if experiment is None:
                continue
            described = json.loads(row["parameters"])
            if described["kind"] != experiment.kind:
                found = f"{self._folder} has runs of {experiment.name!r} of kind {described['kind']!r}"
                raise refuse(f"{found}, not {experiment.kind!r}: take another name or folder", "E_LAB_EXPERIMENT")
            unit = per_cpu_second(experiment.kind, described["measure"].get("per_cpu_second", 0))
            if name in points and unit == experiment.per_cpu_second:
                self._outcomes[name, row["outcome"] == DONE and names[row["run"]] == 1] += 1
                self._durations.learn(points[name], _lasted_s(row))

    def missing(self) -> int:
        return sum(self._missing(point) for point in self._points)

    def missing_s(self) -> float:
        """About how long that takes, if every run counts."""
        started = {(point.server, turn) for point in self._points for turn in self._turns(point)}
        runs = sum(self._durations.of(point) * self._missing(point) for point in self._points)
        return runs + sum(self._durations.start(server) for server, _ in started)

    def steps(self) -> Iterator[ExecutionStep]:
        """Do what is missing. Each run, counted or not, is one step."""
        wanted = self.missing()
        with running() as servers:
            for turn in range(1, max(one.runs for one in self._experiments.values()) + 1):
                points = [point for point in self._points if turn in self._turns(point)]
                for point in points:
                    for text in self._attempts(servers, point, turn):
                        yield ExecutionStep(point, wanted - self.missing(), wanted, text, self.missing_s())
                servers.drop_all()

    def _turns(self, point: ExperimentPoint) -> range:
        """The rounds in which something is missing."""
        if point.name in self.given_up:
            return range(0)
        runs = self._durations.runs(point, self._experiments[point.experiment].runs)
        return range(self._outcomes[point.name, True] + 1, runs + 1)

    def _missing(self, point: ExperimentPoint) -> int:
        return len(self._turns(point))

    def _attempts(self, servers: ServerPool, point: ExperimentPoint, turn: int) -> Iterator[str]:
        """Until the point has as many runs as there were rounds, or has failed too often."""
        while turn in self._turns(point):
            outcome = self._run(servers, point)
            self._failures[point.name] += outcome != DONE
            if self._failures[point.name] >= self._experiments[point.experiment].measure.attempts:
                self.given_up[point.name] = f"{outcome}; {self._calibration.verdict()}"
                yield outcome
                yield f"given up: {self.given_up[point.name]}"
            else:
                yield outcome

    def _run(self, servers: ServerPool, point: ExperimentPoint) -> str:
        version = servers.server(point.server).version
        run, started = self._name(point), round(self._clock() * 1000)
        try:
            found = self._measured(servers, point, run, started)
        except (RuntimeError, OSError) as error:
            servers.drop(point.server)
            found = _Measured([], f"failed: {error!s:.500}", {})
        except UsageError as error:  # of an experiment that is right: the machine was too busy to take samples
            if error.code != "E_LAB_SAMPLES":
                raise
            found = _Measured([], f"failed: {error.reason}", {})
        servers.settle(point.server)
        runs, samples = self._writers_of(point.experiment)
        if found.rows:
            samples.append(found.rows, started)
        row = self._row(point, version, run, started, found)
        runs.append([row], started)
        self._outcomes[point.name, found.outcome == DONE] += 1
        self._durations.learn(point, _lasted_s(row))
        return found.outcome

    def _name(self, point: ExperimentPoint) -> str:
        """One that no samples have, also not those of a run that was killed before its row was written."""
        attempt = self._outcomes[point.name, True] + self._outcomes[point.name, False] + 1
        return f"{point.name}#{attempt}-{self._start}"

    def _writers_of(self, experiment: str) -> tuple[SegmentWriter, SegmentWriter]:
        if experiment not in self._writers:
            name = f"lab_{experiment}".replace("-", ".")  # which no experiment has in its name
            writers = SegmentWriter(self._folder, RUNS, name), SegmentWriter(self._folder, SAMPLES, name)
            self._writers[experiment] = writers
        return self._writers[experiment]

    def _measured(self, servers: ServerPool, point: ExperimentPoint, run: str, started: int) -> _Measured:
        server, measure = servers.server(point.server), self._experiments[point.experiment].measure
        if point.kind in SPECIALS:
            special = SPECIALS[point.kind](server, point.parameters, servers.topic())
            return _Measured(special.rows(run, started), DONE, {"measure": asdict(measure)})
        design = SETUPS[point.kind](point.parameters, servers.topic())
        saturated = measure_run(server, design, measure)
        measure = replace(measure, warm_s=saturated.warm_s)  # what is to be cut off, for who judges later
        verdict = judge(saturated.samples, measure.rules, saturated.lost)
        described = {"copies": design.copies, "load": asdict(design.load), "lost": saturated.lost}
        return _Measured(
            to_rows(run, "generator", saturated.samples, started),
            DONE if verdict.valid else "; ".join(verdict.reasons),
            {**described, "measure": asdict(measure)},
        )

    def _row(self, point: ExperimentPoint, version: str, run: str, started: int, found: _Measured) -> dict[str, Any]:
        measure = asdict(self._experiments[point.experiment].measure)
        described = {"server": point.server, "kind": point.kind, "parameters": dict(point.parameters)}
        return {
            "run": run,
            "experiment": point.experiment,
            "seed": None,
            "started_ms": started,
            "ended_ms": round(self._clock() * 1000),
            "parameters": json.dumps({**described, "measure": measure, "version": version, **found.described}),
            "outcome": found.outcome,
            "environment": self._environment,
        }


def _lasted_s(row: Mapping[str, Any]) -> float:
    return float(row["ended_ms"] - row["started_ms"]) / 1000


def _leaves_behind(experiment: Experiment) -> int:
    """Those last in a round that leave most with a server: what is stored, and many thousand subscriptions."""
    return 2 if experiment.kind in SPECIALS else int(bool(experiment.fixed.get("persistent")))
