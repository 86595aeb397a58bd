"""The jobs: what each reads, computes and writes, and how it knows that there is nothing to do.

A table's manifest names what was consumed for it, options included. A job whose inputs are those of the manifest does
nothing, so running everything again is cheap, and a run that was killed is simply repeated.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import numpy as np
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, DataType, IntegralType, LongType

from tidings.errors import UsageError
from tidings.model.message_id import SIZE
from tidings.model.tables import MESSAGES, TABLES, Table
from tidings.pipeline import generate, measure, replay, sweep, trace
from tidings.pipeline.compact import compacted
from tidings.pipeline.config import JOB_NAMES, Config
from tidings.pipeline.ingest import clean_table, ingest, listing
from tidings.pipeline.report import READS, ROWS_MAX, write_report
from tidings.pipeline.schemas import COMPACTED, RESULTS, SUBSCRIPTIONS, spark_schema
from tidings.pipeline.session import open_session
from tidings.pipeline.storage import Manifest, StoredTable
from tidings.pipeline.storage_paths import StoragePath, fingerprint
from tidings.sim.scenario import Scenario
from tidings.tracking.recording.recorder import TrackingSettings

IMPROPER = f"null, or not of {SIZE} bytes"


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of one table."""

    table: str
    state: str  # written, up to date, or why there is nothing
    rows: int = 0
    skipped: Mapping[str, str] = field(default_factory=dict)


class JobRun:
    """One call of the pipeline: its configuration, and a session as soon as one is needed."""

    def __init__(self, config: Config, told: Callable[[str], None] | None = None, *, quick: bool = False) -> None:
        self.config = config.needing("output")
        self.output = StoragePath.of(config.output)
        self.told = told or (lambda _: None)
        self._quick = quick
        self._stack = ExitStack()
        self._session: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        if self._session is None:
            self.told("starting Spark")
            opened = open_session(self.config.master or None, self.config.conf, quick=self._quick)
            self._session = self._stack.enter_context(opened)
        return self._session

    @property
    def source(self) -> StoragePath:
        return StoragePath.of(self.config.needing("input").input)

    def close(self) -> None:
        self._stack.close()

    def result(self, name: str) -> StoredTable:
        return StoredTable(self.output.under("results"), RESULTS[name])

    def generated(self, table: Table) -> StoredTable:
        return StoredTable(self.output.under("generated"), table)

    def compacted(self) -> StoredTable:
        return StoredTable(self.output.under("clean"), COMPACTED, by_day=True)

    def write(
        self,
        stored: StoredTable,
        inputs: Mapping[str, Any],
        rows: Callable[[], DataFrame],
        skipped: Callable[[], Mapping[str, str]] = dict,
    ) -> JobOutcome:
        """Compute a table unless it was made of the same inputs."""
        before = stored.manifest()
        name = stored.table.name
        if before is not None and before.inputs == inputs:
            return JobOutcome(name, "up to date", before.rows, before.skipped)
        self.told(f"writing {name}")
        made = stored.replace(rows(), inputs, skipped())
        return JobOutcome(name, "written", made.rows, made.skipped)

    # --- where inputs come from ---

    def given(self, key: str, uri: str, columns: Mapping[str, DataType]) -> tuple[DataFrame, Any]:
        """Rows of a file or folder that an option names; refused if they are not what the job reads."""
        place = StoragePath.of(uri)
        files = fingerprint(place)
        if not files:
            raise UsageError("E_PIPELINE_INPUT", f"{key}: there is nothing at {place.uri}")
        try:
            rows = self.spark.read.parquet(place.pattern)
        except (PySparkException, Py4JJavaError):
            raise UsageError("E_PIPELINE_INPUT", f"{key}: what is at {place.uri} is not Parquet") from None
        found = {one.name: one.dataType for one in rows.schema.fields}
        for name, kind in columns.items():
            if name not in found:
                raise UsageError(
                    "E_PIPELINE_INPUT", f"{key}: {place.uri} has no column {name}, only {', '.join(found)}"
                )
            alike = found[name] == kind or (isinstance(kind, LongType) and isinstance(found[name], IntegralType))
            if not alike:
                told = f"{name} is {found[name].simpleString()}, not {kind.simpleString()}"
                raise UsageError("E_PIPELINE_INPUT", f"{key}: in {place.uri} {told}")
        return rows, files

    def id_rows(self) -> tuple[DataFrame, Any]:
        """Ids to be traced, and what they are, for a manifest."""
        if self.config.trace.ids:
            return self.given("trace.ids", self.config.trace.ids, {"id": BinaryType()})
        stored = clean_table(self.output, "messages")
        return stored.read(self.spark), parts_of(stored.need())

    def message_rows(self) -> tuple[DataFrame, Any]:
        wanted = self.config.replay.messages
        if wanted == "generated":
            stored = self.generated(MESSAGES)
            return stored.read(self.spark), parts_of(stored.need())
        if wanted:
            return self.given("replay.messages", wanted, {"id": BinaryType(), "message": BinaryType()})
        stored = clean_table(self.output, "messages")
        return stored.read(self.spark), parts_of(stored.need())

    def subscription_folders(self) -> tuple[list[StoragePath], Any]:
        wanted = self.config.replay.subscriptions
        if wanted == "generated":
            stored = self.generated(SUBSCRIPTIONS)
            return stored.folders(), parts_of(stored.need())
        columns = {one.name: one.dataType for one in spark_schema(SUBSCRIPTIONS).fields}
        _, files = self.given("replay.subscriptions", wanted, columns)
        return [StoragePath.of(wanted)], files


