"""Configuration of a run, and the errors about it; no Spark."""

import json
import subprocess
from pathlib import Path

import pytest
from hardening.support.recorded import record_messages
from pyspark.errors import PySparkException
from typer.testing import CliRunner

from tidings.cli import make_app
from tidings.errors import ConfigError, UsageError
from tidings.pipeline.config import load
from tidings.pipeline.failures import plain
from tidings.pipeline.java import java_home, wrapped
from tidings.pipeline.session import parse_conf


def test_file_settings_and_defaults(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text('output = "x"\n[conf]\n"spark.a" = 4\n[trace]\nids = "ids.parquet"\n[generate]\nzipf = 1\n')
    config = load(path, ["generate.seed=7", "output=y"])
    assert (config.output, config.trace.ids, config.conf) == ("y", "ids.parquet", {"spark.a": "4"})
    assert (config.generate.seed, config.generate.zipf, config.replay.covering_max) == (7, 1.0, 20_000)


def test_everything_wrong_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text("wrong = 1\n[trace]\nidz = 2\nforwards = 3\n")
    with pytest.raises(ConfigError) as caught:
        load(path, ["generate.seed=x", "nothing"])
    assert len(caught.value.problems) == 5
    assert "forwards: takes bool, not 3" in caught.value.problems[2]
    with pytest.raises(ConfigError, match=r"generate\.messages: -5 is less than 0"):
        load(settings=["generate.messages=-5"])
    odd = ["generate.seed=-1", f"sweep.runs={2**70}", "generate.zipf=nan"]
    with pytest.raises(ConfigError) as caught:
        load(settings=odd)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "sweep.runs",
        "generate.seed",
        "generate.zipf",
    ]
    with pytest.raises(ConfigError, match=r"generate\.zipf: inf is not a number up to"):
        load(settings=["generate.zipf=inf"])
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"bytes\.toml"):
        load(tmp_path / "bytes.toml")
    with pytest.raises(UsageError, match="E_PIPELINE_CONF"):
        parse_conf(["executor.memory=1g"])


def test_explain_starts_nothing(tmp_path: Path) -> None:
    record_messages(tmp_path / "segments", count=10, copies=2)
    options = ["--input", str(tmp_path / "segments"), "--output", str(tmp_path / "out"), "--explain"]
    app = make_app(["pipeline"])
    told = json.loads(CliRunner().invoke(app, ["pipeline", "run", *options, "--json"]).stdout)
    assert {plan["job"]: plan["ready"] for plan in told}["ingest"]
    assert told[0]["new segments"] == {"messages": 2}
    assert "2 new segments of messages" in CliRunner().invoke(app, ["pipeline", "ingest", *options]).stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("told", "plainly"),
    [
        (
            "o7.\n: a.B: failed\n\tat x\nCaused by: java.io.IOException: no room\n\t...",
            "E_SPARK: no room (",
        ),
        ("Traceback:\n  File x\ntidings.errors.StoreError: E_STORE_IO: no x\n SQLSTATE: 1", "E_STORE_IO: no x"),
        ("Traceback:\n  File x\nMemoryError: no room\n SQLSTATE: 1", "E_SPARK: MemoryError: no room"),
        ("[CONF] The value '-3' is invalid\nmore", "E_SPARK: [CONF] The value '-3' is invalid"),
    ],
)
def test_the_cause_of_causes_is_told(told: str, plainly: str) -> None:
    assert str(plain(PySparkException(told))).startswith(plainly)


def test_the_java_of_a_wheel_is_wrapped(tmp_path: Path) -> None:
    java = tmp_path / "runtime" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nfor word do echo "$word"; done\n')
    java.chmod(0o755)
    home = wrapped(tmp_path / "runtime", tmp_path / "cache")
    command = [str(home / "bin" / "java"), "-Dx=a b", "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "-Dx=a b\n-version\n"
    with pytest.raises(UsageError, match="E_JAVA"):
        java_home({"JAVA_HOME": str(tmp_path)}, tmp_path)
    with pytest.raises(UsageError, match="E_JAVA"):
        java_home({"PATH": str(tmp_path)}, tmp_path)
