from collections.abc import Iterator

import pytest

from tidings.node.settings import NodeSettings
from tidings.testing.local_broker import BrokerThread


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(NodeSettings(last_values=True)) as running:
        yield running
