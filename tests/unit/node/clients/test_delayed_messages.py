"""Delayed messages: none early, none lost, each once, through crashes, failing disks and transactions."""

from collections import Counter
from random import Random

import pytest
from hardening.support.node_driver import NodeDriver

from tidings.delivery.policy import QueuePolicy
from tidings.errors import StoreError
from tidings.model.destination import DestinationPattern
from tidings.node.requests import Failed
from tidings.node.settings import NodeSettings

FULL = StoreError("E_STORE_FULL", "no space left")


@pytest.mark.parametrize("destination", ["queue:q", "t"])
@pytest.mark.parametrize("persistent", [True, False])
def test_a_delayed_message_comes_when_it_is_due(destination: str, persistent: bool) -> None:
    driver = NodeDriver()
    client = driver.connect()
    client.subscribe(1, destination)
    due_ms = driver.now_ms + 5_000
    receipt = client.publish(driver.message(destination, b"x", persistent=persistent, deliver_at_ms=due_ms))
    assert receipt in client.accepted
    driver.tick(4_999)
    assert client.bodies() == []
    driver.tick(1)
    (got,) = client.receive()
    assert (got.body, got.attempt, got.message.deliver_at_ms, got.message.persistent) == (b"x", 1, None, persistent)
    driver.tick(10_000)
    assert client.bodies() == []
    assert len(driver.node.delayed) == 0


def test_they_come_in_the_order_of_their_times() -> None:
    driver = NodeDriver()
    client = driver.connect()
    client.subscribe(1, "queue:q")
    for delay_ms in (3_000, 1_000, 2_000, 1_000, 1):
        client.publish(driver.message("queue:q", b"%d" % delay_ms, deliver_at_ms=driver.now_ms + delay_ms))
    driver.tick(4_000)
    assert client.bodies() == [b"1", b"1000", b"1000", b"2000", b"3000"]


def test_a_message_that_is_not_persistent_waits_on_disk_too() -> None:
    driver = NodeDriver()
    client = driver.connect()
    client.publish(driver.message("queue:q", b"x", persistent=False, deliver_at_ms=driver.now_ms + 5_000))
    driver.crash()
    client = driver.connect()
    client.subscribe(1, "queue:q")
    driver.tick(4_000)
    assert client.bodies() == []
    driver.tick(1_000)
    assert client.bodies() == [b"x"]


def test_what_is_sent_again_after_a_crash_is_kept_once() -> None:
    driver = NodeDriver()
    message = driver.message("queue:q", b"x", deliver_at_ms=driver.now_ms + 5_000)
    driver.connect().publish(message)
    driver.crash()
    client = driver.connect()
    assert client.publish(message, flags=1) in client.accepted
    client.subscribe(1, "queue:q")
    driver.tick(6_000)
    assert client.bodies() == [b"x"]


def test_one_that_expires_first_is_not_delivered() -> None:
    driver = NodeDriver()
    client = driver.connect()
    client.subscribe(1, "queue:q")
    client.publish(driver.message("queue:q", deliver_at_ms=driver.now_ms + 5_000, expiration_ms=driver.now_ms + 4_000))
    driver.tick(6_000)
    assert client.bodies() == []
    assert driver.node.delayed.expired == 1


def test_in_a_transaction_it_counts_from_the_commit_on() -> None:
    driver = NodeDriver()
    client = driver.connect()
    client.subscribe(1, "queue:q")
    for commits in (False, True):
        client.begin(3)
        client.publish(driver.message("queue:q", b"%d" % commits, deliver_at_ms=driver.now_ms + 2_000), session=3)
        if commits:
            client.commit(3)
        else:
            client.rollback(3)
    driver.tick(3_000)
    assert client.bodies() == [b"1"]
    driver.failure = FULL
    client.begin(3)
    client.publish(driver.message("queue:q", b"2", deliver_at_ms=driver.now_ms + 2_000), session=3)
    assert isinstance(client.answer(client.commit(3)), Failed)
    driver.failure = None
    driver.tick(3_000)
    assert client.bodies() == []


