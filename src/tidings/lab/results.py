"""Results of experiments, read from the folder's segments: mean over the valid runs, with a confidence interval.

The Spark pipeline makes the same table of any amount of data (`tidings pipeline measure`); this reads what one machine
has measured in an afternoon.
"""

import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.capacity.arrays import refuse
from tidings.capacity.fitting import Measurement
from tidings.capacity.processing import Load
from tidings.extras import lazy
from tidings.lab.experiment import Measure, per_cpu_second
from tidings.lab.run_verdict import METRICS, TWICE, RunVerdict, judge, of_rows, titled
from tidings.model.tables import RUNS, SAMPLES
from tidings.segments.reader import read_rows

if TYPE_CHECKING:
    from scipy import stats
else:
    stats = lazy("scipy.stats")

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Mean:
    """Over runs. One run says nothing about its deviation."""

    mean: float
    deviation: float | None
    half_width: float | None  # of the confidence interval at LEVEL
    runs: int

    @classmethod
    def of(cls, values: list[float]) -> "Mean":
        """
        >>> found = Mean.of([9.0, 10.0, 11.0])
        >>> found.mean, found.deviation, round(found.half_width, 3)
        (10.0, 1.0, 2.484)
        """
        count = len(values)
        if count < 2:
            return cls(statistics.fmean(values), None, None, count)
        deviation = statistics.stdev(values)
        factor = float(stats.t.ppf((1 + LEVEL) / 2, count - 1))
        return cls(statistics.fmean(values), deviation, factor * deviation / math.sqrt(count), count)


@dataclass(frozen=True, slots=True)
class PointResult:
    """One point of an experiment."""

    experiment: str
    server: str
    kind: str
    parameters: Mapping[str, Any]
    load: Load | None
    received: Mean | None  # messages a second; None: measured otherwise
    dispatched: Mean | None
    seconds: Mapping[str, Mean]  # of metrics that are durations
    rejected: tuple[str, ...]  # why runs do not count
    per_cpu_second: bool = False  # the unit of its rates: a second of the server's processor time

    @property
    def title(self) -> str:
        """Of the experiment; points of one title may be put into one figure or model."""
        return titled(self.experiment, per_cpu_second=self.per_cpu_second)

    def measurement(self) -> Measurement:
        """For a fit. What was measured once states no deviation."""
        assert self.load is not None
        assert self.received is not None
        return Measurement(self.load, self.received.mean)


def read_results(folder: Path, experiment: str | None = None) -> list[PointResult]:
    """Of all experiments, or of one, in the order their points were first measured."""
    runs = [row for row in read_rows(folder, RUNS) if experiment in (None, row["experiment"])]
    if not runs:
        what = f"of {experiment!r} " if experiment else ""
        raise refuse(f"no runs {what}in {folder}; measure with: tidings lab run", "E_LAB_RESULTS")
    samples: dict[str, list[dict[str, Any]]] = {}
    for row in read_rows(folder, SAMPLES):
        samples.setdefault(str(row["run"]), []).append(row)
    names = Counter(row["run"] for row in runs)
    points: dict[tuple[str, str, bool], list[dict[str, Any]]] = {}
    for row in runs:
        told = {"outcome": TWICE} if names[row["run"]] > 1 else {}
        points.setdefault(_point(row), []).append({**row, **told})
    return [_result(rows, samples, per_cpu_second=unit) for (_, _, unit), rows in points.items()]


def _point(row: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Runs with equal ones are runs of the same."""
    described = json.loads(row["parameters"])
    kind, asked = described["kind"], described["measure"].get("per_cpu_second", 0)
    return str(row["run"]).rpartition("#")[0], kind, per_cpu_second(kind, asked)


def _result(
    rows: list[dict[str, Any]], samples: Mapping[str, list[dict[str, Any]]], *, per_cpu_second: bool
) -> PointResult:
    counted = [row for row in rows if row["outcome"] == "done"]
    described = json.loads((counted or rows)[0]["parameters"])
    verdicts = [_verdict(row, samples.get(row["run"], [])) for row in counted]
    throughput = [one for one in verdicts if one is not None]
    return PointResult(
        rows[0]["experiment"],
        described["server"],
        described["kind"],
        described["parameters"],
        Load(**described["load"]) if "load" in described else None,
        Mean.of([one.received_per_s for one in throughput]) if throughput else None,
        Mean.of([one.dispatched_per_s for one in throughput]) if throughput else None,
        _durations(row for run in counted for row in samples.get(run["run"], [])),
        tuple(row["outcome"] for row in rows if row["outcome"] != "done"),
        per_cpu_second,
    )


def _verdict(run: Mapping[str, Any], rows: list[dict[str, Any]]) -> RunVerdict | None:
    described = json.loads(run["parameters"])
    found = of_rows(rows)
    return judge(found, Measure(**described["measure"]).rules, described["lost"]) if found else None


def _durations(rows: Iterable[Mapping[str, Any]]) -> dict[str, Mean]:
    values: dict[str, list[float]] = {}
    for row in rows:
        if row["metric"] not in METRICS:
            values.setdefault(row["metric"], []).append(row["value"])
    return {metric: Mean.of(found) for metric, found in values.items()}
