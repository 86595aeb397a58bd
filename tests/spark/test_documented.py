"""The code and commands of the documentation that want Spark, in the session that these tests share."""

import re
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from docs.pages.blocks import ROOT, Block, blocks
from hardening.support.recorded import record_runs, record_world
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import tidings
from tidings.cli import make_app
from tidings.pipeline.source import register
from tidings.testing.local_broker import BrokerThread

BLOCKS = [one for one in blocks() if one.mark == "in Spark"]


def of(page: str, language: str) -> list[Block]:
    return [one for one in BLOCKS if one.name == page and one.language == language]


def execute(block: Block, broker: BrokerThread, names: dict[str, Any]) -> None:
    code = block.text.replace("tidings://127.0.0.1:7300", broker.url)
    for name in ("check", "check-ticks"):  # Spark's directory is where the session began
        code = code.replace(f'"{name}"', repr(str(Path(name).resolve())))
    exec(compile("\n" * block.line + code, str(block.page), "exec"), names)


def test_streams_read_and_publish(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patiently: Callable[..., Any]
) -> None:
    reading, storing, querying, publishing = of("docs/howto/spark.md", "python")
    (again,) = of("docs/pipeline.md", "python")[1:]

    def run() -> tuple[object, object]:
        monkeypatch.chdir(tempfile.mkdtemp(dir=tmp_path))
        names: dict[str, Any] = {"spark": spark}
        with BrokerThread() as broker, tidings.sync.connect(broker.url) as client:
            client.retain("audit", "ticks.>")
            alerts = client.subscribe("alerts.>")
            for price in (10, 50, 150):
                client.publish("ticks.xyz", {"stock": "XYZ", "price": float(price)}, persistent=True)
            for together in ((again,), (reading, storing), (publishing,)):
                try:
                    for block in together:
                        register(spark)
                        execute(block, broker, names)
                    assert set(names["ticks"].columns) >= {"stock", "price"}
                    for query in spark.streams.active:
                        query.processAllAvailable()
                finally:
                    for query in spark.streams.active:
                        query.stop()
            execute(querying, broker, names)
            assert [row.price for row in spark.sql("SELECT * FROM ticks").collect()] == [50.0, 150.0]
            message = alerts.receive(timeout=60)
            assert message is not None
            return message.properties["stock"], message.properties["price"]

    assert patiently(run) == ("XYZ", 150.0)


def test_commands_make_tables_that_are_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    record_runs(tmp_path / "segments", runs=1)
    world = record_world(tmp_path / "segments", messages=20)
    ids = pa.array([bytes(message) for message, _ in world.sent], pa.binary())
    pq.write_table(pa.table({"id": ids}), tmp_path / "ids.parquet")
    (table,) = re.findall(r"(?ms)^```toml\n(input = .*?)^```", (ROOT / "docs" / "pipeline.md").read_text())
    (tmp_path / "pipeline.toml").write_text(table)
    (tmp_path / "scenario.toml").write_text("")
    app = make_app(["pipeline", "lab"])
    pages = ("docs/howto/spark.md", "docs/pipeline.md", "docs/lab.md")
    lines = [line for page in pages for block in of(page, "sh") for line in block.text.splitlines()]
    for line in dict.fromkeys(lines):  # two pages have the same
        _, *words = shlex.split(line, comments=True)
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (line, done.output, done.exception)
    (reading,) = of("docs/pipeline.md", "python")[:1]
    exec(compile(reading.text, str(reading.page), "exec"), {})
    assert "filters" in capsys.readouterr().out
    assert "<h2>filters</h2>" in (tmp_path / "lab-report" / "index.html").read_text()
