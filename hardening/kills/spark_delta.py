"""Drivers of a stream from a broker into a Delta table that are killed and started again: each message is there once.

    make spark-kills KILLS=20

Restarts take other cores, and other adaptive and speculative execution: a batch that comes again is cut in other ways.
"""

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from hardening.kills.spark import batches, kill_stream, publish
from hardening.kills.spark_driver import LITTLE, Driver
from tidings.client import sync
from tidings.pipeline.delta_sink import DeltaSink
from tidings.pipeline.session import start_session
from tidings.testing.local_broker import BrokerThread

NAME = "delta"


def into_table(spark: Any, url: str, checkpoint: Path, table: Path) -> Any:
    """From a retained subscription into a table, all there is, in batches of at most 30; the query."""
    source = spark.readStream.format("tidings").options(url=url, subscription=NAME, destination=f"{NAME}.>")
    rows = (
        source.options(selector="n >= 0", maxMessagesPerBatch=30, partitions=2).schema("n bigint, stock string").load()
    )
    writer = rows.writeStream.foreachBatch(DeltaSink(table, ["stock"]))
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def numbers(table: Path) -> list[int]:
    """Numbers in the table; empty if there is no table."""
    if not DeltaTable.is_deltatable(str(table)):
        return []
    paths = pa.table(DeltaTable(table).get_add_actions())["path"].to_pylist()
    return sorted(n for path in paths for n in pq.ParquetFile(table / path).read(columns=["n"])["n"].to_pylist())


def start(url: str, root: Path, rng: random.Random) -> Driver:
    chance = [str(rng.choice((1, 2))), rng.choice(("true", "false")), rng.choice(("true", "false"))]
    return Driver([sys.executable, "-m", "hardening.kills.spark_delta", url, str(root), *chance])


def hurt_delta_stream(root: Path, kills: int, rng: random.Random) -> tuple[int, int]:
    """Runs this number of kills; AssertionError if a row is lost or is there twice. Returns kills inside a batch, and
    rows."""
    inside = published = done = 0
    root.mkdir(parents=True, exist_ok=True)
    with BrokerThread() as broker, sync.connect(broker.url) as client:
        client.retain(NAME, f"{NAME}.>")
        while done < kills:
            published = publish(client, f"{NAME}.a", published, 90)
            driver = start(broker.url, root, rng)
            wanted = rng.random() < 0.7
            if kill_stream(driver, root / "check", inside=wanted, delay=rng.uniform(0, 0.5) if wanted else 0.0):
                begun, finished = batches(root / "check")
                inside += begun > finished
                done += 1
        for _ in range(9):  # Spark gives a stream's Python 10 s to start, no more, and the machine may be busy
            status, told = start(broker.url, root, rng).finish()
            if status == 0 or "failed to connect back" not in told:
                break
        assert status == 0, told
    found = numbers(root / "table")
    assert found == list(range(published)), f"{len(found)} rows of {published}, {len(set(found))} different"
    return inside, published


def main() -> None:
    if len(sys.argv) <= 3:
        kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
        seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
        with tempfile.TemporaryDirectory() as folder:
            inside, rows = hurt_delta_stream(Path(folder) / "delta", kills, random.Random(seed))
        sys.stdout.write(
            f"{kills} kills ({inside} inside a batch), seed {seed}: all {rows} rows are in the table once\n"
        )
        return
    url, root, cores, adaptive, speculation = sys.argv[1:]
    conf = LITTLE | {"spark.sql.adaptive.enabled": adaptive, "spark.speculation": speculation}
    session = start_session(f"local[{cores}]", conf, quick=True)
    into_table(session, url, Path(root) / "check", Path(root) / "table").awaitTermination()


if __name__ == "__main__":
    main()
