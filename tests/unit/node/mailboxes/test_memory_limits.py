"""Mailboxes in memory alone that get more than their consumers take."""

import pytest
from hardening.support.node_driver import Got, NodeDriver

from tidings.delivery.mailbox import SlowPolicy
from tidings.node.requests import AckMode, Credit
from tidings.node.settings import NodeSettings


def test_a_full_private_mailbox_pushes_back_then_loses_then_pushes_back_again() -> None:
    driver = NodeDriver(settings=NodeSettings(sink_bytes_max=2_000, stall_ms=500))
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, "t", ack=AckMode.CLIENT)
    big = [driver.message("t", bytes(900)) for _ in range(8)]
    for message in big[:5]:
        publisher.publish(message)
    assert len(consumer.receive()) == 3, "the publisher waits after the one that was too much"
    driver.tick()
    driver.plane.resume(publisher.number, driver.now_ms)
    driver.turn()
    mailbox = driver.node.mailbox_service.mailboxes.by_name[f"private:{consumer.number}:1"]
    assert mailbox.dropped == 2, "nobody takes anything: no reason to hold up publishers"
    consumer.ack(*[Got(1, 1, tag, None) for tag in (1, 2, 3)])  # type: ignore[arg-type]
    for message in big[5:]:
        publisher.publish(message)
    assert len(consumer.receive()) == 3
    assert mailbox.dropped == 2
    publisher.publish(big[0])
    assert consumer.receive() == [], "it holds its publisher again"
    consumer.leave()
    assert (driver.node.backpressure.pushed_back, driver.node.mailbox_service.overflow.dropped["stalled"]) == (2, 2)


@pytest.mark.parametrize(
    ("policy", "kept"), [(SlowPolicy.DROP_OLDEST, [b"1", b"4", b"5"]), (SlowPolicy.DROP_NEWEST, [b"1", b"2"])]
)
def test_a_full_private_mailbox_drops_as_its_policy_says(policy: SlowPolicy, kept: list[bytes]) -> None:
    driver = NodeDriver(settings=NodeSettings(sink_bytes_max=2_100))
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, "t", ack=AckMode.CLIENT, credit=1, policy=policy)
    for i in range(1, 6):
        publisher.publish(driver.message("t", b"%d" % i + bytes(600)))
    got = [one.body[:1] for one in consumer.receive()]
    consumer.ask(Credit(1, 10))
    got += [one.body[:1] for one in consumer.receive()]
    assert got[: len(kept)] == kept
    assert driver.node.mailbox_service.mailboxes.by_name[f"private:{consumer.number}:1"].dropped == 5 - len(got)


def test_a_full_private_mailbox_can_cost_its_connection() -> None:
    driver = NodeDriver(settings=NodeSettings(sink_bytes_max=1_000))
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, "t", ack=AckMode.CLIENT, policy=SlowPolicy.DISCONNECT)
    for _ in range(3):
        publisher.publish(driver.message("t", bytes(600)))
    assert set(driver.closed) == {consumer.number}


def test_those_who_hold_the_memory_and_take_nothing_are_closed() -> None:
    settings = NodeSettings(messages_bytes_max=10_000, sink_bytes_max=4_000, stall_ms=500)
    driver = NodeDriver(settings=settings)
    publisher = driver.connect()
    idle = [driver.connect() for _ in range(4)]
    for number, consumer in enumerate(idle):
        consumer.subscribe(1, f"t{number}", ack=AckMode.CLIENT)
        for _ in range(4):
            publisher.publish(driver.message(f"t{number}", bytes(900)))
    driver.tick()
    driver.tick()
    assert driver.closed
    for consumer in idle:
        if consumer.number in driver.closed:
            consumer.leave()
    driver.tick()
    before = publisher.accepted
    receipt = publisher.publish(driver.message("queue:q", b"goes on"))
    assert receipt in publisher.accepted - before
