"""A crash of the broker counts towards `deliveries_max`, as the loss of a consumer does."""

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.delivery.store import Counted, MemoryStore, Record
from tidings.node.requests import Credit, Verdict
from tidings.node.settings import NodeSettings

GRAVE, LIMIT = "queue:dead-letters", 3


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.counted = 0

    def _apply(self, record: Record) -> None:
        self.counted += isinstance(record, Counted)
        super()._apply(record)


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver(CountingStore(), NodeSettings(deliveries_max=LIMIT))


def publish(driver: NodeDriver, *bodies: bytes) -> None:
    publisher = driver.connect()
    for body in bodies:
        publisher.publish(driver.message("queue:q", body))


def consume(driver: NodeDriver, **options: object) -> DrivenClient:
    consumer = driver.connect()
    consumer.subscribe(1, "queue:q", **options)
    return consumer


def dead(driver: NodeDriver) -> list[bytes]:
    reader = driver.connect()
    reader.subscribe(9, GRAVE, credit=10)
    return reader.bodies()


def crashes_until_dead(driver: NodeDriver) -> int:
    """A message that ends the broker as soon as it is given out."""
    for crashes in range(LIMIT + 3):
        given = consume(driver).receive()
        if not given:
            return crashes
        assert [one.attempt for one in given] == [crashes + 1]
        driver.crash()
    return -1


def test_a_message_that_ends_the_broker_each_time_is_a_dead_letter_in_the_end(driver: NodeDriver) -> None:
    publish(driver, b"poison")
    assert crashes_until_dead(driver) == LIMIT + 1  # of the first crash the store knows that it may have come of it
    driver.tick()
    assert dead(driver) == [b"poison"]


def test_those_behind_it_are_not_counted(driver: NodeDriver) -> None:
    publish(driver, b"poison", b"innocent", b"innocent too")
    for _ in range(LIMIT + 1):
        assert consume(driver).bodies() == [b"poison", b"innocent", b"innocent too"]
        driver.crash()
    driver.tick()
    assert consume(driver).bodies() == [b"innocent", b"innocent too"]
    assert dead(driver) == [b"poison"]


def test_what_a_consumer_was_long_at_work_on_counts_from_the_first_crash_on(driver: NodeDriver) -> None:
    publish(driver, b"slow", b"behind it")
    for _ in range(LIMIT):
        assert consume(driver).bodies() == [b"slow", b"behind it"]
        driver.tick()
        driver.tick()
        driver.tick()  # what nobody waits for is written
        driver.crash()
    assert consume(driver).bodies() == [b"behind it"]
    driver.tick()
    assert dead(driver) == [b"slow"]


def test_what_was_never_given_out_is_not_counted(driver: NodeDriver) -> None:
    """A consumer without credit; the broker crashes again and again, for other reasons."""
    publish(driver, b"first")
    consume(driver)
    for _ in range(3 * LIMIT):
        driver.crash()
        waiting = consume(driver, paused=True)
        for _ in range(3):
            driver.tick()
    waiting.ask(Credit(1, 2))
    driver.tick()
    assert waiting.bodies() == [b"first"]


@pytest.mark.parametrize("verdict", [Verdict.RELEASE, Verdict.RETRY])
def test_what_was_returned_is_counted_as_it_is(driver: NodeDriver, verdict: Verdict) -> None:
    publish(driver, b"m")
    consumer = consume(driver, credit=1)
    for _ in range(3):
        driver.tick()
    consumer.ack(*consumer.receive(), verdict=verdict)
    driver.crash()
    (again,) = consume(driver).receive()
    assert again.attempt == 2


def test_consumers_that_keep_up_cost_no_record(driver: NodeDriver) -> None:
    consumer = consume(driver)
    for _ in range(5):
        publish(driver, b"m")
        consumer.ack(*consumer.receive())
        driver.tick()
    store = driver.store
    assert isinstance(store, CountingStore)
    assert store.counted == 0


def test_one_message_of_each_consumer_is_counted_once(driver: NodeDriver) -> None:
    publish(driver, *[b"%d" % number for number in range(10)])
    consume(driver)
    for _ in range(20):
        driver.tick()
    store = driver.store
    assert isinstance(store, CountingStore)
    assert store.counted == 1
