"""Drivers of Spark jobs and streams that are killed at random instants and started again: nobody must be able to tell.

    make spark-kills KILLS=20

A batch job, killed as often as you like and repeated, leaves the tables of an undisturbed run. A stream that reads from
a broker and publishes to it loses nothing and publishes nothing twice, whether it was killed between two batches or
inside one. Killed means SIGKILL for the driver: the JVM and the Python process it belongs to. Python workers notice by
themselves, and may still be publishing when the next driver starts.
"""

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hardening.kills.spark_driver import LITTLE, Driver, called, submitted, tables, wait_for
from hardening.support.recorded import TRACKING, record_messages, record_runs, record_world
from tidings.client import sync
from tidings.model.tables import MESSAGES
from tidings.pipeline.schemas import SUBSCRIPTIONS
from tidings.pipeline.session import start_session
from tidings.pipeline.storage_paths import StoragePath
from tidings.pipeline.stored_tables import StoredTable
from tidings.testing.local_broker import BrokerThread

# --- a batch job ---


def record(root: Path) -> list[str]:
    """Segments of all tables; the options of a run that reads them."""
    world = record_world(root / "segments")
    record_messages(root / "segments")
    record_runs(root / "segments")
    ids = pa.array([bytes(message) for message, _ in world.sent], pa.binary())
    pq.write_table(pa.table({"id": ids}), root / "ids.parquet", row_group_size=50)
    told = {
        "trace.persist_ms": TRACKING.persist_ms,
        "trace.skew_between_brokers_ms": TRACKING.skew_between_brokers_ms,
        "trace.ids": root / "ids.parquet",
        "generate.messages": 500,
        "generate.subscriptions": 60,
    }
    return ["--input", str(root / "segments"), *(word for key in told for word in ("--set", f"{key}={told[key]}"))]


def hurt_jobs(root: Path, kills: int, rng: random.Random) -> int:
    """Run this number of kills; AssertionError if a table differs from that without them. Returns the number of
    completed runs."""
    options = record(root)
    drawn = root / "drawn"
    status, told = called(["generate", *options, "--output", str(drawn)], "local[2]", LITTLE).finish()
    assert status == 0, told
    for stored in (StoredTable(StoragePath.of(drawn).under("generated"), table) for table in (MESSAGES, SUBSCRIPTIONS)):
        key = "messages" if stored.table is MESSAGES else "subscriptions"
        options += ["--set", f"replay.{key}={stored.place.uri}"]
    expected, seconds = _undisturbed(root / "undisturbed", options)
    done = completed = attempt = 0
    while done < kills:
        output = root / f"killed-{completed}"
        attempt += 1
        start = submitted if attempt % 2 else called
        conf = LITTLE | {"spark.sql.shuffle.partitions": str(rng.randint(1, 6))}
        driver = start(["run", *options, "--output", str(output)], rng.choice(["local[1]", "local[2]"]), conf)
        wait_for(output.exists, driver)
        end = time.monotonic() + rng.uniform(0, seconds)
        wait_for(lambda end=end: time.monotonic() > end, driver)  # type: ignore[misc]
        if driver.kill():
            done += 1
        else:
            _check(output, options, expected)
            completed += 1
    _check(root / f"killed-{completed}", options, expected)
    return completed + 1


def _undisturbed(output: Path, options: list[str]) -> tuple[dict[str, list[str]], float]:
    """Its tables, and for how long it has written."""
    driver = called(["run", *options, "--output", str(output)], "local[2]", LITTLE)
    wait_for(output.exists, driver)
    began = time.monotonic()
    status, told = driver.finish()
    assert status == 0, told
    return tables(output), time.monotonic() - began


def _check(output: Path, options: list[str], expected: dict[str, list[str]]) -> None:
    """Run to the end; what is there is what was expected."""
    status, told = called(["run", *options, "--output", str(output)], "local[2]", LITTLE).finish()
    assert status == 0, told
    found = tables(output)
    wrong = [name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)]
    assert not wrong, f"{output}: other tables than without kills: {wrong}"


# --- a stream ---


def stream(spark: Any, url: str, name: str, checkpoint: Path) -> Any:
    """From `name`.in to `name`.out, all there is, in batches of at most 30; the query."""
    rows = (
        spark.readStream.format("tidings")
        .options(url=url, subscription=f"{name}-in", destination=f"{name}.in.>", release="false")
        .options(selector="n >= 0", maxMessagesPerBatch=30, partitions=2)
        .schema("n bigint, stock string")
        .load()
    )
    writer = rows.writeStream.format("tidings").options(url=url, destination=f"{name}.out")
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def batches(checkpoint: Path) -> tuple[int, int]:
    """The numbers of batches begun and done."""

    def highest(log: str) -> int:
        folder = checkpoint / log
        return max(
            (int(one.name) + 1 for one in folder.iterdir() if one.name.isdecimal()) if folder.exists() else [0],
            default=0,
        )

    done = highest("commits")
    return max(highest("offsets"), done), done


def streaming(url: str, name: str, checkpoint: Path) -> Driver:
    return Driver([sys.executable, "-m", "hardening.kills.spark", "stream", url, name, str(checkpoint)])


def kill_stream(driver: Driver, checkpoint: Path, *, inside: bool, delay: float) -> bool:
    """In a batch that has begun after this call, or as soon as one is done; whether it was killed at all."""
    _, before = batches(checkpoint)

    def now() -> bool:
        begun, done = batches(checkpoint)
        return begun > done >= before if inside else done > before

    wait_for(now, driver)
    end = time.monotonic() + delay
    wait_for(lambda: time.monotonic() > end, driver)
    return driver.kill()


