"""Every job on a real session: the same answers as one process that does it plainly."""

import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardening.kills.spark_driver import LITTLE, submitted, tables, wait_for
from hardening.support.recorded import SERVER, TRACKING, record_messages, record_runs, record_simulations, record_world
from hardening.support.tracking import START_MS, World
from pyspark.sql import DataFrame, SparkSession
from scipy.optimize import nnls

from tidings.capacity.processing import Load
from tidings.errors import UsageError
from tidings.kernel.codec import MessageBatch, encode_message
from tidings.lab.result_tables import read_tables
from tidings.matching.indexed import IndexedMatcher
from tidings.matching.matcher import per_message
from tidings.matching.workload import Workload
from tidings.model.codec import encode_predicate
from tidings.model.covering import covers
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.selector import Selector
from tidings.model.tables import ATTACHMENTS, HISTORIES, MESSAGES, RUNS
from tidings.pipeline import time_buckets
from tidings.pipeline.config import Config, load
from tidings.pipeline.jobs import sweep
from tidings.pipeline.jobs.explain import explain_job
from tidings.pipeline.jobs.generate import generated_messages
from tidings.pipeline.jobs.measure import interval
from tidings.pipeline.jobs.registry import run_job
from tidings.pipeline.jobs.report import Sample, write_report
from tidings.pipeline.jobs.trace import document
from tidings.pipeline.run import JobOutcome, JobRun, open_run
from tidings.pipeline.schemas import SUBSCRIPTIONS
from tidings.pipeline.storage_paths import StoragePath
from tidings.pipeline.stored_tables import clean_table
from tidings.segments.reader import read_segment, segments
from tidings.segments.retention import mark
from tidings.segments.writer import SegmentWriter

SCENARIO = """
run_ms = 4000
random_faults = 1
[topology]
links = [{between = ["paris", "oslo"]}, {between = ["oslo", "rome"]}]
[[subscribe]]
at = 100
broker = "rome"
selector = "price > 20"
[[publish]]
at = 2000
broker = "paris"
attributes = {price = 50}
count = 5
every_ms = 100
"""


TWICE = {"run": "twice#1", "experiment": "twice", "seed": None, "ended_ms": 9_000}
TWICE |= {"parameters": '{"server": "tidings"}', "outcome": "done", "environment": "{}"}


def settings(root: Path) -> list[str]:
    tracking = [f"trace.persist_ms={TRACKING.persist_ms}"]
    tracking += [f"trace.skew_between_brokers_ms={TRACKING.skew_between_brokers_ms}", f"trace.ids={root}/ids.parquet"]
    drawn = ["generate.messages=500", "generate.subscriptions=60", "generate.routers=4"]
    simulated = [f"sweep.scenario={root}/scenario.toml", "sweep.runs=4"]
    return [f"input={root}/segments", f"output={root}/tables", *tracking, *drawn, *simulated]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipeline")


@pytest.fixture(scope="module")
def world(root: Path) -> World:
    world = record_world(root / "segments")
    record_messages(root / "segments")
    record_runs(root / "segments")
    record_runs(root / "segments", runs=2, broken=False, busy=0.5)
    SegmentWriter(root / "segments", RUNS, "two").append([TWICE | {"started_ms": ms} for ms in (1_000, 2_000)], 2_000)
    record_simulations(root / "segments")
    (root / "scenario.toml").write_text(SCENARIO)
    ids = [bytes(message) for message in asked(world)] + [b"too short"]
    pq.write_table(pa.table({"id": pa.array(ids, pa.binary())}), root / "ids.parquet", row_group_size=50)
    return world


def asked(world: World) -> list[MessageId]:
    """Everything that was sent, and ids nobody has seen: of brokers and times that are on record, or not."""
    now = world.now_ms - 11_000
    strange = [MessageId(9, 2, now, 7), MessageId(9, 77, now, 7), MessageId(9, 2, 0, 7), MessageId(9, 2, 2**47, 7)]
    return [message for message, _ in world.sent] + strange


@pytest.fixture(scope="module")
def run(spark: SparkSession, root: Path, world: World) -> Iterator[JobRun]:
    """All jobs are done; results are in its tables."""
    with open_run(load(settings=settings(root))) as opened:
        run_job(opened, "generate")
        run_job(opened, "run")
        yield opened