def parts_of(manifest: Manifest) -> dict[str, str]:
    return {name: part.folder for name, part in manifest.parts.items()}


# --- the jobs ---------------------------------------------------------------------------------------------------------


def ingest_job(run: JobRun) -> list[JobOutcome]:
    made = []
    if not any(run.source.under(name).exists() for name in TABLES):
        there = "there is no such folder" if not run.source.exists() else f"it has none of {', '.join(TABLES)}"
        raise UsageError("E_PIPELINE_INPUT", f"input: no segments in {run.source.uri}: {there}")
    # Histories last: who is not in the attachments any more has a mark there, which is read after them.
    for name in sorted(TABLES, key=lambda name: name == "histories"):
        stored = clean_table(run.output, name)
        if not listing(run.source, stored):
            known = stored.manifest()
            if known is not None:
                made.append(JobOutcome(name, "up to date", known.rows, known.skipped))
            continue
        run.told(f"ingesting {name}")
        manifest = ingest(run.spark, run.source, run.output, name)
        if manifest is not None:
            made.append(JobOutcome(name, "written", manifest.rows, manifest.skipped))
    return made


def compact_job(run: JobRun) -> list[JobOutcome]:
    source, target = clean_table(run.output, "histories"), run.compacted()
    wanted, before = parts_of(source.need()), target.manifest()
    done = {} if before is None else dict(before.inputs["histories"])
    options = asdict(run.config.compact)
    stale = [day for day in wanted if done.get(day) != wanted[day]]
    if before is not None and before.inputs["options"] != options:
        stale = list(wanted)
    if not stale:
        return [JobOutcome("compacted", "up to date", 0 if before is None else before.rows)]
    run.told("writing compacted")
    rows = compacted(source.read(run.spark, stale), run.config.compact.capacity)
    made = target.replace(rows, {"histories": wanted, "options": options}, keep=True)
    return [JobOutcome("compacted", "written", made.rows)]


