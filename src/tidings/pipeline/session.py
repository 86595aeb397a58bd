"""The Spark session: small local defaults, or what spark-submit has set up.

Locally, one JVM with quiet logs, UTC, and few shuffle partitions. `quick` takes JVM flags that start faster and compile
less, which suits tests and short jobs. Under spark-submit and through Spark Connect (a master `sc://…`) nothing but the
settings in `ALWAYS` is forced: master and sizes are the cluster's affair.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir

from pyspark.sql import SparkSession

from tidings.errors import UsageError
from tidings.pipeline.java import java_home

CONNECT = "sc://"
PYTHON = "spark.pyspark.python"
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"
LOG4J = Path(__file__).with_name("log4j2.properties")
# Needed wherever it runs: days are UTC days, and rows reach Python in batches that are worth a kernel call.
ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "8",
}


@contextmanager
def open_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, quick: bool = False
) -> Iterator[SparkSession]:
    """A session for as long as it is needed. One that is active already is used, and left as it was."""
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    session = start_session(master, conf, quick=quick)
    try:
        yield session
    finally:
        session.stop()


def start_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, quick: bool = False, name: str = "tidings"
) -> SparkSession:
    given = dict(conf or {})
    if PYTHON in given:
        os.environ["PYSPARK_PYTHON"] = given[PYTHON]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers would start whatever python3 is on the path
    builder = SparkSession.builder.appName(name)
    settings = dict(ALWAYS)
    if (master or os.environ.get("SPARK_REMOTE", "")).startswith(CONNECT):  # a server has the JVM
        builder = builder.remote(master or os.environ["SPARK_REMOTE"])
    elif "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit: the JVM is ours to start
        home = java_home(os.environ, Path(gettempdir()) / f"tidings-{os.getuid()}")
        if home is not None:
            os.environ["JAVA_HOME"] = home
        settings |= LOCAL
        flags = f"-Dlog4j2.configurationFile=file:{LOG4J}" + (f" {QUICK_JVM}" if quick else "")
        settings["spark.driver.extraJavaOptions"] = flags
        builder = builder.master(master or "local[*]")
    elif master is not None:
        builder = builder.master(master)
    for key, value in (settings | given).items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    if (context := getattr(session, "sparkContext", None)) is not None:  # not of Spark Connect
        context.setLogLevel("ERROR")
    return session


def parallelism(spark: SparkSession) -> int:
    """For how many tasks work is cut; also known where Spark Connect hides the cluster."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def parse_conf(pairs: list[str]) -> dict[str, str]:
    """
    >>> parse_conf(["spark.executor.memory=4g"])
    {'spark.executor.memory': '4g'}
    """
    conf = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise UsageError("E_PIPELINE_CONF", f"--conf takes spark.…=value, not {pair!r}")
        conf[key] = value
    return conf
