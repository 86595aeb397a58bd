from collections.abc import Iterator

import pytest

from tidings.testing.local_broker import BrokerThread


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running