def trace_job(run: JobRun) -> list[JobOutcome]:
    options = run.config.trace
    histories = _compacted(run) if options.compacted else clean_table(run.output, "histories")
    attachments = clean_table(run.output, "attachments")
    ids, about = run.id_rows()
    inputs = {
        "ids": about,
        "histories": parts_of(histories.need()),
        "attachments": parts_of(attachments.need()),
        "options": asdict(options) | {"ids": ""},
    }
    recorded, attached = clean_table(run.output, "histories").need(), attachments.need()
    since = recorded.inputs.get("since", {})
    inputs["missing"] = {"since": since, "segments": sorted({*recorded.skipped, *attached.skipped})}

    def rows() -> DataFrame:
        changes = attachments.read(run.spark).collect()
        records = trace.TraceRecords(
            tuple(place.uri for place in histories.folders()),
            trace.attachments_of(changes),
            trace.writers_of(changes),
            trace.missing_ms(since, recorded.skipped, attached.skipped, changes),
            TrackingSettings(
                persist_ms=options.persist_ms,
                skew_between_brokers_ms=options.skew_between_brokers_ms,
                forwards=options.forwards,
            ),
            options.filters_mb_max << 20,
        )
        return trace.traces(ids, records)

    def skipped() -> dict[str, str]:
        return {**recorded.skipped, **attached.skipped, **_left_out(ids=(trace.improper(ids), IMPROPER))}

    traced = run.write(run.result("traces"), inputs, rows, skipped)
    stored = run.result("traces")
    return [
        traced,
        run.write(run.result("paths"), parts_of(stored.need()), lambda: trace.paths(stored.read(run.spark))),
    ]


def _compacted(run: JobRun) -> StoredTable:
    """Refused if it is older than the histories: what it lacks would be a certain, wrong "no"."""
    stored, wanted = run.compacted(), parts_of(clean_table(run.output, "histories").need())
    if stored.need().inputs["histories"] != wanted:
        reason = "histories were ingested since the filters were merged; run compact first (tidings pipeline compact)"
        raise UsageError("E_PIPELINE_INPUT", f"trace.compacted: {reason}")
    return stored


def replay_job(run: JobRun) -> list[JobOutcome]:
    messages, about = run.message_rows()
    folders, subscriptions = run.subscription_folders()
    options = run.config.replay
    inputs = {"messages": about, "subscriptions": subscriptions, "options": asdict(options)}
    stored = run.result("matches")
    counted = cache(lambda: replay.counted(messages))

    def matches() -> DataFrame:
        if options.subscriptions != "generated":
            replay.check_subscriptions(folders)  # refused here, not on a worker
        return replay.matches(messages, folders)

    made = [run.write(stored, inputs, matches, lambda: _left_out(ids=(counted()[1], IMPROPER)))]
    matched = {"matches": parts_of(stored.need()), "name": options.name}
    rows = stored.read(run.spark)
    name = f.lit(options.name).alias("replay")
    grades = rows.groupBy(f.col("matches").alias("grade")).agg(f.count("*").alias("messages")).select(name, "*")
    sets = rows.groupBy("destinations").agg(f.min("members").alias("routers"), f.count("*").alias("messages"))
    made.append(run.write(run.result("grades"), matched, lambda: grades))
    made.append(run.write(run.result("destinations"), matched, lambda: sets.select(name, "*")))
    damaged = cache(lambda: counted()[0] - stored.need().rows)
    summed = cache(lambda: _summed(run, folders, damaged()))
    made.append(run.write(run.result("router_shares"), matched, lambda: summed()["router_shares"]))

    def skipped() -> dict[str, str]:
        return _left_out(messages=(damaged(), "null, or damaged"))

    made.append(run.write(run.result("moments"), matched, lambda: summed()["moments"], skipped))
    return made


def _left_out(**found: tuple[int, str]) -> dict[str, str]:
    """What a table was not made of, for its manifest."""
    return {name: f"{count} are left out: {reason}" for name, (count, reason) in found.items() if count}


