"""The data source against a real broker: what is read and written, what moves over the wire, what happens once."""

import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hardening.kills.spark import batches, kill_stream, read_all, stream, streaming
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tidings.client import sync
from tidings.pipeline.source import register
from tidings.testing.local_broker import BrokerThread

SCHEMA = "stock string, price double, n bigint, offset bigint"


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[sync.Client]:
    with sync.connect(broker.url) as connected:
        yield connected


def publish(client: sync.Client, topic: str, count: int, start: int = 0) -> None:
    for n in range(start, start + count):
        stock = "XYZ" if n % 10 == 0 else "ABC"
        receipt = client.publish(
            topic, {"stock": stock, "price": n / 2, "n": n}, b"%d" % n, persistent=True, wait=False
        )
    del receipt
    client.publish(topic, {"stock": "end", "price": -1.0, "n": -1}, persistent=True)


def read(spark: SparkSession, broker: BrokerThread, name: str, **options: Any) -> Any:
    return spark.read.format("tidings").options(url=broker.url, subscription=name, **options)


def test_a_retained_range_is_read_in_partitions(
    spark: SparkSession, broker: BrokerThread, client: sync.Client, name: str
) -> None:
    client.retain(name, f"{name}.>")
    publish(client, f"{name}.a", 100)
    rows = read(spark, broker, name, partitions=3).schema(SCHEMA).load()
    assert rows.rdd.getNumPartitions() == 3
    found = sorted(rows.collect(), key=lambda row: row.offset)
    assert [row.n for row in found] == [*range(100), -1]
    assert found[7].price == 3.5
    middle = read(spark, broker, name, startOffset=found[9].offset, endOffset=found[19].offset).schema(SCHEMA).load()
    assert sorted(row.n for row in middle.collect()) == list(range(10, 20))
    plain = read(spark, broker, name, endOffset=found[0].offset).load().collect()
    assert [(row.destination, bytes(row.body), row.attributes["stock"]) for row in plain] == [
        (f"{name}.a", b"0", "XYZ")
    ]


def test_a_selective_filter_moves_only_what_matches(
    spark: SparkSession, broker: BrokerThread, client: sync.Client, name: str
) -> None:
    client.retain(name, f"{name}.>")
    publish(client, f"{name}.a", 200)
    rows = read(spark, broker, name).schema(SCHEMA).load()
    before = broker.retrieved()
    found = rows.where("stock = 'XYZ' AND price >= 50 AND n IN (100, 150, 151) AND stock LIKE 'X%'").collect()
    assert sorted(row.n for row in found) == [100, 150]
    assert broker.retrieved() - before == 2
    assert rows.where("NOT (n > 10)").count() == 12  # what cannot be pushed is right all the same
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert rows.where("n = 7").count() == 1  # a session that Tidings did not set up
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_filters_lose_nothing(spark: SparkSession, broker: BrokerThread, client: sync.Client, name: str) -> None:
    client.retain(name, f"{name}.>")
    client.publish(f"{name}.a", {"price": 0.1, "a-b": 5, "true": 5, "raw": b"\x00\xff"}, persistent=True)
    rows = read(spark, broker, name).schema("price float, `a-b` bigint, `true` bigint").load()
    for condition in ("price >= cast(0.1 AS float)", "price = cast(0.1 AS float)", "`a-b` = 5", "`true` IN (5, 6)"):
        assert rows.where(condition).count() == 1, condition
    assert read(spark, broker, name).load().collect()[0].attributes["raw"] == "00ff"


def test_streams_that_were_registered_apart_share_no_environment(spark: SparkSession) -> None:
    maps = []
    for _ in range(2):
        register(spark)
        found = spark._jsparkSession.sessionState().dataSourceManager().lookupDataSource("tidings")
        maps.append(found.dataSourceCls().envVars())
    maps[0]["grown"] = "while another stream starts"
    assert "grown" in maps[0]
    assert "grown" not in maps[1]


