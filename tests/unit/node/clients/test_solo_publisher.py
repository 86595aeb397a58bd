"""When a publisher counts as the only one, and what happens to a write of its message that takes long."""

from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.errors import StoreError
from tidings.node.clients.solo_publisher import MESSAGES_MIN, READS_MAX, SoloPublisher

FULL = StoreError("E_STORE_FULL", "no space")


def test_a_lone_publisher_is_one_beside_whom_little_is_read() -> None:
    lone = SoloPublisher()
    assert not any(lone.published(1, reads) for reads in range(MESSAGES_MIN))
    reads = MESSAGES_MIN - 1
    assert lone.published(1, reads + READS_MAX)
    assert not lone.published(1, reads + 2 * READS_MAX + 1), "others are read"
    assert lone.published(1, reads + 2 * READS_MAX + 2)
    assert not lone.published(2, reads + 2 * READS_MAX + 3), "somebody else has published"


def lone_publisher() -> tuple[NodeDriver, DrivenClient, DrivenClient]:
    """A publisher that is known to be alone, and the consumer of its queue, which has seen all so far."""
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, "queue:q")
    for _ in range(MESSAGES_MIN + 1):
        publisher.publish(driver.message("queue:q"))
    consumer.ack(*consumer.receive())
    return driver, publisher, consumer


def test_while_a_lone_write_takes_long_others_are_gathered_behind_it() -> None:
    driver, publisher, consumer = lone_publisher()
    other = driver.connect()
    driver.hold_writes = True
    late = publisher.publish(driver.message("queue:q", b"late"))
    (write,) = driver.writes
    next_one = other.publish(driver.message("queue:q", b"next"))
    assert driver.writes == [write], "one batch at a time"
    assert late not in publisher.accepted
    assert consumer.bodies() == []
    driver.write()
    assert late in publisher.accepted
    assert next_one not in other.accepted
    driver.write()
    assert next_one in other.accepted
    assert consumer.bodies() == [b"late", b"next"]
    driver.hold_writes = False
    driver.crash()
    consumer = driver.connect()
    consumer.subscribe(1, "queue:q")
    assert consumer.bodies() == [b"late", b"next"]


def test_a_lone_write_that_is_refused_late_costs_its_message_alone() -> None:
    driver, publisher, consumer = lone_publisher()
    publisher.publish(driver.message("queue:q", b"seen"))
    consumer.ack(*consumer.receive())  # a change that goes with the next write
    driver.hold_writes, driver.failure = True, FULL
    late = publisher.publish(driver.message("queue:q", b"refused"))
    driver.write()
    assert publisher.refused == {late: "E_STORE_FULL"}
    driver.failure, driver.hold_writes = None, False
    while driver.writes:
        driver.write()
    driver.tick()
    driver.crash()
    consumer = driver.connect()
    consumer.subscribe(1, "queue:q")
    assert consumer.bodies() == [], "the acknowledgement was written"