def test_what_cannot_be_stored_is_refused() -> None:
    driver = NodeDriver()
    client = driver.connect()
    driver.failure = FULL
    receipt = client.publish(driver.message("queue:q", deliver_at_ms=driver.now_ms + 2_000))
    assert client.refused == {receipt: "E_STORE_FULL"}
    assert len(driver.node.delayed) == 0


def test_a_full_queue_gets_it_when_there_is_room() -> None:
    policy = QueuePolicy(DestinationPattern.parse("queue:q"), messages_max=1)
    driver = NodeDriver(settings=NodeSettings(policies=(policy,)))
    client = driver.connect()
    client.publish(driver.message("queue:q", b"1"))
    client.publish(driver.message("queue:q", b"2", deliver_at_ms=driver.now_ms + 1_000))
    driver.tick(2_000)
    driver.tick(2_000)
    assert [log.event for log in driver.logs] == ["a delayed message cannot be delivered yet"]
    client.subscribe(1, "queue:q")
    (got,) = client.receive()
    client.ack(got)
    driver.tick(2_000)
    assert client.bodies() == [b"2"]


def test_events_of_types_cannot_be_delayed() -> None:
    driver = NodeDriver()
    client = driver.connect()
    receipt = client.publish(driver.message("@type.Trade.event", deliver_at_ms=driver.now_ms + 2_000))
    assert client.refused == {receipt: "E_DELAY_EVENT"}


@pytest.mark.parametrize("seed", range(30))
def test_none_is_early_lost_or_doubled(seed: int) -> None:
    """Against the plain truth: what was accepted, and when it is due; crashes, disks that fail and slow writes."""
    rng, driver, due_ms, came = Random(seed), NodeDriver(), dict[bytes, int](), Counter[bytes]()
    unsure: set[bytes] = set()  # the broker crashed before it answered
    client = driver.connect()
    client.subscribe(1, "queue:q")

    def take() -> None:
        for got in client.receive():
            assert got.body in due_ms or got.body in unsure
            assert driver.now_ms >= int(got.body.split(b":")[1])
            came[got.body] += 1
            client.ack(got)

    asked: dict[int, bytes] = {}
    for number in range(60):
        match rng.choice(("publish", "publish", "tick", "crash", "disk", "hold", "write")):
            case "publish":
                time_ms = driver.now_ms + rng.randrange(1, 6_000)
                body = b"%d:%d" % (number, time_ms)
                asked[client.publish(driver.message("queue:q", body, deliver_at_ms=time_ms))] = body
            case "tick":
                driver.tick(rng.randrange(2_000))
            case "disk":
                driver.failure = None if driver.failure else FULL
            case "hold":
                driver.hold_writes = True
            case "write":
                driver.hold_writes = False
                while driver.writes:
                    driver.write()
            case "crash":
                driver.hold_writes, driver.failure = False, None
                while driver.writes:  # or what was acknowledged would come again
                    driver.write()
                driver.tick(1_000)
                take()
                driver.tick(1_000)
                due_ms.update((asked[one], int(asked[one].split(b":")[1])) for one in client.accepted if one in asked)
                unsure |= set(asked.values()) - set(due_ms)
                driver.crash()
                asked.clear()
                client = driver.connect()
                client.subscribe(1, "queue:q")
        due_ms.update((asked[one], int(asked[one].split(b":")[1])) for one in client.accepted if one in asked)
        unsure |= set(asked.values()) - set(due_ms)
        take()
    driver.failure, driver.hold_writes = None, False
    while driver.writes:
        driver.write()
    due_ms.update((asked[one], int(asked[one].split(b":")[1])) for one in client.accepted if one in asked)
    for _ in range(12):
        driver.tick(1_000)
        take()
    assert set(due_ms) <= set(came)
    assert set(came.values()) <= {1}
