"""Carrying out an experiment: every point so often as wanted, only runs that count, everything kept.

What has been measured is in the folder's segments (tables `runs` and `samples`) and nowhere else. So a second start
does only what is missing, whether the first one ended, was broken off or killed. A run that does not count is kept
with its reasons and repeated; if a point fails again and again the machine itself is measured (calibration.py) and the
reason is told.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tidings.errors import UsageError
from tidings.lab.calibration import Calibration
from tidings.lab.experiment import Experiment, Point
from tidings.lab.machine import environment
from tidings.lab.samples import judge, to_rows
from tidings.lab.saturation import measure_run
from tidings.lab.servers import SERVERS, Server
from tidings.lab.setups import SETUPS, Design
from tidings.lab.specials import SPECIALS
from tidings.model.tables import RUNS, SAMPLES
from tidings.segments.reader import read_rows
from tidings.segments.writer import SegmentWriter

WARM_S = {"activemq": 10.0}  # a virtual machine that compiles what is hot needs to find out what that is
DONE = "done"


@dataclass(frozen=True, slots=True)
class Step:
    """Something happened, for who watches."""

    point: Point
    finished: int  # runs
    wanted: int
    text: str


class Execution:
    def __init__(self, experiment: Experiment, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._experiment, self._folder, self._clock = experiment, folder, clock
        self._points = list(experiment.points())
        writer = f"lab_{experiment.name}".replace("-", "_")
        self._runs, self._samples = SegmentWriter(folder, RUNS, writer), SegmentWriter(folder, SAMPLES, writer)
        self._outcomes = Counter[tuple[str, bool]]()
        for row in read_rows(folder, RUNS):
            if row["experiment"] == experiment.name:
                name = str(row["run"]).rpartition("#")[0]
                self._outcomes[name, row["outcome"] == DONE] += 1
        self._calibration = Calibration.of(folder)
        self._topics = 0
        self.given_up: dict[str, str] = {}

    def missing(self) -> int:
        return sum(self._missing(point) for point in self._points)

    def steps(self) -> Iterator[Step]:
        """Do what is missing. Each run, counted or not, is one step."""
        wanted = missing = self.missing()
        if not missing:
            return
        with ExitStack() as stack:
            servers = {name: stack.enter_context(SERVERS[name]()) for name in self._experiment.servers}
            for server in servers.values():
                self._warm(server)
            for point in self._points:
                failed = 0
                while self._missing(point) and failed < self._experiment.measure.attempts:
                    outcome = self._run(servers[point.server], point)
                    failed += outcome != DONE
                    missing = self.missing()
                    yield Step(point, wanted - missing, wanted, outcome)
                if self._missing(point):
                    self.given_up[point.name] = f"{outcome}; {self._calibration.verdict()}"
                    yield Step(point, wanted - missing, wanted, f"given up: {self.given_up[point.name]}")

    def _missing(self, point: Point) -> int:
        return max(0, self._experiment.runs - self._outcomes[point.name, True])

    def _run(self, server: Server, point: Point) -> str:
        started = round(self._clock() * 1000)
        attempt = self._outcomes[point.name, True] + self._outcomes[point.name, False] + 1
        run = f"{point.name}#{attempt}"
        more: dict[str, Any] = {}
        try:
            rows, outcome, more = self._measured(server, point, run, started)
            if rows:
                self._samples.append(rows, started)
        except (RuntimeError, OSError) as error:
            outcome = f"failed: {error!s:.500}"
        except UsageError as error:  # of an experiment that is right: the machine was too busy to take samples
            if error.code != "E_LAB_SAMPLES":
                raise
            outcome = f"failed: {error.reason}"
        self._outcomes[point.name, outcome == DONE] += 1
        self._runs.append([self._row(point, server, run, started, outcome, more)], started)
        return outcome

    def _measured(
        self, server: Server, point: Point, run: str, started: int
    ) -> tuple[list[dict[str, Any]], str, dict[str, Any]]:
        measure = self._experiment.measure
        if point.kind in SPECIALS:
            return SPECIALS[point.kind](server, point.parameters, self._topic()).rows(run, started), DONE, {}
        design = self._design(point)
        samples, lost = measure_run(server, design, measure)
        verdict = judge(samples, measure.rules, lost)
        more = {"copies": design.copies, "load": asdict(design.load), "lost": lost}
        outcome = DONE if verdict.valid else "; ".join(verdict.reasons)
        return to_rows(run, "generator", samples, started), outcome, more

    def _row(
        self, point: Point, server: Server, run: str, started: int, outcome: str, more: dict[str, Any]
    ) -> dict[str, Any]:
        described = {"server": point.server, "kind": point.kind, "parameters": dict(point.parameters), **more}
        described |= {"measure": asdict(self._experiment.measure), "version": server.version}
        return {
            "run": run,
            "experiment": point.experiment,
            "seed": None,
            "started_ms": started,
            "ended_ms": round(self._clock() * 1000),
            "parameters": json.dumps(described),
            "outcome": outcome,
            "environment": json.dumps(environment()),
        }

    def _design(self, point: Point) -> Design:
        return SETUPS[point.kind](point.parameters, self._topic())

    def _topic(self) -> str:
        """One that nobody used before: no run sees what another one left."""
        self._topics += 1
        return f"lab.{self._topics:06d}"

    def _warm(self, server: Server) -> None:
        design = SETUPS["filters"]({}, self._topic())
        measure = replace(self._experiment.measure, seconds=WARM_S.get(server.name, 0.5))
        measure_run(server, design, measure)
