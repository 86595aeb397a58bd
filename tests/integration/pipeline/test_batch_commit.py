"""Batches published by a driver that ends at any commit and is followed by one with other partitions: each row once."""

import asyncio
import uuid
from collections.abc import Iterator, Sequence

import pytest
from hardening.kills.spark import read_all
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.client import sync
from tidings.client.client import Client
from tidings.errors import LimitError, RemoteError, UsageError
from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.pipeline.source.batch_commit import BatchPublisher, StagedRows
from tidings.pipeline.source.options import WriteOptions
from tidings.testing.local_broker import BrokerThread


class DriverKilledError(Exception):
    """Stands for the end of a driver."""


class KilledPublisher(BatchPublisher):
    """A driver that ends at one of its commits: before the broker has it, or before the answer is noted."""

    commits = 0
    after = False

    async def _commit(self, client: Client, rows: Sequence[bytes], number: int) -> int:
        self.commits -= 1
        if self.commits < 0 and not self.after:
            raise DriverKilledError
        done = await super()._commit(client, rows, number)
        if self.commits < 0:
            raise DriverKilledError
        return done


class CutPublisher(BatchPublisher):
    """A driver whose connection breaks while it sends rows, or while it waits for the answer to a commit."""

    cuts = 0
    delay = 0.0

    async def _commit(self, client: Client, rows: Sequence[bytes], number: int) -> int:
        if self.cuts:
            self.cuts -= 1
            link = client._line.link
            assert link is not None
            assert link._transport is not None
            asyncio.get_running_loop().call_later(self.delay, link._transport.abort)
        return await super()._commit(client, rows, number)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: BrokerThread) -> Iterator[sync.Client]:
    with sync.connect(broker.url) as connected:
        yield connected


def options(broker: BrokerThread, size: int = 400) -> WriteOptions:
    return WriteOptions.of({"url": broker.url, "destination": "x", "transactionBytes": str(size)}, False)


def staged(topic: str, partitions: int, rows: Sequence[int]) -> list[StagedRows]:
    cut = [[encoded(topic, n) for n in rows[i::partitions]] for i in range(partitions)]
    return [StagedRows("query", one) for one in cut]


def encoded(topic: str, n: int) -> bytes:
    return encode_message(Message(Destination(topic), {"n": n}, persistent=True))


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.integers(0, 9), max_size=25),
    kills=st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.integers(1, 4)), max_size=4),
    size=st.sampled_from((150, 400, 1 << 20)),
    partitions=st.integers(1, 4),
)
def test_every_row_is_published_once(
    broker: BrokerThread,
    client: sync.Client,
    rows: list[int],
    kills: list[tuple[int, bool, int]],
    size: int,
    partitions: int,
) -> None:
    topic = uuid.uuid4().hex
    kept = client.retain(topic, topic)
    for commits, after, cut in kills:
        driver = KilledPublisher(options(broker, size), topic, 3, staged(topic, cut, rows))
        driver.commits, driver.after = commits, after
        try:
            driver.publish()
        except DriverKilledError:
            continue
    BatchPublisher(options(broker, size), topic, 3, staged(topic, partitions, rows)).publish()
    assert not BatchPublisher(options(broker, size), topic, 3, staged(topic, 2, [*rows, 99])).publish()
    assert not BatchPublisher(options(broker, size), topic, 2, staged(topic, 1, [98])).publish()
    assert BatchPublisher(options(broker, size), topic, 4, staged(topic, 1, [97])).publish()
    assert sorted(message.properties["n"] for message in read_all(kept)) == sorted([*rows, 97])
    kept.forget()


def test_a_batch_published_in_part_is_not_continued_with_other_rows(broker: BrokerThread, client: sync.Client) -> None:
    kept = client.retain("partly", "partly")
    driver = KilledPublisher(options(broker), "partly", 7, staged("partly", 3, range(50)))
    driver.commits = 4
    with pytest.raises(DriverKilledError):
        driver.publish()
    assert 0 < len(read_all(kept)) < 50
    for other in (staged("partly", 2, range(1, 51)), staged("partly", 2, range(5)), []):
        with pytest.raises(UsageError, match="E_SINK_CHANGED"):
            BatchPublisher(options(broker), "partly", 7, other).publish()
    with pytest.raises(UsageError, match="E_SINK_CHANGED"):  # cut into other transactions
        BatchPublisher(options(broker, 500), "partly", 7, staged("partly", 3, range(50))).publish()
    assert BatchPublisher(options(broker), "partly", 7, staged("partly", 2, range(50))).publish()
    assert sorted(message.properties["n"] for message in read_all(kept)) == list(range(50))


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.004, 0.016])
def test_a_connection_that_breaks_neither_loses_nor_doubles_rows(
    broker: BrokerThread, client: sync.Client, delay: float
) -> None:
    topic = uuid.uuid4().hex
    kept = client.retain(topic, topic)
    driver = CutPublisher(options(broker, 20_000), topic, 0, staged(topic, 2, range(2000)))
    driver.cuts, driver.delay = 6, delay
    driver.publish()
    assert sorted(message.properties["n"] for message in read_all(kept)) == list(range(2000))


def test_rows_of_one_transaction_keep_their_order(broker: BrokerThread, client: sync.Client) -> None:
    kept = client.retain("order", "order")
    assert BatchPublisher(options(broker, 1 << 20), "order", 0, staged("order", 1, [5, 3, 9, 1])).publish()
    assert [message.properties["n"] for message in read_all(kept)] == [5, 3, 9, 1]


def test_encoded_messages_get_rising_ids_and_one_that_is_too_large_is_refused(
    broker: BrokerThread, client: sync.Client
) -> None:
    kept = client.retain("ids", "ids")
    assert BatchPublisher(options(broker, 1 << 20), "ids", 0, staged("ids", 3, range(3000))).publish()
    found = [bytes(message.id) for message in read_all(kept)]
    assert len(found) == 3000
    assert found == sorted(set(found))
    large = StagedRows("query", [encode_message(Message(Destination("ids"), body=bytes(17 << 20)))])
    with pytest.raises(LimitError, match="E_MESSAGE_SIZE"):
        BatchPublisher(options(broker), "ids", 1, [large]).publish()


def test_an_error_of_the_broker_is_not_retried(broker: BrokerThread) -> None:
    with pytest.raises(RemoteError, match="E_COMMIT_KEY"):
        BatchPublisher(options(broker), "k" * 600, 0, staged("x", 1, [1])).publish()
