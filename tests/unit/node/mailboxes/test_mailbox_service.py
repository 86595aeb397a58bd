"""Mailboxes when there is more than memory holds, and messages that come twice."""

import pytest
from hardening.support.node_driver import Got, NodeDriver

from tidings.delivery import store
from tidings.delivery.store import Stored
from tidings.errors import StoreError
from tidings.node.mailboxes import mailbox_service
from tidings.node.mailboxes import sync_write as alone
from tidings.node.requests import AckMode, Credit
from tidings.node.settings import NodeSettings

FULL = StoreError("E_STORE_FULL", "no space left")


def numbered(driver: NodeDriver, destination: str, count: int, *, persistent: bool = True) -> list[bytes]:
    return [driver.message(destination, b"%d" % i, persistent=persistent) for i in range(count)]


def attempts(got: list[Got]) -> list[tuple[bytes, int]]:
    return [(one.body, one.attempt) for one in got]


def test_a_message_in_a_durable_and_a_private_mailbox_stays_for_both() -> None:
    driver = NodeDriver()
    quick, slow, publisher = driver.connect("me"), driver.connect(), driver.connect()
    quick.subscribe(1, "t", durable="d")
    slow.subscribe(1, "t", ack=AckMode.CLIENT, credit=1)
    for message in numbered(driver, "t", 3):
        publisher.publish(message)
    driver.node.mailbox_service.message_cache.bytes_max = 0
    driver.tick()
    quick.ack(*quick.receive())
    for expected in (b"0", b"1", b"2"):
        (got,) = slow.receive()
        assert got.body == expected
        slow.ack(got)
        driver.node.mailbox_service.tick(driver.now_ms)
        slow.ask(Credit(1, 1))
    assert len(driver.node.mailbox_service.message_cache) == 0


def test_a_message_for_more_mailboxes_than_a_record_can_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "TARGETS_MAX", 2)
    monkeypatch.setattr(mailbox_service, "TARGETS_MAX", 2)
    monkeypatch.setattr(alone, "TARGETS_MAX", 2)
    driver = NodeDriver()
    subscriber, publisher = driver.connect("me"), driver.connect()
    for number in range(1, 6):
        subscriber.subscribe(number, "t", durable=f"d{number}")
    assert publisher.publish(driver.message("t", b"m")) in publisher.accepted
    assert sorted(one.subscription for one in subscriber.receive()) == [1, 2, 3, 4, 5]
    driver.crash()
    again = driver.connect("me")
    for number in range(1, 6):
        again.subscribe(number, "t", durable=f"d{number}")
    got = again.receive()
    assert sorted((one.subscription, one.body) for one in got) == [(number, b"m") for number in range(1, 6)]
    again.ack(*got)
    driver.tick()
    assert all(len(waiting) == 0 for waiting in driver.store.recover().waiting.values())
    sinks = tuple(driver.node.mailbox_service.mailboxes.by_sink)
    assert driver.node.sync_write.begin(driver.message("t"), sinks, 0) is None


def test_messages_that_are_not_retained_are_written_at_once_beside_those_that_are() -> None:
    driver = NodeDriver(settings=NodeSettings(last_values=True))
    driver.connect().subscribe(1, "queue:q", credit=0)
    mailboxes = driver.node.mailbox_service.mailboxes
    [queue] = [sink for sink, mailbox in mailboxes.by_sink.items() if mailbox.name == "queue:q"]
    [kept] = [sink for sink, mailbox in mailboxes.by_sink.items() if mailbox.number in mailboxes.retained]
    assert driver.node.sync_write.begin(driver.message("queue:q"), (queue, kept), 0) is None
    write = driver.node.sync_write.begin(driver.message("queue:q", b"more"), (queue,), 0)
    assert write is not None
    assert isinstance(write.records[-1], Stored)


def test_a_long_queue_is_paged_in_and_a_failed_read_is_tried_again() -> None:
    driver = NodeDriver(settings=NodeSettings(messages_bytes_max=2_000))
    publisher, consumer = driver.connect(), driver.connect()
    for message in numbered(driver, "queue:q", 1_000):
        publisher.publish(message)
    assert driver.node.mailbox_service.message_cache.bytes <= 2_000
    driver.read_failure = True
    consumer.subscribe(1, "queue:q", credit=2_000)
    some = consumer.bodies()
    assert len(some) < 1_000
    driver.read_failure = False
    driver.tick()
    assert some + consumer.bodies() == [b"%d" % i for i in range(1_000)]


def test_a_selective_consumer_finds_its_message_at_the_end_of_a_paged_queue() -> None:
    driver = NodeDriver(settings=NodeSettings(messages_bytes_max=2_000))
    publisher, consumer = driver.connect(), driver.connect()
    for i in range(1_000):
        publisher.publish(driver.message("queue:q", b"%d" % i, {"n": i}))
    consumer.subscribe(1, "queue:q", selector="n = 999")
    assert consumer.bodies() == [b"999"]


@pytest.mark.parametrize("failure", [None, FULL])
def test_a_message_sent_again_shares_the_fate_of_the_copy_that_is_on_its_way_to_disk(
    failure: StoreError | None,
) -> None:
    driver = NodeDriver()
    first, second, consumer = driver.connect(), driver.connect(), driver.connect()
    consumer.subscribe(1, "queue:q")
    message = driver.message("queue:q", b"once", persistent=True)
    driver.hold_writes, driver.failure = True, failure
    first.publish(message)
    receipt = second.publish(message, flags=1)  # its connection broke, and it does not know
    driver.write()
    driver.failure = None
    while driver.writes:
        driver.write()
    if failure is None:
        assert second.accepted == {receipt}
        assert attempts(consumer.receive()) == [(b"once", 1)]
    else:
        assert list(second.refused) == [receipt]
        again = second.publish(message, flags=1)
        driver.write()
        assert second.accepted == {again}
        assert consumer.bodies() == [b"once"]


def test_what_a_broken_connection_had_sent_and_is_read_later_than_the_repetition_is_known() -> None:
    """The client has gone on by another connection; of the first one there is still something to be read."""
    driver = NodeDriver()
    broken, next_one, consumer = driver.connect(), driver.connect(), driver.connect()
    consumer.subscribe(1, "queue:a")
    message, unsent = driver.message("queue:a", b"once"), driver.message("queue:a", b"only by the first")
    next_one.publish(message, flags=1)
    receipts = [broken.publish(message), broken.publish(unsent)]
    assert [(one.body, one.attempt) for one in consumer.receive()] == [(b"once", 2), (b"only by the first", 2)]
    assert set(receipts) <= broken.accepted
    assert driver.node.mailbox_service.publish_dedup.duplicates == 1
