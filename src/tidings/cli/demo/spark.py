"""Analyses the records with Spark: the brokers' histories, the archive of quotes, the lab's runs."""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from tidings.cli.demo import quotes
from tidings.cli.demo.stage import Stage
from tidings.errors import TidingsError, UsageError
from tidings.model.codec import encode_message
from tidings.model.tables import MESSAGES
from tidings.pipeline.config import load
from tidings.pipeline.jobs.registry import JOBS, run_job
from tidings.pipeline.run import JobRun, open_run
from tidings.segments.history_store import TAIL, HistoryStore
from tidings.segments.writer import SegmentWriter

LOG = "spark.log"
STEPS = ("ingest", "trace", "replay", "measure", "fit", "report")


def analyse(stage: Stage) -> None:
    if not stage.scale.spark:
        stage.find("Spark pipeline", "left out of the quick demo")
        return
    gather(stage)
    config = load(settings=[f"replay.subscriptions={stage.work / 'desks'}", "replay.name=market"])
    config = replace(
        config, input=str(stage.work / "segments"), output=str(stage.work / "warehouse"), master="local[2]"
    )
    began = time.monotonic()
    try:
        with (
            errors_to(stage.work / LOG),
            stage.console.status("Spark") as status,
            open_run(config, status.update, quick=True) as run,
        ):
            for job in STEPS:
                if JOBS[job].ready(run):
                    work(stage, run, job)
            matched = run.result("matches").read(run.spark).selectExpr("sum(matches)").collect()[0][0]
            traced = run.result("traces").read(run.spark).count()
            paths = run.result("paths").read(run.spark).collect()
            grades = {row["grade"]: row["messages"] for row in run.result("grades").read(run.spark).collect()}
    except UsageError as error:
        if error.code != "E_JAVA":
            raise
        stage.tell(f"left out: {error.reason}")
        stage.find("Spark pipeline", f"left out: {error.reason}")
        return
    delivered = sum(desk.received for desk in stage.desks)
    if matched != delivered:
        raise TidingsError("E_DEMO_REPLAY", f"the replay finds {matched} matches, the desks got {delivered} messages")
    seconds = time.monotonic() - began
    about = f"{traced:,} messages traced in {seconds:.0f} s: {len(paths)} different paths"
    stage.find(
        "Spark: trace of everything", f"{about}, {sum(one.confirmed for one in paths)} confirmed by their origin"
    )
    stage.find("Spark: replay of the archive", f"{matched:,} matches, as many as were delivered")
    shutil.copytree(stage.work / "warehouse" / "report", stage.output / "pipeline", dirs_exist_ok=True)
    texts = [
        f"The brokers' histories and an archive of the quotes were read by Spark jobs. {about}: where each message "
        "went, as tidings trace says it for one.",
        f"Matched again with the desks' selectors, the archived quotes give {matched:,} deliveries: "
        "as many as happened.",
    ]
    caption = "Quotes by the number of desks that got them, from the archive matched again."
    picture = stage.picture("receivers", lambda _: draw(grades), caption)
    page = ("pipeline/index.html", "The pipeline's own report: throughput, models, replication, traces")
    stage.section("The whole day again, with Spark", texts, picture, more=page)


def draw(grades: Mapping[int, int]) -> Figure:
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.bar(list(grades), list(grades.values()))
    axes.set(xlabel="desks that got the quote", ylabel="quotes")
    axes.set_xticks(sorted(grades))
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    return figure


@contextmanager
def errors_to(path: Path) -> Iterator[None]:
    """Redirect the error output of the JVM and its children to a file: they repeat the same warnings at every start."""
    before = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def work(stage: Stage, run: JobRun, job: str) -> None:
    """One job, and a line about it: whoever watches sees that it goes on."""
    began = time.monotonic()
    outcomes = list(run_job(run, job))
    made = ", ".join(f"{one.table} {one.rows:,}" for one in outcomes)
    skipped = sum(len(one.skipped) for one in outcomes)
    left_out = f" ({skipped} segments left out)" if skipped else ""
    stage.tell(f"  {job:<8}{time.monotonic() - began:5.1f} s   rows: {made}{left_out}")


def gather(stage: Stage) -> None:
    """Segments of all brokers and of the lab in one folder, beside them an archive of what was published."""
    segments = stage.work / "segments"
    for name, member in stage.network.members.items():
        copy = stage.work / "records" / name
        shutil.copytree(stage.network.folder / name / "tracking", copy, ignore=shutil.ignore_patterns("lock"))
        store = HistoryStore(copy, member.router)
        store.recover(round(time.time() * 1000))
        store.close()  # the newest records are in a segment now
        shutil.copytree(copy, segments, dirs_exist_ok=True, ignore=_no_tables)
    if (stage.work / "lab").exists():
        shutil.copytree(stage.work / "lab", segments, dirs_exist_ok=True, ignore=_no_tables)
    rows = []
    for message in stage.published:
        assert message.id is not None
        encoded = encode_message(message)
        about = {"publisher": message.id.publisher, "broker": message.id.broker, "ms": message.id.ms}
        rows.append({"id": bytes(message.id), **about, "source": "demo", "size": len(encoded), "message": encoded})
    SegmentWriter(segments, MESSAGES, "demo").append(rows, round(time.time() * 1000))
    columns = {
        "number": list(range(len(stage.desks))),
        "router": [stage.network.members[desk.site].router for desk in stage.desks],
        "predicate": [quotes.encoded_predicate(desk) for desk in stage.desks],
    }
    types = pa.schema([("number", pa.int64()), ("router", pa.int64()), ("predicate", pa.binary())])
    (stage.work / "desks").mkdir(exist_ok=True)
    pq.write_table(pa.table(columns, types), stage.work / "desks" / "desks.parquet")


def _no_tables(folder: str, names: list[str]) -> set[str]:
    """Files beside segments: catalogues, locks, incomplete segments."""
    return {
        name for name in names if ("." in name and not name.endswith(".parquet")) or name in ("lock", "since", TAIL)
    }