def test_the_python_of_a_registered_source_is_that_of_the_session(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "/opt/other/python3"
    with monkeypatch.context() as configured:
        configured.setattr(spark.sparkContext, "pythonExec", spark.sparkContext.pythonExec)
        configured.setattr(type(spark.conf), "get", lambda self, key, default=None: other)
        register(spark)
    found = spark._jsparkSession.sessionState().dataSourceManager().lookupDataSource("tidings")
    assert found.dataSourceCls().pythonExec() == other
    register(spark)


def test_nothing_to_read_is_no_rows(spark: SparkSession, broker: BrokerThread, client: sync.Client, name: str) -> None:
    kept = client.retain(name, f"{name}.>")
    assert read(spark, broker, name).load().collect() == []
    publish(client, f"{name}.a", 5)
    last = kept.range()[1]
    assert read(spark, broker, name, startOffset=last + 7).load().collect() == []
    assert read(spark, broker, name, startOffset=last, endOffset=last - 2).load().collect() == []


def test_a_batch_read_says_when_messages_are_gone(
    spark: SparkSession, broker: BrokerThread, client: sync.Client, name: str
) -> None:
    kept = client.retain(name, f"{name}.>")
    publish(client, f"{name}.a", 9)
    offsets = [offset for offset, _ in kept.read().messages]
    kept.release(offsets[6])
    last = offsets[-1]

    def found(**options: Any) -> list[int]:
        return [row.n for row in read(spark, broker, name, **options).schema(SCHEMA).load().collect()]

    for lost in ({}, {"endOffset": offsets[4]}):
        with pytest.raises(PySparkException, match="E_SOURCE_LOSS"):
            found(startOffset=offsets[1], **lost)
    assert found(startOffset=offsets[1], failOnDataLoss="false") == [7, 8, -1]
    assert found(startOffset=offsets[6]) == [7, 8, -1]
    assert found(endOffset=last) == [7, 8, -1], "all there are"


def test_limits_of_what_is_there_stay(
    spark: SparkSession, broker: BrokerThread, client: sync.Client, name: str, tmp_path: Path
) -> None:
    client.retain(name, f"{name}.>", bytes_max=6400)
    given = {"destination": f"{name}.>", "ageSeconds": 60, "bytesMax": 64_000}
    assert read(spark, broker, name, **given).load().collect() == []
    assert read(spark, broker, name, destination=f"{name}.>").load().collect() == []
    assert broker.limits(name) == (0, 6400)
    with pytest.raises(PySparkException, match="E_SOURCE_OPTION"):
        read(spark, broker, name, destination=f"{name}.other").load().collect()
    assert read(spark, broker, f"{name}-new", **given).load().collect() == []
    assert broker.limits(f"{name}-new") == (60_000, 64_000)


def test_a_time_that_cannot_be_told_is_null(
    spark: SparkSession, broker: BrokerThread, client: sync.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = client.retain(name, f"{name}.>")
    client.publish(f"{name}.a", {"n": 1}, persistent=True)
    with monkeypatch.context() as clock:
        clock.setattr(time, "time_ns", lambda: 253_402_300_800_005 * 10**6)  # the year 10000
        client.publish(f"{name}.a", {"n": 2}, persistent=True)
    assert [message.id.ms > 253_402_300_800_000 for _, message in kept.read().messages] == [False, True]
    rows = read(spark, broker, name).schema("n bigint, ts timestamp").load().selectExpr("n", "ts IS NULL AS untold")
    assert sorted(map(tuple, rows.collect())) == [(1, False), (2, True)]


def test_what_is_written_is_what_the_columns_say(
    spark: SparkSession, broker: BrokerThread, client: sync.Client, name: str
) -> None:
    kept = client.retain(name, f"{name}.>")

    def write(expressions: list[str]) -> None:
        rows = spark.range(1).selectExpr(*expressions)
        rows.write.format("tidings").options(url=broker.url, destination=f"{name}.x").mode("append").save()

    refused = {
        "7 AS id": "id is binary, not int",
        "'noon' AS ts": "ts is timestamp, not string",
        "5 AS body": "body is binary, not int",
        "5 AS destination": "destination is string, not int",
        "'x' AS attributes": "attributes is a map from text, not string",
        "map('a', array(1)) AS attributes": "an attribute cannot be array<int>",
        "array(1) AS day": "day: an attribute cannot be array<int>",
        "1 AS JMSFoo": "is reserved",
        "'high' AS JMSPriority": "JMSPriority is integral, not string",
    }
    for expression, reason in refused.items():
        with pytest.raises(PySparkException, match=reason):
            write([expression])
    mixed = "map('a', '1', 'b', null) AS attributes"
    write(["'grüße' AS body", "cast('x' AS binary) AS raw", "null AS nothing", mixed, "cast('i' AS binary) AS id"])
    ((_, message),) = kept.read().messages
    assert message.body == "grüße".encode()
    assert dict(message.properties) == {"a": "1", "raw": b"x"}
    write(["timestamp'2026-11-15 09:30:00' AS at", "date'2026-11-15' AS day", "1.50BD AS sum", "7 AS JMSPriority"])
    schema = "at timestamp, day date, sum decimal(6,2), JMSPriority int, raw binary"
    rows = read(spark, broker, name).schema(schema).load()
    (row,) = rows.where("JMSPriority = 7 AND day = date'2026-11-15'").collect()
    assert (str(row.day), str(row.sum), row.raw) == ("2026-11-15", "1.50", None)
    assert rows.where("at = timestamp'2026-11-15 09:30:00' AND sum > 1.49").count() == 1
    assert [bytes(one.raw) for one in rows.where("raw IS NOT NULL").collect()] == [b"x"]


def test_what_cannot_be_is_refused_before_anything_runs(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    with pytest.raises(PySparkException, match="E_SOURCE_OPTION"):
        spark.read.format("tidings").options(url=broker.url).load().collect()
    with pytest.raises(PySparkException, match="E_SELECTOR_SYNTAX"):
        read(spark, broker, name, selector="price >").load().collect()
    for wrong in ("price array<int>", "attributes map<string,int>", "attributes map<int,string>", "ts bigint"):
        with pytest.raises(PySparkException, match="E_SOURCE_COLUMN"):
            read(spark, broker, name).schema(wrong).load().collect()
    with pytest.raises(PySparkException, match="E_RETAINED_UNKNOWN"):
        read(spark, broker, name).load().collect()
    with pytest.raises((AnalysisException, PySparkException), match="E_SOURCE_MODE"):
        spark.range(1).write.format("tidings").options(url=broker.url, destination="x").mode("overwrite").save()


def test_the_columns_of_an_event_type_are_known(
    spark: SparkSession, broker: BrokerThread, client: sync.Client, name: str
) -> None:
    client.add_type("Trade", {"price": "float", "lots": "int"})
    client.add_type("Sale", {"buyer": "string", "at": "time"}, parent="Trade")
    client.retain(name, "@type.Trade.>")
    client.advertise_type("Sale")
    client.publish_event("Sale", {"price": 7.5, "lots": 2, "buyer": "me", "at": 1500}, b"", persistent=True)
    rows = read(spark, broker, name, eventType="Sale").load()
    assert rows.columns == ["id", "offset", "ts", "destination", "price", "lots", "buyer", "at"]
    (row,) = rows.where("price > 7 AND lots = 2 AND at = timestamp'1970-01-01 00:00:01.5Z'").collect()
    assert (row.price, row.lots, row.buyer, row.destination) == (7.5, 2, "me", "@type.Trade.Sale.event")
    with pytest.raises((AnalysisException, PySparkException), match="E_TYPE_UNKNOWN"):
        read(spark, broker, name, eventType="Nothing").load()


def test_a_batch_is_published_once(spark: SparkSession, broker: BrokerThread, client: sync.Client, name: str) -> None:
    kept = client.retain(name, f"{name}.>")
    rows = spark.range(0, 20, 1, 2).selectExpr("id AS n", "'ABC' AS stock", "cast('hello' AS binary) AS body")
    for _ in range(2):
        rows.write.format("tidings").options(url=broker.url, destination=f"{name}.x", writeId=name).mode(
            "append"
        ).save()
    page = kept.read()
    assert sorted(message.properties["n"] for _, message in page.messages) == list(range(20))
    assert {message.body for _, message in page.messages} == {b"hello"}


def test_unknown_options_are_refused_and_the_known_ones_named(
    spark: SparkSession, broker: BrokerThread, name: str
) -> None:
    with pytest.raises(PySparkException, match=r"startofset: unknown option; known options are .*startOffset"):
        read(spark, broker, name, startOfset=5).load().collect()
    with pytest.raises(PySparkException, match=r"persistant: unknown option; known options are .*persistent"):
        spark.range(1).write.format("tidings").options(url=broker.url, destination="x", persistant=True).mode(
            "append"
        ).save()
    for wrong in ({"startTime": "noon"}, {"startOffset": "first"}, {"release": True, "selector": "n > 1"}):
        with pytest.raises(PySparkException, match="E_SOURCE_OPTION"):
            read(spark, broker, name, **wrong).load().collect()


def test_a_range_of_time_is_read(spark: SparkSession, broker: BrokerThread, client: sync.Client, name: str) -> None:
    kept = client.retain(name, f"{name}.>")
    for n in range(5):
        client.publish(f"{name}.a", {"n": n}, persistent=True)
        time.sleep(0.005)
    times = [datetime.fromtimestamp(message.id.ms / 1000, UTC).isoformat() for message in read_all(kept)]
    rows = read(spark, broker, name, startTime=times[1], endTime=times[3]).schema("n bigint").load()
    assert sorted(row.n for row in rows.collect()) == [1, 2]
    since = read(spark, broker, name, startTime=times[3], startOffset="earliest", endOffset="latest")
    assert sorted(row.n for row in since.schema("n bigint").load().collect()) == [3, 4]
    assert read(spark, broker, name, startOffset="latest").load().collect() == []
    before = broker.retrieved()
    plain = read(spark, broker, name).schema("n bigint, ts timestamp, offset bigint").load()
    last = max(plain.collect(), key=lambda row: row.n)
    assert broker.retrieved() - before == 5
    assert [row.n for row in plain.where(f"ts >= timestamp'{times[4]}'").collect()] == [4]
    assert [row.n for row in plain.where(f"ts < timestamp'{times[1]}'").collect()] == [0]
    assert [row.n for row in plain.where(f"offset >= {last.offset}").collect()] == [4]
    assert plain.where(f"offset > {last.offset}").collect() == []
    assert broker.retrieved() - before == 8, "only what passes was sent"


def test_a_stream_leaves_messages_to_other_queries(
    spark: SparkSession,
    broker: BrokerThread,
    client: sync.Client,
    name: str,
    tmp_path: Path,
    patiently: Callable[..., Any],
) -> None:
    kept = client.retain(name, f"{name}.>")
    publish(client, f"{name}.a", 30)

    def run(folder: str, **options: Any) -> list[int]:
        seen: list[int] = []

        def once() -> None:
            source = spark.readStream.format("tidings").options(url=broker.url, subscription=name, **options)
            rows = source.schema("n bigint").load()
            begun = rows.writeStream.foreachBatch(lambda batch, _: seen.extend(row.n for row in batch.collect()))
            query = begun.options(checkpointLocation=str(tmp_path / folder)).trigger(availableNow=True).start()
            assert query.awaitTermination(600)

        patiently(once)
        return sorted(seen)

    assert run("first", selector="stock = 'XYZ'") == [0, 10, 20]
    publish(client, f"{name}.a", 1, start=30)
    assert run("first", selector="stock = 'XYZ'") == [30], "its first batch is committed"
    assert run("second") == [-1, -1, *range(31)]
    assert kept.range()[0] == 0
    publish(client, f"{name}.a", 1, start=31)
    assert run("second", release=True) == [-1, 31]
    publish(client, f"{name}.a", 1, start=32)
    assert run("second", release=True) == [-1, 32]
    assert kept.range()[0] > 0, "released, as was asked for"


class Stream:
    """From one retained subscription to another topic, batch by batch; its driver can be made to forget."""

    def __init__(
        self, spark: SparkSession, broker: BrokerThread, name: str, folder: Path, patiently: Callable[..., Any]
    ) -> None:
        self._spark, self._url, self._name, self.checkpoint = spark, broker.url, name, folder / "checkpoint"
        self._patiently = patiently

    def run(self) -> None:
        """All there is, in batches of at most 30."""

        def once() -> None:
            assert stream(self._spark, self._url, self._name, self.checkpoint).awaitTermination(600)

        self._patiently(once)

    def forget(self, *logs: str) -> None:
        """As if the driver had been killed before it wrote these logs of the last batch."""
        for log in logs:
            last = max(int(one.name) for one in (self.checkpoint / log).iterdir() if one.name.isdigit())
            for one in (self.checkpoint / log).glob(f"*{last}*"):
                one.unlink()


def test_a_stream_that_dies_between_batches_or_in_one_loses_and_doubles_nothing(
    spark: SparkSession,
    broker: BrokerThread,
    client: sync.Client,
    name: str,
    tmp_path: Path,
    patiently: Callable[..., Any],
) -> None:
    client.retain(f"{name}-in", f"{name}.in.>")
    out = client.retain(f"{name}-out", f"{name}.out")
    running = Stream(spark, broker, name, tmp_path, patiently)
    publish(client, f"{name}.in.a", 70)
    running.run()
    assert batches(running.checkpoint) == (3, 3)
    running.forget("commits")  # inside a batch: everything is published, and nobody has noted that
    publish(client, f"{name}.in.a", 20, start=70)
    running.run()
    running.forget("commits", "offsets")  # between batches, before the next was planned: the same offsets come again
    running.run()
    published = [message.properties["n"] for _, message in out.read().messages]
    assert sorted(published) == list(range(90))


def test_a_stream_whose_driver_is_killed_inside_a_batch_publishes_all_once(
    spark: SparkSession,
    broker: BrokerThread,
    client: sync.Client,
    name: str,
    tmp_path: Path,
    patiently: Callable[..., Any],
) -> None:
    client.retain(f"{name}-in", f"{name}.in.>")
    out = client.retain(f"{name}-out", f"{name}.out")
    publish(client, f"{name}.in.a", 80)
    running = Stream(spark, broker, name, tmp_path, patiently)
    for _ in range(9):  # until a batch was begun: on a busy machine Spark may give up before
        driver = streaming(broker.url, name, running.checkpoint)
        if kill_stream(driver, running.checkpoint, inside=True, delay=0.05):
            break
    begun, done = batches(running.checkpoint)
    assert 0 < begun <= 3
    assert done < 3
    running.run()
    assert sorted(message.properties["n"] for message in read_all(out)) == list(range(80))


def test_a_stream_says_when_messages_are_gone(
    spark: SparkSession,
    broker: BrokerThread,
    client: sync.Client,
    name: str,
    tmp_path: Path,
    patiently: Callable[..., Any],
) -> None:
    kept = client.retain(f"{name}-in", f"{name}.in.>")
    client.retain(f"{name}-out", f"{name}.out")
    running = Stream(spark, broker, name, tmp_path, patiently)
    publish(client, f"{name}.in.a", 5)
    running.run()
    publish(client, f"{name}.in.a", 5, start=5)
    kept.release(kept.range()[1])
    with pytest.raises(PySparkException, match="E_SOURCE_LOSS"):
        running.run()


def test_messages_of_others_are_no_loss_to_a_stream(
    spark: SparkSession,
    broker: BrokerThread,
    client: sync.Client,
    name: str,
    tmp_path: Path,
    patiently: Callable[..., Any],
) -> None:
    """The store numbers all messages alike: a stream sees gaps, before its first one and between batches."""

    def others() -> None:
        for _ in range(5):
            client.publish("queue:others", {}, persistent=True)

    def run(start: int) -> None:
        """A new stream, which goes on where the one before ended."""
        others()
        publish(client, f"{name}.a", 2, start=start)
        others()

        def once() -> None:
            given: dict[str, Any] = {
                "url": broker.url,
                "subscription": name,
                "destination": f"{name}.>",
                "release": True,
            }
            rows = spark.readStream.format("tidings").options(**given).schema("n bigint").load()
            begun = rows.writeStream.foreachBatch(lambda batch, _: seen.extend(row.n for row in batch.collect()))
            query = begun.options(checkpointLocation=str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
            assert query.awaitTermination(600)

        patiently(once)

    seen: list[int] = []
    others()
    kept = client.retain(name, f"{name}.>")
    assert kept.range() == (0, 0)
    for start in (0, 10, 20):
        run(start)
    assert [n for n in seen if n >= 0] == [0, 1, 10, 11, 20, 21]
    assert kept.range()[0] > 0, "what was committed is released"
    batch = read(spark, broker, name, startOffset=kept.range()[0]).schema("n bigint").load()
    assert sorted(row.n for row in batch.collect()) == [-1, 20, 21]


def test_a_broker_that_began_anew_is_noticed(
    spark: SparkSession, name: str, tmp_path: Path, patiently: Callable[..., Any]
) -> None:
    """Also where its offsets are beyond the checkpoint: the messages at them are others."""

    def run(broker: BrokerThread, **options: Any) -> list[int]:
        seen: list[int] = []

        def once() -> None:
            source = spark.readStream.format("tidings").options(url=broker.url, subscription=name, **options)
            rows = source.schema("n bigint").load()
            begun = rows.writeStream.foreachBatch(lambda batch, _: seen.extend(row.n for row in batch.collect()))
            query = begun.options(checkpointLocation=str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
            assert query.awaitTermination(600)

        patiently(once)
        return seen

    with BrokerThread() as broker, sync.connect(broker.url) as client:
        client.retain(name, f"{name}.>")
        publish(client, f"{name}.a", 20)
        assert len(run(broker)) == 21
    with BrokerThread() as broker, sync.connect(broker.url) as client:
        kept = client.retain(name, f"{name}.>")
        publish(client, f"{name}.a", 40, start=100)
        assert kept.range()[1] > 21
        with pytest.raises(PySparkException, match="E_SOURCE_LOSS"):
            run(broker)
        assert sorted(run(broker, failOnDataLoss=False)) == [-1, *range(100, 140)]
        publish(client, f"{name}.a", 1, start=140)
        assert sorted(run(broker)) == [-1, 140]
        kept.forget()
        client.retain(name, f"{name}.>")
        with pytest.raises(PySparkException, match="E_SOURCE_LOSS"):
            run(broker)
