"""The blocking client."""

from collections.abc import Iterator

import pytest

import tidings
from tidings.testing.local_broker import BrokerThread


@pytest.fixture
def url() -> Iterator[str]:
    """A broker on a thread of its own."""
    with BrokerThread() as broker:
        yield broker.url


def test_publish_subscribe_and_transactions_block(url: str) -> None:
    with tidings.sync.connect(url, client_id="me") as client:
        ticks = client.subscribe("ticks.>", selector="price > 20", durable="d", ack="client")
        client.publish("ticks.xyz", {"price": 50}, persistent=True)
        for message in ticks:
            assert message.properties == {"price": 50}
            message.ack()
            break
        with client.transaction() as work:
            work.publish("ticks.abc", {"price": 60}, persistent=True)
            assert ticks.receive(0.05) is None
        got = ticks.receive(5)
        assert got is not None
        got.reject()
        ticks.close()
        client.forget("d")
        dead = client.subscribe("queue:dead-letters").receive(5)
        assert dead is not None
        assert dead.properties["price"] == 60


def test_errors_come_as_errors(url: str) -> None:
    with tidings.sync.connect(url) as client, pytest.raises(tidings.RemoteError) as caught:
        client.subscribe("a..b")
    assert caught.value.code == "E_DESTINATION_EMPTY"


def test_a_queue_is_looked_into(url: str) -> None:
    with tidings.sync.connect(url) as client:
        for number in range(3):
            client.publish("queue:q", body=b"%d" % number, wait=True)
        queue = client.queue("queue:q")
        found = list(queue.browse(page=2))
        assert [one.message.body for one in found] == [b"0", b"1", b"2"]
        assert queue.move("queue:r", tags=[found[1].tag]) == 1
        assert queue.purge() == 2
        assert client.errors == []


def test_a_receipt_is_waited_for(url: str) -> None:
    with tidings.sync.connect(url) as client:
        receipts = [client.publish("queue:q", {"n": n}, persistent=True, wait=False) for n in range(3)]
        assert [receipt.confirmed() for receipt in receipts] == receipts
        assert [one.message.id for one in client.queue("queue:q").browse()] == [one.message_id for one in receipts]
        with client.transaction() as work:
            assert work.publish("queue:q", wait=False).confirmed().message_id
