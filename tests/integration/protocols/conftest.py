from collections.abc import Iterator

import pytest
from hardening.support.amqp_client import Client, Open

from tidings.testing.local_broker import BrokerThread


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[Open]:
    opened: list[Client] = []

    def make(container: str = "") -> Client:
        opened.append(Client(broker.amqp_port, container))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