def file_stream(spark: Any, url: str, name: str, folder: Path, checkpoint: Path) -> Any:
    """From Parquet files to the topic `name`, three files a batch, in transactions of a few rows each; the query."""
    rows = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 3).parquet(str(folder))
    writer = rows.writeStream.format("tidings").options(url=url, destination=name, transactionBytes=1500)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def streaming_files(url: str, name: str, folder: Path, checkpoint: Path, cores: int, split_bytes: int) -> Driver:
    """`split_bytes`: files are cut into tasks of at most that size."""
    words = (url, name, str(folder), str(checkpoint), str(cores), str(split_bytes))
    return Driver([sys.executable, "-m", "hardening.kills.spark", "files", *words])


def hurt_file_stream(root: Path, kills: int, rng: random.Random, *, files: int = 9, rows_each: int = 100) -> int:
    """Kills drivers while they publish and starts them again with other cores and partitions; returns the rows.

    AssertionError if a row is lost or published twice.
    """
    (root / "files").mkdir(parents=True)
    for i in range(files):
        rows = pa.table({"n": pa.array(range(i * rows_each, (i + 1) * rows_each), pa.int64())})
        pq.write_table(rows, root / "files" / f"{i}.parquet", row_group_size=10)
    with BrokerThread() as broker, sync.connect(broker.url) as client:
        out = client.retain("files-out", "files.out")

        def start(cores: int) -> Driver:
            size = rng.choice((300, 1000, 1 << 20))
            return streaming_files(broker.url, "files.out", root / "files", root / "checkpoint", cores, size)

        for kill in range(kills):
            published = len(read_all(out))
            driver = start(2 - kill % 2)
            wait_for(lambda more=published + 1: len(read_all(out)) >= more, driver)  # type: ignore[misc]
            driver.kill()
        for _ in range(9):  # Spark gives a stream's Python 10 s to start, no more, and the machine may be busy
            status, text = start(1).finish()
            if status == 0 or "failed to connect back" not in text:
                break
        assert status == 0, text
        arrived = sorted(message.properties["n"] for message in read_all(out))
    assert arrived == list(range(files * rows_each)), f"{len(arrived)} rows, {len(set(arrived))} different"
    return len(arrived)


def hurt_stream(root: Path, kills: int, rng: random.Random) -> tuple[int, int]:
    """Run this number of kills; AssertionError if anything is lost or came twice. Returns the kills inside a batch, and
    messages."""
    inside = published = done = 0
    with BrokerThread() as broker, sync.connect(broker.url) as client:
        client.retain("s-in", "s.in.>")
        out = client.retain("s-out", "s.out")
        while done < kills:
            published = publish(client, "s.in.a", published, 90)
            driver = streaming(broker.url, "s", root / "checkpoint")
            wanted = rng.random() < 0.6
            if kill_stream(driver, root / "checkpoint", inside=wanted, delay=rng.uniform(0, 0.3) if wanted else 0.0):
                begun, finished = batches(root / "checkpoint")
                inside += begun > finished
                done += 1
        for _ in range(9):  # Spark gives a stream's Python 10 s to start, no more, and the machine may be busy
            status, told = streaming(broker.url, "s", root / "checkpoint").finish()
            if status == 0 or "failed to connect back" not in told:
                break
        assert status == 0, told
        arrived = sorted(message.properties["n"] for message in read_all(out))
    assert arrived == list(range(published)), f"{len(arrived)} of {published} messages, {len(set(arrived))} different"
    return inside, published


def publish(client: sync.Client, topic: str, start: int, count: int) -> int:
    for n in range(start, start + count - 1):
        client.publish(topic, {"n": n, "stock": "XYZ"}, persistent=True, wait=False)
    client.publish(topic, {"n": start + count - 1, "stock": "XYZ"}, persistent=True)
    return start + count


def read_all(kept: Any) -> list[Any]:
    """All messages that a retained subscription has."""
    found, after = [], 0
    while (page := kept.read(after=after)).messages:
        found += [message for _, message in page.messages]
        after = page.next
    return found


def run(kills: int, seed: int) -> str:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "stream").mkdir()
        inside, messages = hurt_stream(Path(name) / "stream", kills // 2, rng)
        rows = hurt_file_stream(Path(name) / "file-stream", kills // 2, rng)
        runs = hurt_jobs(Path(name), kills - kills // 2, rng)
    return (
        f"{kills} kills, seed {seed}: {runs} repeated runs gave the tables of one that nobody disturbed; of a stream "
        f"killed {kills // 2} times ({inside} inside a batch) all {messages} messages arrived once; of one from files, "
        f"killed as often and restarted with other cores, all {rows} rows"
    )


def main() -> None:
    if sys.argv[1:2] == ["stream"]:
        url, name, checkpoint = sys.argv[2:]
        stream(start_session("local[2]", LITTLE, quick=True), url, name, Path(checkpoint)).awaitTermination()
        return
    if sys.argv[1:2] == ["files"]:
        url, name, folder, checkpoint, cores, split_bytes = sys.argv[2:]
        conf = LITTLE | {"spark.sql.files.maxPartitionBytes": split_bytes, "spark.sql.files.openCostInBytes": "0"}
        session = start_session(f"local[{cores}]", conf, quick=True)
        file_stream(session, url, name, Path(folder), Path(checkpoint)).awaitTermination()
        return
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    sys.stdout.write(run(kills, seed) + "\n")


if __name__ == "__main__":
    main()
