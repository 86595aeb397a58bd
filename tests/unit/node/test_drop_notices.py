"""What a policy drops for a subscription is told to its client: how many messages, and why."""

from random import Random

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.delivery.mailbox import SlowPolicy
from tidings.node import inputs
from tidings.node.requests import AckMode, Credit, Unsubscribe
from tidings.node.settings import NodeSettings

DROPPING = [(SlowPolicy.DROP_OLDEST, "oldest"), (SlowPolicy.DROP_NEWEST, "newest")]
MODES = [AckMode.AUTO, AckMode.CLIENT]  # a direct sink, and a mailbox


def small(output_bytes_max: int = 1 << 20) -> NodeDriver:
    settings = NodeSettings(sink_bytes_max=2_000, stall_ms=500)
    return NodeDriver(settings=settings, stall_ms=500, output_bytes_max=output_bytes_max)


def publish(driver: NodeDriver, publisher: DrivenClient, count: int = 20, destination: str = "t") -> None:
    for _ in range(count):
        publisher.publish(driver.message(destination, bytes(600), persistent=False))


@pytest.mark.parametrize("ack", MODES)
@pytest.mark.parametrize(("policy", "reason"), DROPPING)
def test_received_and_dropped_are_all_that_was_published(ack: AckMode, policy: SlowPolicy, reason: str) -> None:
    driver = small()
    publisher, reader = driver.connect(), driver.connect()
    reader.subscribe(7, "t", ack=ack, credit=1, policy=policy)
    publish(driver, publisher)
    assert not reader.dropped, "not of each one"
    driver.tick()
    assert reader.dropped.keys() == {(7, reason)}
    reader.ask(Credit(7, 100))
    got = len(reader.receive())
    assert got + reader.dropped[7, reason] == 20
    driver.tick()
    assert got + reader.dropped[7, reason] == 20, "it is told once"


@pytest.mark.parametrize("ack", MODES)
def test_a_stalled_subscription_is_told_what_it_misses(ack: AckMode) -> None:
    driver = small()
    publisher, reader = driver.connect(), driver.connect()
    reader.subscribe(7, "t", ack=ack, credit=1)
    publish(driver, publisher)
    for _ in range(2):
        driver.tick()
        for number in driver.plane.take_resumable():
            driver.plane.resume(number, driver.now_ms)
        driver.plane.resume(publisher.number, driver.now_ms)
        driver.turn()
    driver.tick()
    assert reader.dropped.keys() == {(7, "stalled")}
    reader.ask(Credit(7, 100))
    assert len(reader.receive()) + reader.dropped[7, "stalled"] == 20


def test_each_consumer_of_a_shared_subscription_is_told() -> None:
    driver = small()
    publisher, readers = driver.connect(), [driver.connect(), driver.connect()]
    for number, reader in enumerate(readers, 1):
        reader.subscribe(number, "t", shared="s", credit=1, policy=SlowPolicy.DROP_NEWEST)
    publish(driver, publisher)
    driver.tick()
    counts = [reader.dropped[number, "newest"] for number, reader in enumerate(readers, 1)]
    assert counts[0] == counts[1] > 10


def test_a_reader_that_takes_nothing_gets_no_notices_until_it_does() -> None:
    driver = small(output_bytes_max=1_000)
    publisher, reader = driver.connect(), driver.connect()
    reader.subscribe(7, "t", ack=AckMode.CLIENT, credit=2, policy=SlowPolicy.DROP_NEWEST)
    publish(driver, publisher)
    before = driver.plane.output_bytes(reader.number)
    driver.tick()
    assert driver.plane.output_bytes(reader.number) == before > 1_000
    assert len(reader.receive()) == 2
    driver.tick()
    assert reader.dropped[7, "newest"] > 10


def test_who_has_unsubscribed_is_not_told() -> None:
    for ack in MODES:
        driver = small()
        publisher, reader = driver.connect(), driver.connect()
        reader.subscribe(7, "t", ack=ack, credit=1, policy=SlowPolicy.DROP_NEWEST)
        publish(driver, publisher)
        reader.ask(Unsubscribe(reader.next_receipt(), 7))
        driver.tick()
        assert not reader.dropped


def test_a_client_that_is_being_closed_is_not_told() -> None:
    driver = small()
    publisher, reader = driver.connect(), driver.connect()
    reader.subscribe(7, "t", credit=1, policy=SlowPolicy.DROP_NEWEST)
    publish(driver, publisher)
    driver.plane.check_stalls(driver.now_ms)
    driver.step(inputs.EndClient(reader.number, "E_BYE", "bye"))
    driver.turn()
    assert not reader.dropped


def test_filters_that_cost_too_much_are_told() -> None:
    driver = NodeDriver()
    publisher, reader = driver.connect(), driver.connect()
    dear = f"a LIKE '%{'a_' * 2000}_b_b%'"
    reader.subscribe(1, "t", selector=dear)
    reader.subscribe(2, "t", selector=dear, ack=AckMode.CLIENT)
    for _ in range(2):
        publisher.publish(driver.message("t", b"", {"a": "a" * 1_000_000}, persistent=False))
    driver.tick()
    driver.tick()
    assert reader.dropped == {(1, "cost"): 2, (2, "cost"): 2}
    assert driver.node.mailbox_service.overflow.dropped["cost"] == 2
    assert driver.plane.stats()["dropped_cost"] == 2


@pytest.mark.parametrize("seed", range(15))
def test_whatever_happens_the_sum_is_right(seed: int) -> None:
    rng = Random(seed)
    driver = small(output_bytes_max=2_000)
    publisher, reader = driver.connect(), driver.connect()
    policies = [SlowPolicy.DROP_OLDEST, SlowPolicy.DROP_NEWEST]
    for number in range(1, 5):
        reader.subscribe(number, "t", ack=rng.choice(MODES), credit=1, policy=rng.choice(policies))
    got: dict[int, int] = dict.fromkeys(range(1, 5), 0)
    published = 0
    for _ in range(60):
        match rng.randrange(4):
            case 0:
                reader.ask(Credit(rng.randint(1, 4), rng.randint(1, 5)))
            case 1:
                driver.tick(250)
            case 2:
                for one in reader.receive():
                    got[one.subscription] += 1
                    reader.ack(one)
            case _:
                publish(driver, publisher, some := rng.randint(1, 8))
                published += some
    for number in got:
        reader.ask(Credit(number, 10_000))
    for _ in range(5):
        driver.tick()
        for one in reader.receive():
            got[one.subscription] += 1
            reader.ack(one)
    assert all(count > 0 for count in reader.dropped.values())
    for number, count in got.items():
        assert count + sum(lost for (one, _), lost in reader.dropped.items() if one == number) == published
