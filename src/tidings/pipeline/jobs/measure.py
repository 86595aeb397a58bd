"""Job `measure`: judges every run by its own rules and averages the valid ones, with confidence intervals.

The rules are the lab's (`tidings.lab.run_verdict`): a run counts if the server was the bottleneck in the middle
window and nothing was lost. One that does not keeps its reasons. Rates of a second of processor time are never averaged
with others, nor fitted together: `experiment` then ends with --busy.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from tidings.errors import TidingsError
from tidings.extras import lazy
from tidings.lab.run_verdict import TWICE, RunRules, judge, of_rows, titled
from tidings.pipeline.run import JobOutcome, JobRun, parts_of
from tidings.pipeline.schemas import RESULTS, spark_schema
from tidings.pipeline.stored_tables import clean_table
from tidings.segments.arrow_schema import arrow_schema

if TYPE_CHECKING:
    from scipy import stats
else:
    stats = lazy("scipy.stats")

LEVEL = 0.95
EDITION = 2  # of how runs are judged and told apart; 1 took those with --busy and without for the same
POINT = ("experiment", "server", "point", "load")
_RULES = {one.name for one in fields(RunRules)}


def verdicts(runs: DataFrame, samples: DataFrame) -> DataFrame:
    """One row for each run."""
    own = samples.groupBy("run").agg(f.collect_list(f.struct("ms", "metric", "value")).alias("samples"))
    each = runs.dropDuplicates(["run", "started_ms"])
    named = f.count("*").over(Window.partitionBy("run")).alias("named")
    joined = each.select("run", "experiment", "parameters", "outcome", named).join(own, "run", "left")
    return joined.mapInArrow(_judge, spark_schema(RESULTS["verdicts"]))


def throughput(judged: DataFrame) -> DataFrame:
    """One row for each point of an experiment that has a run that counts."""
    return judged.groupBy(*POINT).applyInArrow(_mean, spark_schema(RESULTS["throughput"]))


def simulated(rows: DataFrame) -> DataFrame:
    """Curves of simulated experiments, from rows of `simulations`."""
    own = rows.select("scenario", "metric", "labels", "at_ms", "run", "node", "value")
    return own.groupBy("scenario", "metric").applyInArrow(_curves, spark_schema(RESULTS["simulated"]))


def _judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [verdict(**row) for row in batch.to_pylist()]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, arrow_schema(RESULTS["verdicts"]).remove_metadata())


def verdict(
    run: str, experiment: str, parameters: str, outcome: str, named: int, samples: list[dict[str, Any]] | None
) -> dict[str, Any]:
    """A row of `verdicts`. `named`: the number of runs with this name."""
    row: dict[str, Any] = {"run": run, "experiment": experiment, "server": "", "point": "", "load": ""}
    row |= {"valid": False, "received_per_s": None, "dispatched_per_s": None, "seconds": None}
    try:
        described = json.loads(parameters)
        row["server"] = described.get("server", "")
        row["point"] = json.dumps(described.get("parameters", described), sort_keys=True)
        row["load"] = json.dumps(described["load"], sort_keys=True) if "load" in described else ""
        rules = RunRules(**{key: value for key, value in described.get("measure", {}).items() if key in _RULES})
        row["experiment"] = titled(experiment, per_cpu_second=bool(rules.per_cpu_second))
        lost = float(described.get("lost", 0))
    except (ValueError, TypeError, AttributeError) as error:
        return row | {"reasons": f"its parameters cannot be read: {error}"}
    if named > 1:
        return row | {"reasons": TWICE}
    found = of_rows(samples or [])
    if not found:
        return row | {"reasons": outcome if outcome != "done" else "it has no samples of throughput"}
    try:
        judged = judge(found, rules, lost)
    except TidingsError as error:
        return row | {"reasons": str(error)}
    reasons = list(judged.reasons) or ([] if outcome == "done" else [outcome])
    return row | {
        "valid": not reasons,
        "reasons": "; ".join(reasons),
        "received_per_s": judged.received_per_s,
        "dispatched_per_s": judged.dispatched_per_s,
        "seconds": judged.seconds,
    }


def _mean(group: pa.Table) -> pa.Table:
    rows = group.to_pylist()
    counted = sorted((row for row in rows if row["valid"]), key=lambda row: str(row["run"]))
    types = arrow_schema(RESULTS["throughput"]).remove_metadata()
    if not counted:
        return types.empty_table()
    received, dispatched = (interval([row[name] for row in counted]) for name in ("received_per_s", "dispatched_per_s"))
    made = {name: rows[0][name] for name in POINT} | {
        "runs": len(counted),
        "rejected": len(rows) - len(counted),
        "received_per_s": received[0],
        "received_deviation": received[1],
        "received_half_width": received[2],
        "dispatched_per_s": dispatched[0],
        "dispatched_half_width": dispatched[2],
    }
    return pa.Table.from_pylist([made], types)


def _curves(group: pa.Table) -> pa.Table:
    rows = group.to_pylist()
    values: dict[tuple[str, float], list[tuple[str, int, float]]] = {}
    for row in rows:
        labels = json.loads(row["labels"] or "{}")
        x = float(labels.pop("x", row["at_ms"] / 1000))
        node = -1 if row["node"] is None else int(row["node"])
        values.setdefault((json.dumps(labels, sort_keys=True), x), []).append((row["run"], node, row["value"]))
    made = []
    for (series, x), own in sorted(values.items()):
        mean, _, half = interval([value for _, _, value in sorted(own)])
        head = {"scenario": rows[0]["scenario"], "metric": rows[0]["metric"], "series": series, "x": x}
        made.append(head | {"runs": len(own), "mean": mean, "half_width": half})
    return pa.Table.from_pylist(made, arrow_schema(RESULTS["simulated"]).remove_metadata())


def interval(values: list[float]) -> tuple[float, float | None, float | None]:
    """Mean, standard deviation, and half the width of the confidence interval; one value has neither of the latter.

    >>> mean, deviation, half = interval([9.0, 10.0, 11.0])
    >>> mean, deviation, round(half, 3)
    (10.0, 1.0, 2.484)
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None, None
    deviation = float(np.std(values, ddof=1))
    factor = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1))
    return mean, deviation, factor * deviation / math.sqrt(len(values))


def measure_job(run: JobRun) -> list[JobOutcome]:
    made = []
    simulations = clean_table(run.output, "simulations")
    if simulations.manifest() is not None:
        inputs = parts_of(simulations.need())
        curves = run.result("simulated")
        made.append(run.write(curves, inputs, lambda: simulated(simulations.read(run.spark))))
    return made + (_measured(run) if not made or run.has("runs", "samples") else [])


def _measured(run: JobRun) -> list[JobOutcome]:
    runs, samples = clean_table(run.output, "runs"), clean_table(run.output, "samples")
    inputs = {"runs": parts_of(runs.need()), "samples": parts_of(samples.need()), "edition": EDITION}
    stored = run.result("verdicts")
    judged = run.write(stored, inputs, lambda: verdicts(runs.read(run.spark), samples.read(run.spark)))
    counted = parts_of(stored.need())
    return [
        judged,
        run.write(run.result("throughput"), counted, lambda: throughput(stored.read(run.spark))),
    ]
