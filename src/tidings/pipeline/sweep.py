"""Simulator runs by the hundred: each from its name alone, so that a task that is tried again gives the same."""

from collections.abc import Iterator
from hashlib import blake2b

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidings.pipeline.config import SweepOptions
from tidings.pipeline.schemas import RESULTS, spark_schema
from tidings.sim.scenario import Scenario


def seed_of(run: str) -> int:
    """
    >>> seed_of("sweep-0"), seed_of("sweep-1")
    (2253242470, 2058895901)
    """
    return int.from_bytes(blake2b(run.encode(), digest_size=4).digest(), "big")


def asked(spark: SparkSession, options: SweepOptions, scenario: str) -> DataFrame:
    """Runs to be done: columns run, scenario. One task for each, as runs differ in how long they take."""
    names = spark.range(0, options.runs, 1, options.runs)
    run = f.concat(f.lit(f"{options.name}-"), f.col("id").cast("string"))
    return names.select(run.alias("run"), f.lit(scenario).alias("scenario"))


def sweeps(runs: DataFrame) -> DataFrame:
    return runs.mapInArrow(_sweep, spark_schema(RESULTS["sweeps"]))


def simulate(run: str, scenario: str) -> dict[str, object]:
    """One run: a row of the table `sweeps`."""
    seed = seed_of(run)
    outcome = Scenario.from_toml(scenario).run(seed)
    return {
        "run": run,
        "seed": seed,
        "published": outcome.published,
        "matched": outcome.matched,
        "delivered": outcome.delivered,
        "transcript": "\n".join(outcome.lines),
    }


def _sweep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [simulate(**row) for row in batch.to_pylist()]
        if rows:
            yield pa.RecordBatch.from_pylist(rows)