def _summed(run: JobRun, folders: list[StoragePath], damaged: int) -> dict[str, DataFrame]:
    """The tables that come of the tasks' sums and of the grades."""
    options = run.config.replay
    rows = run.result("matches").read(run.spark)
    subscriptions = replay.ReplaySubscriptions.read(folders)
    routers = np.unique(subscriptions.routers)
    total = replay.Sums.empty(len(routers), len(subscriptions))
    for row in rows.where("tally IS NOT NULL").select("tally").toLocalIterator():
        total.add(replay.Sums.from_bytes(bytes(row.tally), len(routers), len(subscriptions)))
    shares = [
        (options.name, int(router), int(messages), int(matches))
        for router, messages, matches in zip(routers, total.router_messages, total.router_matches, strict=True)
    ]
    degree = similarity = None
    if 0 < len(subscriptions) <= options.covering_max:
        degree, similarity = _covering(run, folders, total)
    grades = [(row.grade, row.messages) for row in run.result("grades").read(run.spark).collect()]
    messages = sum(count for _, count in grades)
    sums = [sum(grade**power * count for grade, count in grades) for power in (1, 2, 3)]
    means = [one / max(messages, 1) for one in (*sums, int(total.router_messages.sum()))]
    made = [(options.name, messages, damaged, *means, degree, similarity)]
    return {
        "router_shares": run.spark.createDataFrame(shares, spark_schema(RESULTS["router_shares"])),
        "moments": run.spark.createDataFrame(made, spark_schema(RESULTS["moments"])),
    }


def _covering(run: JobRun, folders: list[StoragePath], total: replay.Sums) -> tuple[float | None, float | None]:
    """The covering degree and the mean similarity φ of roots that matched anything."""
    count = len(total.matched)
    found = replay.coverers(run.spark.range(0, count, 1, min(count, 64)), folders).collect()
    roots = {row.number for row in found if row.coverers == 0}
    subtypes = sum(row.only in roots for row in found if row.only is not None)
    active = [i for i in sorted(roots) if total.matched[i]]
    similar = [1 - total.alone[i] / total.matched[i] for i in active]
    return subtypes / len(roots), float(np.mean(similar)) if similar else None


def measure_job(run: JobRun) -> list[JobOutcome]:
    made = []
    simulations = clean_table(run.output, "simulations")
    if simulations.manifest() is not None:
        inputs = parts_of(simulations.need())
        curves = run.result("simulated")
        made.append(run.write(curves, inputs, lambda: measure.simulated(simulations.read(run.spark))))
    return made + (_measured(run) if not made or _has("runs", "samples")(run) else [])


def _measured(run: JobRun) -> list[JobOutcome]:
    runs, samples = clean_table(run.output, "runs"), clean_table(run.output, "samples")
    inputs = {"runs": parts_of(runs.need()), "samples": parts_of(samples.need()), "edition": measure.EDITION}
    verdicts = run.result("verdicts")
    judged = run.write(verdicts, inputs, lambda: measure.verdicts(runs.read(run.spark), samples.read(run.spark)))
    counted = parts_of(verdicts.need())
    return [
        judged,
        run.write(run.result("throughput"), counted, lambda: measure.throughput(verdicts.read(run.spark))),
    ]


def fit_job(run: JobRun) -> list[JobOutcome]:
    measured, fits = run.result("throughput"), run.result("fits")
    inputs = parts_of(measured.need())
    fitted = run.write(fits, inputs, lambda: measure.fits(measured.read(run.spark)))
    both = {"throughput": inputs, "fits": parts_of(fits.need())}
    predicted = run.write(
        run.result("predictions"),
        both,
        lambda: measure.predictions(measured.read(run.spark), fits.read(run.spark)),
    )
    return [fitted, predicted]


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
    return [run.write(run.result("sweeps"), inputs, lambda: sweep.sweeps(sweep.asked(run.spark, options, scenario)))]


def generate_job(run: JobRun) -> list[JobOutcome]:
    options = run.config.generate
    inputs = asdict(options)
    return [
        run.write(run.generated(MESSAGES), inputs, lambda: generate.generated_messages(run.spark, options)),
        run.write(run.generated(SUBSCRIPTIONS), inputs, lambda: generate.generated_subscriptions(run.spark, options)),
    ]


