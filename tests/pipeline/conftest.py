"""One Spark session for the whole test run, and data to work on."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidings.pipeline.session import start_session
from tidings.testing.broker import BrokerThread

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


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running
