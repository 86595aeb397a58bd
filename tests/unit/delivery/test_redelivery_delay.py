"""Messages that are tried again rest as long as their policy says, and one consumer is served where one is to be."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hardening.support.node_driver import DrivenClient, Got, NodeDriver
from hypothesis import given
from hypothesis import strategies as st

from tidings.delivery.policy import QueuePolicy
from tidings.delivery.redelivery_delay import Backoff, RedeliveryTimes
from tidings.errors import TidingsError
from tidings.model.destination import DestinationPattern
from tidings.node import inputs
from tidings.node.limits import BrokerLimits
from tidings.node.requests import AckMode, Failed, Move, Purge, Verdict
from tidings.node.settings import NodeSettings

QUEUE = "queue:q.a"
ALL = DestinationPattern.parse("queue:q.>")


def driver_of(backoff: Backoff | None = None, **options: Any) -> NodeDriver:
    policy = QueuePolicy(ALL, backoff=backoff or Backoff(), **options)
    return NodeDriver(settings=replace(NodeSettings(), deliveries_max=1000, policies=(policy,)))


def consumer(driver: NodeDriver, queue: str = QUEUE, **options: Any) -> DrivenClient:
    client = driver.connect()
    client.subscribe(1, queue, ack=AckMode.CLIENT, credit=100, **options)
    return client


def publish(driver: NodeDriver, *bodies: bytes, **options: Any) -> None:
    writer = driver.connect()
    for body in bodies:
        writer.publish(driver.message(QUEUE, body, **options))


@given(
    st.builds(
        Backoff,
        st.integers(0, 10_000),
        st.floats(1, 50),
        st.integers(0, 1 << 20),
        st.floats(0, 1),
    ),
    st.integers(1, 1_000),
    st.integers(1, 1 << 62),
)
def test_a_delay_is_within_what_the_policy_says(backoff: Backoff, tried: int, seq: int) -> None:
    exact = float(backoff.first_ms)
    for _ in range(tried - 1):
        exact = min(exact * backoff.factor, float(1 << 42))
    if backoff.most_ms:
        exact = min(exact, backoff.most_ms)
    found = backoff.delay_ms(tried, seq)
    assert found == backoff.delay_ms(tried, seq)
    assert exact * (1 - backoff.jitter) * (1 - 1e-9) - 1 <= found <= exact * (1 + 1e-9) + 1
    assert backoff.least_ms(tried) <= found + 1


def test_delays_with_jitter_differ() -> None:
    assert len({Backoff(10_000, jitter=1.0).delay_ms(1, seq) for seq in range(100)}) > 90


@pytest.mark.parametrize("how", ["rejected", "rolled back", "left"])
def test_it_comes_again_after_the_delay_and_each_time_later(how: str) -> None:
    driver = driver_of(Backoff(1_000, 2.0, 3_000))
    publish(driver, b"a")
    client, came = consumer(driver), []
    arrived = client.receive()
    for _ in range(4):
        (got,) = arrived
        since = driver.now_ms
        match how:
            case "rejected":
                client.ack(got, verdict=Verdict.RETRY)
            case "rolled back":
                client.begin(5)
                client.ack(got, session=5)
                client.rollback(5)
            case _:
                client.leave()
                client = consumer(driver)
        while not (arrived := client.receive()):
            driver.tick(100)
        came.append(driver.now_ms - since)
    assert came == [1_000, 2_000, 3_000, 3_000]


def test_what_is_behind_overtakes_and_it_comes_back_to_its_place() -> None:
    driver = driver_of(Backoff(1_000))
    publish(driver, b"1", b"2")
    client = driver.connect()
    client.subscribe(1, QUEUE, ack=AckMode.CLIENT, credit=1, window=True)
    (first,) = client.receive()
    client.ack(first, verdict=Verdict.RETRY)
    (second,) = client.receive()
    publish(driver, b"3")
    driver.tick(2_000)
    client.ack(second)
    assert (first.body, second.body, *client.bodies()) == (b"1", b"2", b"1")


def test_a_restart_begins_the_delay_again() -> None:
    driver = driver_of(Backoff(5_000))
    publish(driver, b"a")
    client = consumer(driver)
    client.ack(*client.receive(), verdict=Verdict.RETRY)
    driver.tick(1_000)  # that it was tried is on disk
    driver.crash()
    client = consumer(driver)
    driver.tick(4_900)
    assert client.bodies() == []
    driver.tick(200)
    (got,) = client.receive()
    assert (got.body, got.attempt) == (b"a", 2)


def test_while_it_rests_it_can_be_shown_moved_and_purged_and_expires() -> None:
    driver = driver_of(Backoff(60_000))
    publish(driver, b"moved", b"purged")
    publish(driver, b"late", expiration_ms=driver.now_ms + 2_000)
    client = consumer(driver)
    client.ack(*client.receive(), verdict=Verdict.RETRY)
    mailbox = driver.engine.view.mailboxes[QUEUE]
    assert (len(mailbox.backlog), len(mailbox.resting)) == (3, 3)
    first = next(iter(mailbox.backlog.scan())).seq
    client.ask(Move(client.next_receipt(), QUEUE, "queue:other", (first,)))
    driver.tick(3_000)
    assert (len(mailbox.backlog), len(mailbox.resting)) == (1, 1)
    client.ask(Purge(client.next_receipt(), QUEUE))
    assert (mailbox.messages, len(mailbox.resting)) == (0, 0)
    assert consumer(driver, "queue:other").bodies() == [b"moved"]


def test_another_policy_lets_go_what_rests() -> None:
    driver = driver_of(Backoff(60_000))
    publish(driver, b"a")
    client = consumer(driver)
    client.ack(*client.receive(), verdict=Verdict.RETRY)
    driver.step(inputs.Reconfigured(BrokerLimits(), True, ()))
    assert client.bodies() == [b"a"]


def test_released_messages_do_not_rest() -> None:
    driver = driver_of(Backoff(60_000))
    publish(driver, b"a")
    client = consumer(driver)
    client.ack(*client.receive(), verdict=Verdict.RELEASE)
    assert client.bodies() == [b"a"]


@pytest.mark.parametrize("seed", range(30))
def test_random_consumers_never_get_anything_too_soon_and_get_all(seed: int) -> None:
    rng = Random(seed)
    backoff = Backoff(rng.choice((300, 2_000)), rng.choice((1.0, 3.0)), 5_000, rng.choice((0.0, 0.7)))
    driver = driver_of(backoff, single_active=rng.random() < 0.5)
    publish(driver, *[b"%d" % number for number in range(20)])
    clients = [consumer(driver) for _ in range(3)]
    tries: dict[bytes, tuple[int, int]] = {}  # times and the last one
    held: list[tuple[DrivenClient, Got]] = []
    done: set[bytes] = set()
    for _ in range(60):
        for client in clients:
            for one in client.receive():
                number, at = tries.get(one.body, (0, 0))
                assert one.body not in done
                assert not number or driver.now_ms - at >= backoff.least_ms(number) - 1
                held.append((client, one))
        rng.shuffle(held)
        for client, one in [held.pop() for _ in range(rng.randint(0, len(held)))]:
            if rng.random() < 0.5:
                client.ack(one)
                done.add(one.body)
            else:
                tries[one.body] = tries.get(one.body, (0, 0))[0] + 1, driver.now_ms
                client.ack(one, verdict=Verdict.RETRY)
        driver.tick(rng.choice((10, 200, 1_000)))
    for _ in range(40):
        for client in clients:
            held += [(client, one) for one in client.receive()]
        for client, one in held:
            client.ack(one)
            done.add(one.body)
        held.clear()
        driver.tick(1_000)
    assert len(done) == 20
    assert driver.engine.view.mailboxes[QUEUE].messages == 0


def test_times_of_mailboxes() -> None:
    times = RedeliveryTimes[str]()
    times.note("a", 50)
    times.note("b", 70)
    times.note("c", 60)
    times.note("c", None)
    assert (times.due(49), times.due(50), times.earliest_ms) == ([], ["a"], 70)
    assert times.due(100) == ["b"]


# --- one consumer ---------------------------------------------------------------------------------------------------


def test_of_a_single_active_queue_the_next_consumer_takes_over() -> None:
    driver = driver_of(single_active=True)
    first, second = consumer(driver), consumer(driver)
    publish(driver, b"1", b"2")
    assert (first.bodies(), second.bodies()) == ([b"1", b"2"], [])
    first.leave()
    assert second.bodies() == [b"1", b"2"]
    publish(driver, b"3")
    assert second.bodies() == [b"3"]


def test_an_exclusive_consumer_is_served_alone_while_it_is_there() -> None:
    driver = driver_of()
    plain, exclusive = consumer(driver), consumer(driver, exclusive=True)
    publish(driver, b"1", b"2")
    assert (plain.bodies(), exclusive.bodies()) == ([], [b"1", b"2"])
    exclusive.leave()
    assert plain.bodies() == [b"1", b"2"]


def test_groups_follow_the_consumer_that_is_served() -> None:
    driver = driver_of()
    plain = consumer(driver)
    publish(driver, b"1", properties={"JMSXGroupID": "g"})
    assert plain.bodies() == [b"1"]
    exclusive = consumer(driver, exclusive=True)
    publish(driver, b"2", properties={"JMSXGroupID": "g"})
    assert exclusive.bodies() == [b"2"]


def test_a_policy_that_is_taken_back_serves_all() -> None:
    driver = driver_of(single_active=True)
    first, second = driver.connect(), consumer(driver)
    second.leave()
    first.subscribe(1, QUEUE, ack=AckMode.CLIENT, credit=1)
    second = consumer(driver)
    publish(driver, b"1", b"2")
    assert (first.bodies(), second.bodies()) == ([b"1"], [])
    driver.step(inputs.Reconfigured(BrokerLimits(), True, ()))
    assert second.bodies() == [b"2"]


@pytest.mark.parametrize("options", [{}, {"durable": "d"}])
def test_exclusive_is_for_what_several_may_consume(options: dict[str, str]) -> None:
    client = NodeDriver().connect()
    answer = client.answer(client.subscribe(1, "topic", exclusive=True, **options))
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, TidingsError)
    assert answer.error.code == "E_EXCLUSIVE"


def test_of_a_shared_subscription_one_may_be_exclusive() -> None:
    driver = NodeDriver()
    plain, exclusive = driver.connect(), driver.connect()
    plain.subscribe(1, "topic", shared="s", credit=10)
    exclusive.subscribe(1, "topic", shared="s", credit=10, exclusive=True)
    writer = driver.connect()
    for body in (b"1", b"2"):
        writer.publish(driver.message("topic", body))
    assert (plain.bodies(), exclusive.bodies()) == ([], [b"1", b"2"])
