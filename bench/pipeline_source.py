"""The data source: CPU time a row written, a row read through a broker, and a row read directly from its archive.

python -m bench.pipeline_source [ROWS…]

Write: on Spark's side, that is what tasks do with a row (Arrow batch to encoded message) and what the driver does with
it (ids, frames, the socket, up to the broker's commits); the broker's own time is not counted, as it has a process of
its own. Read through the broker: what a task does. Direct: a Delta table that `DeltaSink` could have written, of which
Spark reads two columns, with and without a filter, in `local[1]`; JVM included, after a first read of the same table.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import types as t

from bench.harness import save, table
from bench.pipeline_trace import CONF
from bench.processes import cost
from tidings.client import sync
from tidings.errors import ConnectionLostError
from tidings.pipeline.delta_sink import read_delta
from tidings.pipeline.session import start_session
from tidings.pipeline.source.batch_commit import BatchPublisher
from tidings.pipeline.source.options import ReadOptions, WriteOptions
from tidings.pipeline.source.reader import OffsetRange, read_range
from tidings.pipeline.source.row_writer import RowStager

SCHEMA = t.StructType(
    [
        t.StructField("n", t.LongType()),
        t.StructField("stock", t.StringType()),
        t.StructField("price", t.DoubleType()),
        t.StructField("at", t.TimestampType()),
    ]
)
WRITTEN, READ = 50_000, (100_000, 1_000_000, 10_000_000)
CHUNK = 1_000_000


def batch(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    columns: dict[str, Any] = {"n": list(numbers), "stock": [f"S{n % 500}" for n in numbers]}
    columns |= {"price": [n % 1000 / 2 for n in numbers]}
    columns |= {"at": pa.array([10**15 + n for n in numbers], pa.timestamp("us", "UTC"))}
    return pa.RecordBatch.from_pydict(columns)


def cpu_us(rows: int, work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return 1e6 * (time.process_time() - began) / rows


def through_a_broker(folder: Path, port: int) -> dict[str, float]:
    url = f"tidings://127.0.0.1:{port}"
    words = ["broker", "--data", str(folder), "--port", str(port), "--metrics-port", "0"]
    broker = subprocess.Popen(
        [sys.executable, "-m", "tidings.cli", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        options = WriteOptions.of({"url": url, "destination": "bench.a"}, False)
        read = ReadOptions.of({"url": url, "subscription": "bench", "destination": "bench.>"})
        with read.access.patiently(lambda: sync.connect(url)) as client:
            kept = client.retain("bench", "bench.>")
            staged: list[Any] = []
            rows, found = batch(0, WRITTEN), {}
            found["task_us"] = cpu_us(
                WRITTEN, lambda: staged.append(RowStager(options, SCHEMA).stage(iter([rows]), "bench"))
            )
            found["driver_us"] = cpu_us(WRITTEN, BatchPublisher(options, "bench", 0, staged).publish)
            page = kept.read(messages=0)
            asked = OffsetRange(0, page.last, page.made_ms)
            count = 0

            def whole() -> None:
                nonlocal count
                count = sum(one.num_rows for one in read_range(read, SCHEMA, asked))

            found["read_us"] = cpu_us(WRITTEN, whole)
            assert count == WRITTEN
        return found
    finally:
        broker.terminate()
        broker.wait()


def direct(folder: Path, counts: list[int]) -> list[dict[str, Any]]:
    found = []
    spark = start_session("local[1]", CONF)
    for rows in counts:
        place = folder / f"table-{rows}"
        for start in range(0, rows, CHUNK):
            write_deltalake(place, pa.Table.from_batches([batch(start, min(CHUNK, rows - start))]), mode="append")
        read_delta(spark, place).selectExpr("sum(price)", "max(stock)").collect()  # the JVM compiles
        archive = read_delta(spark, place)
        whole = cost(rows, archive.selectExpr("sum(price)", "max(stock)").collect)
        one = cost(rows, archive.where(f"n >= {rows - 1000}").selectExpr("sum(price)").collect)
        found.append({"rows": rows, "all": whole.shown(), "filtered": one.shown()})
    spark.stop()
    return found


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or list(READ)
    with tempfile.TemporaryDirectory() as name:
        port = 20_000 + os.getpid() % 20_000
        try:
            costs = through_a_broker(Path(name) / "broker", port)
        except ConnectionLostError as error:
            sys.exit(f"the broker did not start: {error}")
        read = direct(Path(name), counts)
    table("data source, a row", ("what", "µs CPU"), list(costs.items()))
    table(
        "direct read",
        ("rows", "CPU s", "rows / CPU s", "CPU s with a filter"),
        [(one["rows"], one["all"]["cpu_s"], one["all"]["per_cpu_s"], one["filtered"]["cpu_s"]) for one in read],
    )
    print(save("pipeline_source", {"source": costs, "direct": read}))


if __name__ == "__main__":
    main()
