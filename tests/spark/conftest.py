"""One Spark session for the whole test run, and data to work on."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tidings.pipeline.session import start_session
from tidings.testing.local_broker import BrokerThread

T = TypeVar("T")
CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    # Little data: what is compiled is not worth it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session("local[2]", CONF, quick=True, name="tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def patiently() -> Callable[[Callable[[], T]], T]:
    """Runs a stream, again if the machine was too busy: Spark gives a stream's Python 10 s to start, no more."""

    def run(work: Callable[[], T]) -> T:
        for _ in range(9):
            try:
                return work()
            except StreamingQueryException as error:
                if "failed to connect back" not in str(error):
                    raise
        return work()

    return run


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running
