"""The documented commands of a standalone cluster: a master and two workers on loopback, and a job by spark-submit."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs.pages.blocks import blocks
from hardening.kills.spark_driver import tables
from hardening.support.recorded import record_runs

from tidings.pipeline.java import java_home

SECONDS_MAX = 400.0
START, SUBMIT, PACKED = (one.text for one in blocks() if one.mark == "in Spark: on a cluster")
PACKED_BYTES_MAX = 150_000_000


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Cluster:
    """The processes of the first block, with ports that are free."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.status_port = folder, free_port(), free_port()
        self._log = (folder / "cluster.log").open("wb")
        self._process = subprocess.Popen(
            ["bash", "-c", self.text(START)],
            stdout=self._log,
            stderr=self._log,
            cwd=folder,
            env=self.environment(),
            start_new_session=True,
        )

    def text(self, block: str) -> str:
        return block.replace("7077", str(self.port)).replace("8080", str(self.status_port))

    def environment(self) -> dict[str, str]:
        home = java_home(os.environ, Path(tempfile.gettempdir()) / f"tidings-{os.getuid()}")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path} | ({"JAVA_HOME": home} if home is not None else {})

    def status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.status_port}/json/", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def wait(self, workers: int) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                if self.status()["aliveworkers"] == workers:
                    return
            except (OSError, ValueError):  # it does not answer yet, or not with its status
                pass
            assert self._process.poll() is None, (self.folder / "cluster.log").read_text()
            assert time.monotonic() < deadline, (self.folder / "cluster.log").read_text()
            time.sleep(0.5)

    def submit(self, block: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-ec", self.text(block)],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    yield running
    running.close()


def test_a_job_runs_on_a_standalone_cluster_by_the_documented_commands(cluster: Cluster) -> None:
    record_runs(cluster.folder / "segments", runs=1)
    cluster.wait(workers=2)
    found = []
    for block in (SUBMIT, PACKED):
        done = cluster.submit(block)
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(tables(cluster.folder / "warehouse"))
        (cluster.folder / "warehouse").rename(cluster.folder / f"warehouse-{len(found)}")
    alike, packed = found
    assert {"runs", "samples", "verdicts", "throughput"} <= set(alike)
    assert alike["throughput"]
    assert packed == alike, "executors that have nothing but the archive"
    assert (cluster.folder / "executors.tar.gz").stat().st_size < PACKED_BYTES_MAX
    assert [job["cores"] for job in cluster.status()["completedapps"]] == [2, 2], "both workers had an executor"