def report_job(run: JobRun) -> list[JobOutcome]:
    folder = StoragePath.of(run.config.report.folder or run.output.under("report").uri)
    present = [name for name in READS if run.result(name).manifest() is not None]
    tables = {
        name: [row.asDict() for row in run.result(name).read(run.spark).limit(ROWS_MAX).collect()] for name in present
    }
    run.told("writing the report")
    made = write_report(tables, folder)
    return [JobOutcome("report", f"written to {made[0].uri}", len(made))]


@dataclass(frozen=True, slots=True)
class Job:
    work: Callable[[JobRun], list[JobOutcome]]
    about: str
    reads: str
    writes: str
    ready: Callable[[JobRun], bool] = lambda _: True  # whether `run` takes it along


def _has(*names: str) -> Callable[[JobRun], bool]:
    return lambda run: all(clean_table(run.output, name).manifest() is not None for name in names)


JOBS: dict[str, Job] = {
    "ingest": Job(ingest_job, "check segments, drop copies", "segments", "clean/*", lambda run: bool(run.config.input)),
    "compact": Job(compact_job, "merge neighbouring filters", "clean/histories", "clean/compacted", _has("histories")),
    "trace": Job(
        trace_job,
        "where messages went",
        "ids, clean/histories, clean/attachments",
        "results/traces, results/paths",
        lambda run: _has("histories", "attachments")(run) and (bool(run.config.trace.ids) or _has("messages")(run)),
    ),
    "generate": Job(generate_job, "draw a workload", "a seed", "generated/*", lambda run: False),
    "replay": Job(
        replay_job,
        "match messages again",
        "messages, subscriptions",
        "results/matches, grades, destinations, router_shares, moments",
        lambda run: (
            (run.config.replay.subscriptions != "generated" or run.generated(SUBSCRIPTIONS).manifest() is not None)
            and (bool(run.config.replay.messages) or _has("messages")(run))
        ),
    ),
    "measure": Job(
        measure_job,
        "judge runs, average",
        "clean/runs, clean/samples, clean/simulations",
        "results/verdicts, throughput, simulated",
        lambda run: _has("runs", "samples")(run) or _has("simulations")(run),
    ),
    "fit": Job(
        fit_job,
        "fit processing-time models",
        "results/throughput",
        "results/fits, predictions",
        lambda run: run.result("throughput").manifest() is not None,
    ),
    "sweep": Job(
        sweep_job, "run the simulator", "a scenario", "results/sweeps", lambda run: bool(run.config.sweep.scenario)
    ),
    "report": Job(
        report_job,
        "draw figures, write a page",
        "results/*",
        "report",
        lambda run: any(run.result(name).manifest() is not None for name in READS),
    ),
}


assert tuple(JOBS) == JOB_NAMES


@contextmanager
def opened(config: Config, told: Callable[[str], None] | None = None, *, quick: bool = False) -> Iterator[JobRun]:
    run = JobRun(config, told, quick=quick)
    try:
        yield run
    finally:
        run.close()


def work(run: JobRun, name: str) -> list[JobOutcome]:
    """One job, or with `run` all that have something to read, in the order in which they need each other."""
    if name != "run":
        return JOBS[name].work(run)
    made = [outcome for job in JOBS.values() if job.ready(run) for outcome in job.work(run)]
    if not made:
        raise UsageError("E_PIPELINE_INPUT", f"no job has anything to read: no input, and no table in {run.output.uri}")
    return made


def explain(run: JobRun, name: str) -> list[dict[str, Any]]:
    """What a job would do now; starts no session."""
    plans = []
    for one in JOBS if name == "run" else [name]:
        job = JOBS[one]
        plan: dict[str, Any] = {"job": one, "computes": job.about, "reads": job.reads, "writes": job.writes}
        plan["ready"] = job.ready(run) or name != "run"
        if one == "ingest" and run.config.input:
            plan["new segments"] = {
                table: len(new) for table in TABLES if (new := listing(run.source, clean_table(run.output, table)).new)
            }
        plans.append(plan)
    return plans
