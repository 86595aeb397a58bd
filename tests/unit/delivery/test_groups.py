"""Message groups: one consumer each while it is there, in order; nothing waits for ever."""

from random import Random

import pytest
from hardening.support.node_driver import DrivenClient, Got, NodeDriver

from tidings.delivery.groups import BUCKETS, MessageGroups, group_of
from tidings.delivery.mailbox import Consumer
from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.values import Untyped
from tidings.node.requests import Ack, AckMode, Verdict

QUEUE = Destination("q", True)


@pytest.mark.parametrize("body", [b"", b"\x0bJMSXGroupID" * 9, bytes(5000)])
def test_the_group_of_a_message(body: bytes) -> None:
    def group(**properties: str | int) -> int | None:
        return group_of(encode_message(Message(QUEUE, properties, body)))

    assert group() is None
    assert group(x="JMSXGroupID") is None
    assert group(JMSXGroupID=7) is None
    assert group(JMSXGroupID="") is None
    found = group(JMSXGroupID="a")
    assert found is not None
    assert 0 <= found < BUCKETS
    assert group(JMSXGroupID=Untyped("a"), long="y" * 3000) == found == group(long="y" * 3000, JMSXGroupID="a")
    assert group(JMSXGroupID="b") != found


def test_owners_come_and_go() -> None:
    groups, one, other = MessageGroups[Consumer](), Consumer(1, 1, 1), Consumer(2, 1, 1)
    assert groups.owner(5) is None
    assert not groups.bind(5, one)
    assert not groups.bind(5, one)
    assert groups.owner(5) is one
    assert not groups.leave(other)
    assert groups.bind(5, other)
    assert groups.leave(other)
    assert groups.owner(5) is None


def publish(driver: NodeDriver, client: DrivenClient, group: str, number: int) -> None:
    properties = {"JMSXGroupID": group} if group else {}
    client.publish(driver.message("queue:q", f"{group}{number}".encode(), properties))


def consumer(driver: NodeDriver, credit: int = 100, selector: str = "") -> DrivenClient:
    client = driver.connect()
    client.subscribe(1, "queue:q", ack=AckMode.CLIENT, credit=credit, window=True, selector=selector)
    return client


def test_a_group_stays_with_its_consumer_and_others_are_shared() -> None:
    driver = NodeDriver()
    publisher, consumers = driver.connect(), [consumer(driver), consumer(driver)]
    for number in range(10):
        for group in ("a", "b", ""):
            publish(driver, publisher, group, number)
    got = [one.bodies() for one in consumers]
    for letter in (b"a", b"b"):
        holders = [bodies for bodies in got if any(body.startswith(letter) for body in bodies)]
        assert len(holders) == 1
        assert [body for body in holders[0] if body.startswith(letter)] == [letter + b"%d" % n for n in range(10)]
    assert sorted(body for bodies in got for body in bodies if body.isdigit()) == [b"%d" % n for n in range(10)]
    assert all(any(body.isdigit() for body in bodies) for bodies in got)


def test_a_busy_consumer_holds_up_its_groups_alone() -> None:
    driver = NodeDriver()
    publisher, busy = driver.connect(), consumer(driver, credit=1)
    publish(driver, publisher, "a", 0)
    publish(driver, publisher, "a", 1)
    free = consumer(driver)
    publish(driver, publisher, "", 2)
    publish(driver, publisher, "b", 3)
    assert free.bodies() == [b"2", b"b3"]
    (first,) = busy.receive()
    busy.ack(first)
    assert busy.bodies() == [b"a1"]


def test_a_group_moves_on_in_order_when_its_consumer_leaves() -> None:
    driver = NodeDriver()
    publisher, first = driver.connect(), consumer(driver, credit=3)
    for number in range(6):
        publish(driver, publisher, "a", number)
    second = consumer(driver)
    done, *_ = first.receive()
    first.ack(done)
    first.receive()
    assert second.bodies() == []
    first.leave()
    assert second.bodies() == [b"a1", b"a2", b"a3", b"a4", b"a5"]


def test_what_its_consumer_sends_elsewhere_takes_the_group_along() -> None:
    driver = NodeDriver()
    publisher, first = driver.connect(), consumer(driver)
    publish(driver, publisher, "a", 0)
    second = consumer(driver)
    (got,) = first.receive()
    first.ask(Ack(1, (got.tag,), verdict=Verdict.RELEASE, elsewhere=True))
    publish(driver, publisher, "a", 1)
    assert (first.bodies(), second.bodies()) == ([], [b"a0", b"a1"])


@pytest.mark.parametrize("seed", range(40))
def test_each_group_has_one_consumer_at_a_time_and_keeps_its_order(seed: int) -> None:
    """Consumers that come, leave, take their time and return messages; with selectors and without groups between."""
    rng, driver = Random(seed), NodeDriver()
    publisher, sent, done = driver.connect(), 0, set[bytes]()
    consumers: list[DrivenClient] = [consumer(driver, rng.randrange(1, 4))]
    waiting: dict[int, list[Got]] = {}
    owner: dict[bytes, DrivenClient] = {}
    last: dict[bytes, int] = {}  # of each group, the newest that its consumer got for the first time

    def take() -> None:
        for one in consumers:
            for got in one.receive():
                group, number = got.body[:1], int(got.body[1:])
                if group != b"-":
                    assert owner.setdefault(group, one) is one
                    assert got.attempt > 1 or number > last.get(group, -1)
                    last[group] = max(last.get(group, -1), number)
                waiting.setdefault(id(one), []).append(got)

    def leave(one: DrivenClient) -> None:
        consumers.remove(one)
        waiting.pop(id(one), None)
        for group in [group for group, holder in owner.items() if holder is one]:
            del owner[group]
        one.leave()

    for _ in range(120):
        match rng.choice(("publish", "publish", "ack", "ack", "join", "leave")):
            case "publish":
                driver.now_ms += 1
                group = rng.choice(("a", "b", "c", "-"))
                properties = {} if group == "-" else {"JMSXGroupID": group}
                publisher.publish(driver.message("queue:q", f"{group}{sent}".encode(), properties))
                sent += 1
            case "ack":
                one = rng.choice(consumers)
                if held := waiting.get(id(one)):
                    got = held.pop(0)
                    done.add(got.body)
                    one.ack(got)
            case "join" if len(consumers) < 4:
                consumers.append(consumer(driver, rng.randrange(1, 4)))
            case "leave" if len(consumers) > 1:
                leave(rng.choice(consumers))
        take()
    for _ in range(sent):
        for one in consumers:
            for got in waiting.pop(id(one), []):
                done.add(got.body)
                one.ack(got)
        take()
    assert len(done) == sent
