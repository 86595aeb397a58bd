"""What expires leaves by itself, whether or not somebody consumes."""

import pytest
from hardening.support.node_driver import NodeDriver

from tidings.node.settings import NodeSettings, Pieces


def waiting(driver: NodeDriver, name: str = "queue:q") -> int:
    return len(driver.node.mailbox_service.mailboxes.by_name[name].backlog)


def in_store(driver: NodeDriver) -> list[int]:
    return [len(one) for one in driver.store.recover().waiting.values()]


def publish(driver: NodeDriver, *bodies: str, persistent: bool = True) -> None:
    """Bodies that begin with x expire in ten milliseconds."""
    publisher = driver.connect()
    for body in bodies:
        expires_ms = driver.now_ms + 10 if body.startswith("x") else None
        publisher.publish(
            driver.message("queue:q", body.encode(), persistent=persistent, expiration_ms=expires_ms),
        )


@pytest.mark.parametrize("persistent", [True, False])
def test_a_queue_without_consumers_loses_what_is_late(persistent: bool) -> None:
    driver = NodeDriver()
    publish(driver, "x1", "a", "x2", "b", persistent=persistent)
    driver.tick(9)
    assert waiting(driver) == 4
    driver.tick()
    assert waiting(driver) == 2
    assert driver.node.mailbox_service.expired == 2
    assert len(driver.node.mailbox_service.message_cache) == 2
    driver.tick()
    assert in_store(driver) == ([2] if persistent else [0])
    consumer = driver.connect()
    consumer.subscribe(1, "queue:q")
    assert consumer.bodies() == [b"a", b"b"]


def test_after_a_restart_the_store_is_read_to_know() -> None:
    driver = NodeDriver(settings=NodeSettings(pieces=Pieces(expiry_page=2)))  # several pages
    publish(driver, "x1", "a", "x2", "b", "x3")
    driver.crash()
    for _ in range(4):
        driver.tick(1)
    assert (waiting(driver), len(driver.node.mailbox_service.message_cache)) == (5, 0), (
        "nothing is late, nothing stays in memory"
    )
    for _ in range(5):
        driver.tick()
    assert waiting(driver) == 2
    assert in_store(driver) == [2]


def test_what_is_with_a_consumer_expires_when_it_comes_back() -> None:
    driver = NodeDriver()
    consumer = driver.connect()
    consumer.subscribe(1, "queue:q", credit=1)
    publish(driver, "x1", "a")
    driver.tick()
    assert (waiting(driver), driver.node.mailbox_service.expired) == (1, 0)
    consumer.leave()
    driver.tick()
    assert (waiting(driver), driver.node.mailbox_service.expired) == (1, 1)


def test_late_messages_become_dead_letters_if_told_so() -> None:
    driver = NodeDriver(settings=NodeSettings(bury_expired=True))
    publish(driver, "x1", "a")
    driver.tick()
    driver.tick()
    assert (waiting(driver), waiting(driver, "queue:dead-letters")) == (1, 1)
    reader = driver.connect()
    reader.subscribe(1, "queue:dead-letters")
    (got,) = reader.receive()
    letter = got.message
    assert (letter.body, letter.expiration_ms) == (b"x1", None)
    assert letter.properties["JMSXDeathCause"] == "expired"


def test_a_removed_mailbox_is_not_looked_at() -> None:
    driver = NodeDriver()
    consumer = driver.connect()
    consumer.subscribe(1, "t", durable="d")
    driver.connect().publish(driver.message("t", b"x", expiration_ms=driver.now_ms + 10))
    service = driver.node.mailbox_service
    consumer.leave()
    service.remove(next(iter(service.mailboxes.by_name.values())))
    driver.tick()
    assert service.expired == 0
