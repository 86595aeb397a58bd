"""Data-quality checks: a table says what holds, and the command ends with status 1 if something does not."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardening.support.recorded import record_messages, record_world
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tidings.cli import make_app
from tidings.pipeline.config import load
from tidings.pipeline.jobs.check import READABLE, ROWS, UNIQUE
from tidings.pipeline.jobs.registry import run_job
from tidings.pipeline.run import JobRun, open_run
from tidings.pipeline.stored_tables import clean_table


def quality(run: JobRun) -> dict[tuple[str, str], tuple[int, bool]]:
    rows = run.result("quality").read(run.spark).collect()
    return {(row["table"], row["check"]): (row["wrong"], row["passed"]) for row in rows}


def test_what_is_wrong_is_named_and_fails_the_command(spark: SparkSession, tmp_path: Path) -> None:
    record_world(tmp_path / "segments", messages=20)
    record_messages(tmp_path / "segments")
    settings = [f"input={tmp_path}/segments", f"output={tmp_path}/tables"]
    words = [word for one in settings for word in ("--set", one)]

    def command(job: str) -> int:
        return CliRunner().invoke(make_app(["pipeline"]), ["pipeline", job, *words]).exit_code

    assert command("ingest") == 0
    assert command("check") == 0
    with open_run(load(settings=settings)) as run:
        before = quality(run)
        assert set(before.values()) == {(0, True)}
        assert {("messages", ROWS), ("histories", UNIQUE), ("attachments", READABLE)} <= set(before)
        stored = clean_table(run.output, "messages")
        path = stored.paths()[0].uri
        rows = pq.ParquetFile(path).read()
        ids = [b"short", *rows["id"].to_pylist()[1:-1], rows["id"][0].as_py()]
        changed = rows.set_column(
            rows.schema.get_field_index("id"), rows.schema.field("id"), pa.array(ids, pa.binary())
        )
        pq.write_table(changed, path)
        damaged = next((tmp_path / "segments" / "attachments").glob("*.parquet"))
        damaged.with_name(damaged.name.replace("-00000000-", "-00000099-")).write_bytes(b"PAR1")
        run_job(run, "ingest")
    assert command("check") == 1
    with open_run(load(settings=settings)) as run:
        wrong = {key: count for key, (count, passed) in quality(run).items() if not passed}
    assert wrong[("messages", "an id has 16 bytes")] == 1
    assert wrong[("attachments", READABLE)] == 1
    assert ("histories", UNIQUE) not in wrong
    with pytest.raises(Exception, match="E_PIPELINE_QUALITY"), open_run(load(settings=settings)) as run:
        run_job(run, "check")
