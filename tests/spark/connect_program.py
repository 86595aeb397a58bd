"""What a session of Spark Connect can do, in a process of its own: python connect_program.py SEGMENTS OUTPUT BROKER.

Prints a JSON object. A server in the same process group is started by Spark; the session has no `sparkContext`.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from tidings.client import sync
from tidings.pipeline.config import load
from tidings.pipeline.delta_sink import DeltaSink, read_delta
from tidings.pipeline.jobs.registry import run_job
from tidings.pipeline.run import open_run


def sink(output: str) -> Any:
    """Runs on the server, which names no query."""
    made = DeltaSink(f"{output}/ticks", query="ticks")

    def write(batch: Any, number: int) -> None:
        made(batch, number)

    return write


def main(segments: str, output: str, url: str) -> None:
    spark: Any = SparkSession.builder.remote("local[1]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    found: dict[str, Any] = {"context": hasattr(spark, "sparkContext")}
    with sync.connect(url) as client:
        client.retain("audit", "ticks.>")
        for price in (10.0, 50.0):
            client.publish("ticks.xyz", {"stock": "XYZ", "price": price}, persistent=True)
        options = {"url": url, "subscription": "audit"}
        schema = "offset bigint, stock string, price double"
        rows = spark.read.format("tidings").options(**options).schema(schema).load()
        found["read"] = sorted(row.price for row in rows.collect())
        rows.selectExpr("'alerts' AS destination", "price").write.format("tidings").options(url=url).mode(
            "append"
        ).save()
        stream = spark.readStream.format("tidings").options(**options).schema(schema).load()
        started = stream.writeStream.foreachBatch(sink(output)).option("checkpointLocation", f"{output}/check")
        query = started.trigger(availableNow=True).start()
        query.awaitTermination(300)
        found["stream"] = sorted(row.price for row in read_delta(spark, f"{output}/ticks").collect())
    with open_run(load(settings=[f"input={segments}", f"output={output}", f"trace.ids={segments}/ids.parquet"])) as run:
        for job in ("ingest", "trace", "measure"):
            for outcome in run_job(run, job):
                found[outcome.table] = outcome.rows
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