def rows(table: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(map(_plain, row)) for row in table.collect())


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, bytearray) else repr(value)


def test_a_bulk_trace_says_what_a_live_trace_says(run: JobRun, world: World) -> None:
    reports = {row.path: json.loads(row.report) for row in run.result("paths").read(run.spark).collect()}
    traced = {bytes(row.id): reports[row.path] for row in run.result("traces").read(run.spark).collect()}
    assert len(traced) == len(asked(world))
    for message in asked(world):
        if message.broker in world.links and START_MS <= message.ms < world.now_ms:
            assert traced[bytes(message)] == document(world.trace(message)), str(message)
    assert 2 in traced[bytes(asked(world)[-2])]["unknown"]  # nobody has records of 1970
    assert not traced[bytes(asked(world)[-1])]["complete"]  # or knows the future
    unknown = traced[bytes(asked(world)[-3])]
    assert (unknown["confirmed"], unknown["unasked"][0]["broker"]) == (False, 77)
    assert sum(report["confirmed"] for report in reports.values()) > 100


def reports(run: JobRun) -> dict[bytes, dict[str, Any]]:
    told = {row.path: json.loads(row.report) for row in run.result("paths").read(run.spark).collect()}
    return {bytes(row.id): told[row.path] for row in run.result("traces").read(run.spark).collect()}


def traced_again(run: JobRun, root: Path, name: str) -> tuple[dict[bytes, dict[str, Any]], list[JobOutcome]]:
    with open_run(replace(run.config, input=f"{root}/{name}", output=f"{root}/{name}-tables")) as other:
        told = [*run_job(other, "ingest"), *run_job(other, "trace")]
        return reports(other), told


