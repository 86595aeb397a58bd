"""Policies of queues: nothing beyond their limits is held, and nothing is lost that they do not name."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.delivery.policy import Overflow, QueuePolicy
from tidings.errors import StoreError
from tidings.model.destination import Destination, DestinationPattern
from tidings.node import inputs
from tidings.node.limits import BrokerLimits
from tidings.node.requests import CreateQueue, Done, Failed
from tidings.node.settings import NodeSettings

ALL = DestinationPattern.parse("queue:q.>")
OVERFLOWS = list(Overflow)


def driver_of(*policies: QueuePolicy, **settings: Any) -> NodeDriver:
    return NodeDriver(settings=replace(NodeSettings(), policies=policies, **settings))


def publish(driver: NodeDriver, *bodies: bytes, queue: str = "queue:q.a", persistent: bool = True) -> DrivenClient:
    writer = driver.connect()
    for body in bodies:
        writer.publish(driver.message(queue, body, persistent=persistent))
    return writer


def held(driver: NodeDriver, queue: str = "queue:q.a") -> list[bytes]:
    """Takes what waits."""
    reader = driver.connect()
    reader.subscribe(1, queue, credit=1000)
    bodies = [one.body for one in reader.receive()]
    reader.leave()
    return bodies


def error_of(client: DrivenClient, receipt: int) -> str:
    answer = client.answer(receipt)
    assert isinstance(answer, Failed), answer
    return answer.error.code


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize(
    ("overflow", "stays", "dead"),
    [
        (Overflow.REFUSE, [b"1", b"2"], []),
        (Overflow.DROP_NEWEST, [b"1", b"2"], []),
        (Overflow.DROP_OLDEST, [b"3", b"4"], []),
        (Overflow.DEAD_LETTER, [b"3", b"4"], [b"1", b"2"]),
    ],
)
def test_what_becomes_of_what_does_not_fit(
    overflow: Overflow, stays: list[bytes], dead: list[bytes], persistent: bool
) -> None:
    driver = driver_of(QueuePolicy(ALL, messages_max=2, overflow=overflow))
    writer = publish(driver, b"1", b"2", b"3", b"4", persistent=persistent)
    assert list(writer.refused.values()) == (["E_QUEUE_FULL"] * 2 if overflow is Overflow.REFUSE else [])
    assert held(driver) == stays
    assert held(driver, "queue:dead-letters") == dead


def test_bytes_count_as_they_are_on_the_wire_also_after_a_crash() -> None:
    size = len(NodeDriver().message("queue:q.a", b"x" * 100))
    driver = driver_of(QueuePolicy(ALL, bytes_max=3 * size))
    assert len(publish(driver, *[b"x" * 100] * 4).refused) == 1
    driver.crash()
    assert len(publish(driver, b"y" * 100).refused) == 1
    reader = driver.connect()
    reader.subscribe(1, "queue:q.a", credit=1)
    (got,) = reader.receive()
    reader.ack(got)
    assert len(publish(driver, b"y" * 100, b"z").refused) == 1


def test_what_is_on_its_way_to_the_disk_counts() -> None:
    driver = driver_of(QueuePolicy(ALL, messages_max=2))
    publish(driver, b"0")
    driver.hold_writes = True
    writer = publish(driver, b"1", b"2", b"3")
    assert len(writer.refused) == 2
    driver.failure = StoreError("E_STORE_IO", "no")
    driver.write()
    assert len(writer.refused) == 3
    driver.failure, driver.hold_writes = None, False
    driver.tick()
    assert not publish(driver, b"4").refused, "what could not be written takes no room"
    assert held(driver) == [b"0", b"4"]


def test_a_transaction_fits_as_a_whole_or_is_refused() -> None:
    driver = driver_of(QueuePolicy(ALL, messages_max=2))
    writer = driver.connect()
    for bodies, fits in (([b"1", b"2", b"3"], False), ([b"4", b"5"], True), ([b"6"], False)):
        writer.begin(1)
        for body in bodies:
            writer.publish(driver.message("queue:q.a", body), session=1)
        receipt = writer.commit(1)
        if fits:
            assert isinstance(writer.answer(receipt), Done)
        else:
            assert error_of(writer, receipt) == "E_QUEUE_FULL"
    assert held(driver) == [b"4", b"5"]


def test_a_message_that_is_sent_again_is_known_to_a_full_queue() -> None:
    driver = driver_of(QueuePolicy(ALL, messages_max=1))
    message = driver.message("queue:q.a", b"1")
    driver.connect().publish(message)
    again = driver.connect()
    receipt = again.publish(message, flags=1)
    assert receipt in again.accepted


def test_lifetimes_are_cut_and_never_lengthened() -> None:
    driver = driver_of(QueuePolicy(ALL, lifetime_ms=5000))
    writer = driver.connect()
    for wanted in (None, driver.now_ms + 1_000, driver.now_ms + 60_000):
        writer.publish(driver.message("queue:q.a", str(wanted).encode(), expiration_ms=wanted))
    writer.begin(1)
    writer.publish(driver.message("queue:q.a", b"in a transaction"), session=1)
    writer.commit(1)
    mailbox = driver.node.mailbox_service.mailboxes.by_name["queue:q.a"]
    for ms, left in ((900, 4), (200, 3), (3800, 3), (1200, 0)):
        driver.tick(ms)
        assert mailbox.messages == left
    writer.publish(driver.message("queue:q.a", b"late"))
    driver.crash()
    driver.tick(6000)
    driver.tick()
    assert held(driver) == []


def test_tries_and_dead_letters_of_its_own() -> None:
    driver = driver_of(QueuePolicy(ALL, deliveries_max=2, dead_letters=Destination.parse("queue:dead.q")))
    publish(driver, b"1")
    for _ in range(2):
        held(driver)
    assert held(driver, "queue:dead.q") == [b"1"]
    assert held(driver) == []


def test_full_dead_letter_queues_do_not_fill_each_other() -> None:
    one, other = Destination.parse("queue:q.a"), Destination.parse("queue:q.b")
    driver = driver_of(
        QueuePolicy(DestinationPattern.parse("queue:q.a"), 1, overflow=Overflow.DEAD_LETTER, dead_letters=other),
        QueuePolicy(DestinationPattern.parse("queue:q.b"), 1, overflow=Overflow.DEAD_LETTER, dead_letters=one),
    )
    publish(driver, b"1", b"2", b"3")
    assert held(driver) == [b"3"]
    assert held(driver, "queue:q.b") == [b"2"]


def test_idle_queues_are_deleted_and_come_again() -> None:
    driver = driver_of(QueuePolicy(ALL, idle_ms=3000))
    names = driver.node.mailbox_service.mailboxes.by_name
    publish(driver, b"1")
    for _ in range(5):
        driver.tick()
    assert "queue:q.a" in names, "it is not empty"
    reader = driver.connect()
    reader.subscribe(1, "queue:q.a", credit=10)
    reader.ack(*reader.receive())
    for _ in range(5):
        driver.tick()
    assert "queue:q.a" in names, "it has a consumer"
    reader.leave()
    for _ in range(3):
        driver.tick()
    assert "queue:q.a" in names, "not for so long"
    driver.tick()
    assert "queue:q.a" not in names
    driver.crash()
    assert "queue:q.a" not in driver.node.mailbox_service.mailboxes.by_name
    publish(driver, b"2")
    assert held(driver) == [b"2"]


def test_queues_that_are_not_made_by_being_used() -> None:
    driver = driver_of(QueuePolicy(ALL, create=False))
    assert list(publish(driver, b"1").refused.values()) == ["E_QUEUE_UNKNOWN"]
    client = driver.connect()
    assert error_of(client, client.subscribe(1, "queue:q.a")) == "E_QUEUE_UNKNOWN"
    receipt = client.next_receipt()
    client.ask(CreateQueue(receipt, "queue:q.a"))
    assert isinstance(client.answer(receipt), Done)
    assert not publish(driver, b"2").refused


def reconfigured(*policies: QueuePolicy) -> inputs.Reconfigured:
    return inputs.Reconfigured(BrokerLimits(), True, policies)


def test_other_policies_hold_at_once() -> None:
    driver = NodeDriver()
    publish(driver, b"1", b"2", b"3", b"4")
    oldest = QueuePolicy(ALL, messages_max=2, overflow=Overflow.DROP_OLDEST)
    driver.step(reconfigured(oldest))
    assert driver.node.mailbox_service.mailboxes.by_name["queue:q.a"].messages == 2
    driver.step(reconfigured(replace(oldest, overflow=Overflow.REFUSE)))
    assert publish(driver, b"5").refused
    driver.step(reconfigured())
    assert not publish(driver, b"6").refused
    assert held(driver) == [b"3", b"4", b"6"]


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("seed", range(6))
def test_in_the_long_run_limits_hold_and_nothing_else_is_lost(overflow: Overflow, seed: int) -> None:
    """Random publishing, taking, giving back, failing writes and crashes, against an account of every message."""
    rng, limit = Random(f"{overflow.value} {seed}"), 5
    driver = driver_of(QueuePolicy(ALL, messages_max=limit, overflow=overflow), deliveries_max=1_000_000)
    accepted: set[bytes] = set()
    acknowledged: set[bytes] = set()
    writer, reader, receipts = driver.connect(), None, dict[int, bytes]()
    for step in range(300):
        match rng.choice(
            ("publish", "publish", "publish", "take", "leave", "disk", "tick", "crash" if step % 7 == 0 else "tick")
        ):
            case "publish":
                body = b"%d" % step
                receipts[writer.publish(driver.message("queue:q.a", body))] = body
            case "take":
                if reader is None:
                    reader = driver.connect()
                    reader.subscribe(1, "queue:q.a", credit=3)
                for one in reader.receive():
                    if rng.random() < 0.7:
                        reader.ack(one)
                        acknowledged.add(one.body)
            case "leave":
                if reader is not None:
                    reader.leave()
                    reader = None
            case "disk":
                driver.failure = StoreError("E_STORE_IO", "no") if rng.random() < 0.5 else None
            case "tick":
                driver.tick()
            case "crash":
                accepted |= {receipts[one] for one in writer.accepted if one in receipts}
                driver.failure = None
                driver.crash()
                writer, reader, receipts = driver.connect(), None, {}
        mailbox = driver.node.mailbox_service.mailboxes.by_name.get("queue:q.a")
        if mailbox is not None:
            # A dead letter stays until it is safe in its new place, which the disk may refuse.
            assert mailbox.messages <= limit or overflow is Overflow.DEAD_LETTER
    driver.failure = None
    for _ in range(3):
        driver.tick()
    accepted |= {receipts[one] for one in writer.accepted if one in receipts}
    if reader is not None:
        reader.leave()
    dropped = overflow in (Overflow.DROP_NEWEST, Overflow.DROP_OLDEST)
    left = Counter(held(driver)) + Counter(held(driver, "queue:dead-letters"))
    missing = accepted - acknowledged - set(left)
    assert dropped or not missing, "with this policy no confirmed message may be lost"
    assert len(held(driver)) <= limit
