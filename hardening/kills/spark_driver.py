"""The pipeline as a process of its own, to be watched, killed or waited for; and what its tables say."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.find_spark_home import _find_spark_home

import tidings.cli.submit
from tidings.model.tables import TABLES
from tidings.pipeline.java import java_home
from tidings.pipeline.schemas import COMPACTED, RESULTS
from tidings.pipeline.session import QUICK_JVM
from tidings.pipeline.storage_paths import StoragePath
from tidings.pipeline.stored_tables import StoredTable, clean_table

# What depends on who was first: a report stands beside one id that has it, sums in the last row of a task.
BY_TASK = {"traces": {"report"}, "matches": {"members", "tally"}}
LITTLE = {  # for little data: what is compiled is not worth it
    "spark.driver.memory": "1g",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
SUBMIT = Path(tidings.cli.submit.__file__)
SECONDS_MAX = 300.0


def tables(output: str | Path) -> dict[str, list[str]]:
    """All rows of all tables in an output, in an order of their own: two outputs that say the same are equal."""
    root = StoragePath.of(output)
    stored = [clean_table(root, name) for name in TABLES]
    stored.append(StoredTable(root.under("clean"), COMPACTED, by_day=True))
    stored += [StoredTable(root.under("results"), table) for table in RESULTS.values()]
    return {one.table.name: rows_of(one) for one in stored if one.manifest() is not None}


def rows_of(stored: StoredTable) -> list[str]:
    columns = [c.name for c in stored.table.columns if c.name not in BY_TASK.get(stored.table.name, ())]
    rows: list[str] = []
    for place in stored.paths():
        system, path = place.open()
        rows += map(repr, pq.ParquetFile(path, filesystem=system).read(columns=columns).to_pylist())
    return sorted(rows)


class Driver:
    """A process with a Spark session of its own."""

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> bool:
        """At once, its JVM with it; whether it was still at work."""
        was_running = self.running
        if was_running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        return was_running

    def finish(self) -> tuple[int, str]:
        """Its exit status, and what it has said."""
        try:
            told, _ = self._process.communicate(timeout=SECONDS_MAX)
        finally:
            self.kill()
        return self._process.returncode, told


def submitted(arguments: list[str], master: str, conf: Mapping[str, str]) -> Driver:
    """`tidings pipeline …` under spark-submit."""
    flags = ["--master", master, "--driver-java-options", QUICK_JVM]
    for key, value in conf.items():
        flags += ["--conf", f"{key}={value}"]
    home = java_home(os.environ, Path(tempfile.gettempdir()) / f"tidings-{os.getuid()}")
    environment = {"PYSPARK_PYTHON": sys.executable} | ({"JAVA_HOME": home} if home is not None else {})
    command = [f"{_find_spark_home()}/bin/spark-submit", *flags, str(SUBMIT), *arguments]
    return Driver(command, environment)


def called(arguments: list[str], master: str, conf: Mapping[str, str]) -> Driver:
    """`tidings pipeline …` as it is."""
    flags = ["--master", master, "--quick"]
    for key, value in conf.items():
        flags += ["--conf", f"{key}={value}"]
    return Driver([sys.executable, "-m", "tidings.cli", "pipeline", *arguments, *flags])


def wait_for(condition: Callable[[], bool], driver: Driver) -> None:
    """Until it holds, or the driver has ended."""
    deadline = time.monotonic() + SECONDS_MAX
    while driver.running and not condition():
        assert time.monotonic() < deadline, "the driver does not get anywhere"
        time.sleep(0.001)