def test_segments_that_were_superseded_are_not_missed_and_those_that_retention_deleted_are(
    run: JobRun, world: World, root: Path
) -> None:
    copy = root / "superseded"
    for name in ("histories", "attachments"):
        shutil.copytree(root / "segments" / name, copy / name)
    for segment in segments(copy, HISTORIES):  # as if brokers had deleted the first ones when they had later copies
        segment.path.rename(segment.path.with_name(str(replace(segment.name, sequence=segment.name.sequence + 3))))
    since_ms = world.sent[len(world.sent) // 2][0].ms
    mark(copy, HISTORIES, "b2", since_ms)  # folders of all brokers were copied together
    found, _ = traced_again(run, root, "superseded")
    live = reports(run)
    skew = TRACKING.skew_between_brokers_ms
    later = [bytes(one) for one, _ in world.sent if one.ms - skew >= since_ms]
    assert later
    assert all(found[one] == live[one] for one in later)
    unknown = {broker for one, _ in world.sent if one.ms - skew < since_ms for broker in found[bytes(one)]["unknown"]}
    assert 2 in unknown


def test_a_damaged_segment_of_attachments_makes_traces_unsure(run: JobRun, world: World, root: Path) -> None:
    copy = root / "damaged"
    for name in ("histories", "attachments"):
        shutil.copytree(root / "segments" / name, copy / name)
    live, wrong = reports(run), 0
    (whole,) = [one for one in segments(copy, ATTACHMENTS) if one.name.writer == "b1"]
    changes = read_segment(whole, ATTACHMENTS).to_pylist()
    whole.path.unlink()
    middle = next(i for i, row in enumerate(changes) if row["kind"] == "subscriber")
    writer = SegmentWriter(copy, ATTACHMENTS, "b1")
    parts = [changes[:middle], changes[middle : middle + 1], changes[middle + 1 :]]
    paths = [writer.append(part, part[-1]["ms"]) for part in parts if part]
    paths[-2].write_bytes(paths[-2].read_bytes()[:50])
    found, told = traced_again(run, root, "damaged")
    for message, _ in world.sent:
        one, other = found[bytes(message)], live[bytes(message)]
        wrong += subscribers(one) != subscribers(other)
        assert subscribers(one) == subscribers(other) or 1 in one["unknown"], str(message)
        assert one == other or not one["complete"]
    assert wrong, "the one who came there was somebody"
    assert paths[-2].name in {one.table: one for one in told}["traces"].skipped


def subscribers(report: dict[str, Any]) -> set[tuple[int, str]]:
    return {(hop["broker"], one["name"]) for hop in report["hops"] for one in hop["subscribers"]}


def test_compacted_filters_find_all_that_was_found(run: JobRun, spark: SparkSession, root: Path) -> None:
    copy = root / "growing"
    for name in ("histories", "attachments"):
        shutil.copytree(root / "segments" / name, copy / name)
    late = segments(copy, HISTORIES)[-1].path
    late.rename(root / late.name)
    config = replace(run.config, input=str(copy), output=f"{root}/compacted")
    with open_run(replace(config, trace=replace(run.config.trace, compacted=True))) as other:
        for job in ("ingest", "compact"):
            run_job(other, job)
        (root / late.name).rename(late)
        run_job(other, "ingest")
        with pytest.raises(UsageError, match=r"E_PIPELINE_INPUT: trace.compacted: .* run compact first"):
            run_job(other, "trace")  # older filters would say "no" about what is new
        for job in ("compact", "trace"):
            run_job(other, job)
        assert 0 < other.compacted().need().rows < clean_table(other.output, "histories").need().rows
        before, after = (confirmed(one) for one in (run, other))
        assert before  # merged filters err on the same side, but a little more often
        assert before <= after


def confirmed(run: JobRun) -> set[bytes]:
    paths = run.result("paths").read(run.spark).where("confirmed")
    return {bytes(row.id) for row in run.result("traces").read(run.spark).join(paths, "path").collect()}


def test_a_replay_is_the_kernel_called_directly(run: JobRun, spark: SparkSession) -> None:
    workload = Workload(1, conjunctions=1)
    matcher = IndexedMatcher()
    for number, predicate in enumerate(workload.predicates(0, 60)):
        matcher.add(number, predicate)
    found = per_message(matcher.match(MessageBatch.from_messages(workload.encoded_messages(0, 500))))
    ids = [bytes(message.id) for message in workload.messages(0, 500)]
    routers = [sorted({1 + one % 4 for one in own}) for own in found]
    told = {
        bytes(row.id): (row.matches, row.routers, row.destinations)
        for row in run.result("matches").read(spark).collect()
    }
    assert {id: numbers[:2] for id, numbers in told.items()} == {
        id: (len(own), len(at)) for id, own, at in zip(ids, found, routers, strict=True)
    }
    sets = {row.destinations: row for row in run.result("destinations").read(spark).collect()}
    assert all(sets[told[id][2]].routers == at for id, at in zip(ids, routers, strict=True))
    assert sum(one.messages for one in sets.values()) == 500
    grades = np.array([len(own) for own in found], float)
    (moments,) = run.result("moments").read(spark).collect()
    assert (moments.mean, moments.second, moments.third) == pytest.approx([np.mean(grades**k) for k in (1, 2, 3)])
    assert moments.damaged == 0
    roots = covering_roots(workload)
    alone = {s: [len(own) == 1 for own in found if s in own] for s in roots}
    similar = [1 - np.mean(some) for some in alone.values() if some]
    assert moments.similarity == pytest.approx(np.mean(similar))
    shares = {row.router: row.messages for row in run.result("router_shares").read(spark).collect()}
    assert shares == {router: sum(router in at for at in routers) for router in (1, 2, 3, 4)}


def covering_roots(workload: Workload) -> list[int]:
    all_of = workload.predicates(0, 60)

    def above(a: int, b: int) -> bool:
        return a != b and covers(all_of[a], all_of[b]) and (a < b or not covers(all_of[b], all_of[a]))

    return [s for s in range(60) if not any(above(other, s) for other in range(60))]


def test_throughput_and_fits_are_what_scipy_says(run: JobRun, spark: SparkSession) -> None:
    verdicts = run.result("verdicts").read(spark).where("experiment = 'filters'").collect()
    assert {row.run for row in verdicts if not row.valid} == {row.run for row in verdicts if row.run.endswith("#0")}
    reasons = {row.run: row.reasons for row in verdicts}
    assert "of its core" in reasons["filters-1-1#0"]
    assert "cannot be read" in reasons["filters-broken#0"]
    measured = run.result("throughput").read(spark).where("experiment = 'filters'").collect()
    assert len(measured) == 8
    for row in measured:
        own = sorted((one.run, one.received_per_s) for one in verdicts if one.valid and one.point == row.point)
        expected = interval([value for _, value in own])
        assert (row.received_per_s, row.received_deviation, row.received_half_width) == expected
        assert (row.runs, row.rejected) == (3, 1)
    loads = [json.loads(row.load) for row in measured]
    matrix = np.array([[1.0, one["filters"], one["replication"]] for one in loads])
    solution, _ = nnls(matrix, np.array([1 / row.received_per_s for row in measured]))
    (best,) = run.result("fits").read(spark).where("best and experiment = 'filters'").collect()
    assert best.model == "base"
    assert list(json.loads(best.parameters).values()) == pytest.approx(
        [solution[1], solution[0], solution[2]], rel=1e-6
    )
    assert json.loads(best.parameters)["t_rcv"] == pytest.approx(SERVER.t_rcv, rel=0.3)
    predicted = run.result("predictions").read(spark).collect()
    assert all(math.isclose(row.predicted_per_s, row.received_per_s, rel_tol=0.1) for row in predicted)


def test_what_busy_measured_is_apart_and_runs_of_one_name_do_not_count(run: JobRun, spark: SparkSession) -> None:
    measured = run.result("throughput").read(spark).where("experiment = 'filters --busy'").collect()
    assert [(row.runs, row.rejected) for row in measured] == [(2, 1)] * 8
    for row in measured:  # the server had 0.495 of a core, and did 0.5 of what it can do
        assert row.received_per_s == pytest.approx(SERVER.received(Load(**json.loads(row.load))) / 0.99, rel=0.02)
    fits = run.result("fits").read(spark).where("best").collect()
    assert {(row.experiment, row.points) for row in fits} == {("filters", 8), ("filters --busy", 8)}
    twice = run.result("verdicts").read(spark).where("experiment = 'twice'").collect()
    assert [(row.valid, "same name" in row.reasons) for row in twice] == [(False, True)] * 2
    shown = read_tables(Path(run.config.output) / "results")
    assert {(one.experiment, one.per_cpu_second) for one in shown} == {("filters", False), ("filters", True)}


def test_simulated_experiments_become_curves(run: JobRun, spark: SparkSession) -> None:
    found = run.result("simulated").read(spark).collect()
    curves = {(row.metric, row.series, row.x): (row.runs, row.mean, row.half_width) for row in found}
    assert curves["delay_ms", '{"system": "two"}', 4.0] == (3, *interval([13.0, 14.0, 15.0])[::2])
    assert curves["queue", "{}", 2.0] == (3, *interval([2.0, 4.0, 6.0])[::2])
    assert len(curves) == 2 * 3 + 3


def test_sweeps_are_runs_done_one_by_one(run: JobRun, spark: SparkSession) -> None:
    found = [row.asDict() for row in run.result("sweeps").read(spark).orderBy("run").collect()]
    assert found == [sweep.simulate(f"sweep-{i}", SCENARIO) for i in range(4)]
    assert len({row["seed"] for row in found}) == 4


def test_a_workload_is_the_same_whatever_the_parallelism(run: JobRun, spark: SparkSession) -> None:
    drawn = run.generated(MESSAGES).read(spark)
    encoded = b"".join(
        len(row.message).to_bytes(4, "little") + bytes(row.message) for row in drawn.orderBy("id").collect()
    )
    assert encoded == Workload(1, conjunctions=1).encoded_messages(0, 500)
    assert rows(generated_messages(spark, run.config.generate).coalesce(1)) == rows(drawn)
    assert run.generated(SUBSCRIPTIONS).read(spark).count() == 60


def test_results_do_not_depend_on_partitions(
    run: JobRun, spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_buckets, "BUCKET_LEAST", 20)
    spark.read.parquet(f"{root}/ids.parquet").repartition(5).write.parquet(f"{root}/spread")
    traced = replace(run.config.trace, ids=f"{root}/spread")
    other_sizes = {"spark.sql.shuffle.partitions": "5", "spark.sql.files.maxPartitionBytes": "3000"}
    before = {key: spark.conf.get(key) for key in other_sizes}
    for key, value in other_sizes.items():
        spark.conf.set(key, value)
    try:
        with open_run(replace(run.config, trace=traced, output=f"{root}/spread-tables")) as other:
            for job in ("generate", "run"):
                run_job(other, job)
    finally:
        for key in other_sizes:
            spark.conf.set(key, str(before[key]))
    assert tables(f"{root}/spread-tables") == tables(run.config.output)


def test_a_killed_driver_is_started_again_by_spark_submit_on_one_core(run: JobRun, root: Path) -> None:
    """Own session or spark-submit's, one core or two, killed or not: the tables are the same."""
    output = root / "submitted"
    options = [word for one in settings(root) for word in ("--set", one) if not one.startswith("output=")]
    for key, stored in (("messages", run.generated(MESSAGES)), ("subscriptions", run.generated(SUBSCRIPTIONS))):
        options += ["--set", f"replay.{key}={stored.place.uri}"]
    conf = LITTLE | {"spark.sql.shuffle.partitions": "3"}
    arguments = ["run", *options, "--output", str(output), "--json"]
    killed = submitted(arguments, "local[1]", conf)
    wait_for((output / "results" / "traces").exists, killed)
    assert killed.kill()
    assert tables(output).keys() < tables(run.config.output).keys()
    status, told = submitted(arguments, "local[1]", conf).finish()
    assert status == 0, told
    assert '"table": "histories", "state": "up to date"' in told
    assert tables(output) == tables(run.config.output)


def test_running_again_changes_nothing(run: JobRun) -> None:
    states = {outcome.table: outcome.state for outcome in run_job(run, "run")}
    assert {state for table, state in states.items() if table not in ("report", "optimize")} == {"up to date"}
    plans = {plan["job"]: plan for plan in explain_job(run, "run")}
    assert plans["ingest"]["new segments"] == {}


def test_the_report_reads_results_and_shows_them(run: JobRun, root: Path) -> None:
    page = (root / "tables" / "report" / "index.html").read_text()
    for title in (
        "Throughput and models",
        "Replication grades",
        "Traces",
        "Sweeps of the simulator",
        "Simulated experiments",
    ):
        assert title in page
    assert {one.name for one in (root / "tables" / "report").glob("*.svg")} == {
        "throughput.svg",
        "replication.svg",
        "traces.svg",
        "sweeps.svg",
        "simulated.svg",
    }


def test_a_report_goes_to_where_its_uri_says(run: JobRun, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "here").mkdir()
    monkeypatch.chdir(root / "here")
    for folder, page in (("", root / "tables" / "report"), (f"file://{root}/page", root / "page")):
        (root / "tables" / "report" / "index.html").unlink(missing_ok=True)
        given = replace(run.config, output=f"file://{root}/tables", report=replace(run.config.report, folder=folder))
        with open_run(given) as other:
            (told,) = run_job(other, "report")
        assert told.state == f"written to {page}/index.html"
        assert {one.name for one in page.iterdir()} >= {"index.html", "throughput.svg"}
    assert not list((root / "here").iterdir())


def test_a_report_says_where_it_is_of_a_sample(root: Path) -> None:
    paths = [{"brokers": number % 3, "confirmed": True, "probability_max": 0.5} for number in range(20)]
    page = StoragePath.of(root / "sampled")
    write_report({"paths": Sample(paths, 70_000)}, page)
    text = page.under("index.html").read().decode()
    assert "70,000 different paths. Of 20, 20 are confirmed" in text
    assert "20 of 70,000 rows of paths" in text
    write_report({"paths": paths}, page)
    text = page.under("index.html").read().decode()
    assert "20 different paths" in text
    assert "sample" not in text


def test_ids_that_are_none_are_counted(run: JobRun, root: Path) -> None:
    traced = {outcome.table: outcome for outcome in run_job(run, "trace")}["traces"]
    assert (traced.state, traced.skipped) == ("up to date", {"ids": "1 are left out: null, or not of 16 bytes"})


def test_messages_that_are_none_are_counted_and_change_nothing(run: JobRun, spark: SparkSession, root: Path) -> None:
    whole = [encode_message(Message(Destination("t"), {"price": price})) for price in (1, 10, 20)]
    ids = [number.to_bytes(16, "big") for number in range(7)]
    messages = [*whole, b"damaged", None, whole[0], whole[1]]
    columns = {"id": [*ids[:5], None, b"short"], "message": messages}
    pq.write_table(pa.table({name: pa.array(one, pa.binary()) for name, one in columns.items()}), root / "some.parquet")
    predicate = encode_predicate(Selector("price > 9").predicate)
    pq.write_table(pa.table({"number": [1, 2], "router": [1, 2], "predicate": [predicate] * 2}), root / "wants.parquet")
    given = replace(run.config.replay, messages=f"{root}/some.parquet", subscriptions=f"{root}/wants.parquet")
    config = replace(run.config, output=f"{root}/odd", replay=given)
    for state in ("written", "up to date"):
        with open_run(config) as other:
            told = {outcome.table: outcome for outcome in run_job(other, "replay")}
        assert {outcome.state for outcome in told.values()} == {state}
        assert told["matches"].skipped == {"ids": "2 are left out: null, or not of 16 bytes"}
        assert told["moments"].skipped == {"messages": "2 are left out: null, or damaged"}
    with open_run(config) as other:
        grades = {row.grade: row.messages for row in other.result("grades").read(spark).collect()}
        (moments,) = other.result("moments").read(spark).collect()
    assert grades == {0: 1, 2: 2}
    assert (moments.messages, moments.damaged, moments.mean) == (3, 2, pytest.approx(4 / 3))


def test_inputs_that_cannot_be_are_refused(run: JobRun, root: Path) -> None:
    pq.write_table(pa.table({"id": ["00" * 16]}), root / "text.parquet")
    pq.write_table(pa.table({"message": [b"x"]}), root / "other.parquet")
    pq.write_table(pa.table({"number": [1], "router": [-1], "predicate": [b""]}), root / "negative.parquet")
    (root / "no.toml").write_bytes(b"\xff\xfe")
    (root / "no.parquet").write_text("no Parquet")
    wrong = {
        ("trace", "trace.ids", "text.parquet"): "id is string, not binary",
        ("trace", "trace.ids", "other.parquet"): "has no column id",
        ("trace", "trace.ids", "no.parquet"): "is not Parquet",
        ("trace", "trace.ids", "nothing"): "there is nothing at",
        ("replay", "replay.messages", "nothing"): "there is nothing at",
        ("replay", "replay.subscriptions", "nothing"): "there is nothing at",
        ("replay", "replay.subscriptions", "other.parquet"): "has no column number",
        ("replay", "replay.subscriptions", "negative.parquet"): "the router is -1",
        ("sweep", "sweep.scenario", "no.toml"): "is no text",
        ("ingest", "input", "nothing"): "there is no such folder",
        ("run", "input", "tables"): "it has none of samples",
    }
    for (job, key, name), reason in wrong.items():
        table, _, option = key.rpartition(".")
        given = {option: f"{root}/{name}"}
        config = replace(run.config, **{table: replace(getattr(run.config, table), **given)} if table else given)
        with open_run(config) as other, pytest.raises(UsageError, match=f"E_PIPELINE_INPUT.*{reason}"):
            run_job(other, job)


def test_a_run_with_nothing_to_read_says_so_and_writes_nothing(root: Path) -> None:
    with open_run(Config(output=f"{root}/nothing")) as other, pytest.raises(UsageError, match="E_PIPELINE_INPUT"):
        run_job(other, "run")
    assert not (root / "nothing").exists()


def test_a_job_says_what_it_lacks(run: JobRun, root: Path) -> None:
    with open_run(Config(output=f"{root}/nothing")) as other:
        with pytest.raises(Exception, match="E_PIPELINE_TABLE"):
            run_job(other, "fit")
        with pytest.raises(Exception, match="E_PIPELINE_INPUT"):
            run_job(other, "sweep")
        with pytest.raises(Exception, match="input: not set"):
            run_job(other, "ingest")
