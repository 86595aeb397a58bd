"""Job `sweep`: many simulator runs; each depends on its name only, so a repeated task gives the same result."""

from collections.abc import Iterator
from dataclasses import asdict
from hashlib import blake2b

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidings.errors import UsageError
from tidings.pipeline.config import SweepOptions
from tidings.pipeline.run import JobOutcome, JobRun
from tidings.pipeline.schemas import RESULTS, spark_schema
from tidings.pipeline.storage_paths import StoragePath
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


def sweep_job(run: JobRun) -> list[JobOutcome]:
    options = run.config.sweep
    if not options.scenario:
        raise UsageError("E_PIPELINE_INPUT", "sweep.scenario: name a scenario file")
    try:
        scenario = StoragePath.of(options.scenario).read().decode()
    except UnicodeDecodeError as error:
        raise UsageError("E_PIPELINE_INPUT", f"sweep.scenario: {options.scenario} is no text: {error}") from None
    Scenario.from_toml(scenario)  # refused here, not on a worker
    inputs = asdict(options) | {"scenario": scenario}
    return [run.write(run.result("sweeps"), inputs, lambda: sweeps(asked(run.spark, options, scenario)))]
