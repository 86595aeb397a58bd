"""Job `fit`: fits every processing-time model to the measured throughput and compares predictions with measurements."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from tidings.capacity.fitting import Measurement, choose
from tidings.capacity.processing import Errors, Fitted, Load
from tidings.errors import TidingsError
from tidings.pipeline.run import JobOutcome, JobRun, parts_of
from tidings.pipeline.schemas import RESULTS, spark_schema
from tidings.segments.arrow_schema import arrow_schema


def fits(measured: DataFrame) -> DataFrame:
    """Fits every model to the points of every server in every experiment; points without a load are left out."""
    loaded = measured.where("load <> ''")
    return loaded.groupBy("experiment", "server").applyInArrow(_fit, spark_schema(RESULTS["fits"]))


def predictions(measured: DataFrame, fitted: DataFrame) -> DataFrame:
    best = fitted.where("best").select("experiment", "server", "model", "parameters")
    joined = measured.where("load <> ''").join(best, ["experiment", "server"])
    return joined.mapInArrow(_predict, spark_schema(RESULTS["predictions"]))


def _fit(group: pa.Table) -> pa.Table:
    types = arrow_schema(RESULTS["fits"]).remove_metadata()
    rows = sorted(group.to_pylist(), key=lambda row: str(row["point"]))
    return pa.Table.from_pylist(fitted_rows(rows), types)


def fitted_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `fits` from the points of one server in one experiment."""
    points = [Measurement(Load(**json.loads(row["load"])), row["received_per_s"]) for row in rows]
    head = {"experiment": rows[0]["experiment"], "server": rows[0]["server"], "points": len(points)}
    try:
        chosen = choose(points)
    except TidingsError:
        return []  # too few points, or none that tell any model's terms apart
    nothing = Errors(math.nan, math.nan)
    made = []
    for score in chosen.scores:
        fitted, errors, held_out = score.fitted, nothing, score.held_out or nothing
        if fitted is not None:
            errors = fitted.errors or nothing
        made.append(
            head
            | {
                "model": score.model,
                "parameters": "" if fitted is None else json.dumps(fitted.parameters, sort_keys=True),
                "error_rms": _number(errors.rms),
                "error_max": _number(errors.max),
                "held_out_rms": _number(held_out.rms),
                "best": score.model == chosen.best.name,
            }
        )
    return made


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _predict(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    names = [column.name for column in RESULTS["predictions"].columns]
    for batch in batches:
        rows = batch.to_pylist()
        for row in rows:
            server = Fitted.of(row["model"], **json.loads(row["parameters"]))
            row["predicted_per_s"] = server.received(Load(**json.loads(row["load"])))
        if rows:
            types = arrow_schema(RESULTS["predictions"]).remove_metadata()
            yield pa.RecordBatch.from_pylist([{name: row[name] for name in names} for row in rows], types)


def fit_job(run: JobRun) -> list[JobOutcome]:
    measured, stored = run.result("throughput"), run.result("fits")
    inputs = parts_of(measured.need())
    fitted = run.write(stored, inputs, lambda: fits(measured.read(run.spark)))
    both = {"throughput": inputs, "fits": parts_of(stored.need())}
    predicted = run.write(
        run.result("predictions"),
        both,
        lambda: predictions(measured.read(run.spark), stored.read(run.spark)),
    )
    return [fitted, predicted]
