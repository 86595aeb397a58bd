"""Spark Connect: the data source, streams into Delta tables and jobs work in a session without a `sparkContext`."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hardening.kills.spark_driver import SECONDS_MAX
from hardening.support.recorded import record_runs, record_world

from tidings.pipeline.java import java_home
from tidings.testing.local_broker import BrokerThread

PROGRAM = Path(__file__).with_name("connect_program.py")


def test_everything_but_the_cluster_is_there(tmp_path: Path) -> None:
    segments = tmp_path / "segments"
    world = record_world(segments, messages=40)
    record_runs(segments, runs=1)
    ids = pa.array([bytes(message) for message, _ in world.sent], pa.binary())
    pq.write_table(pa.table({"id": ids}), segments / "ids.parquet")
    home = java_home(os.environ, Path(tempfile.gettempdir()) / f"tidings-{os.getuid()}")
    environment = {"PYSPARK_PYTHON": sys.executable} | ({"JAVA_HOME": home} if home is not None else {})
    with BrokerThread() as broker:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), str(segments), str(tmp_path / "warehouse"), broker.url],
            env={**os.environ, **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=2 * SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["context"] is False
    assert (found["read"], found["stream"]) == ([10.0, 50.0], [10.0, 50.0])
    assert found["traces"] == len(world.sent)
    assert found["paths"] > 0
    assert found["throughput"] > 0
