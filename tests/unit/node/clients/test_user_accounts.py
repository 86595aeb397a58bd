"""Quotas of users: what they may send, have and keep, and that nothing is lost of what must wait."""

from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.broker.security.guard import Anybody
from tidings.delivery.policy import QueuePolicy
from tidings.errors import UsageError
from tidings.kernel.forwarder import Forwarder
from tidings.model.destination import DestinationPattern
from tidings.node import inputs
from tidings.node.clients.client_sessions import ClientOptions
from tidings.node.clients.user_accounts import Usage
from tidings.node.engine import Engine
from tidings.node.limits import BrokerLimits, UserQuota
from tidings.node.requests import AckMode, CreateQueue, DeleteQueue, Done, Failed, MakeTemporary
from tidings.node.settings import NodeSettings
from tidings.protocols.native.frames import encode_publish

ALICE, BOB = Anybody("alice"), Anybody("bob")


class ClosedDriver(NodeDriver):
    """A broker with users."""

    def make_engine(self) -> Engine:
        return Engine(self.plane, self.settings, ClientOptions(count(1), open=False))

    def usage(self, user: str = "alice") -> Usage:
        (found,) = [one for one in self.engine.view.usage() if one.user == user]
        return found

    def fill(self, ms: int) -> None:
        """Time passes."""
        self.now_ms += ms
        self.step(inputs.TrackingTick())
        for number in self.plane.take_resumable():
            self.plane.resume(number, self.now_ms)
        self.turn()


def driver_of(*quotas: UserQuota, **settings: Any) -> ClosedDriver:
    return ClosedDriver(settings=replace(NodeSettings(), quotas=quotas, **settings))


def code(client: DrivenClient, receipt: int) -> str:
    answer = client.answer(receipt)
    assert isinstance(answer, Failed | Done), answer
    return answer.error.code if isinstance(answer, Failed) else ""


def send(driver: NodeDriver, client: DrivenClient, number: int, size: int = 10) -> None:
    """All in one read."""
    frames = b"".join(encode_publish(0, driver.message("t", bytes(size)), 0, 0) for _ in range(number))
    driver.plane.feed_bytes(client.number, frames, driver.now_ms)
    driver.turn()


def test_messages_beyond_the_rate_wait_for_their_time() -> None:
    driver = driver_of(UserQuota("alice", messages_per_second=10))
    reader, alice, again, bob = (driver.connect(principal=one) for one in (BOB, ALICE, ALICE, BOB))
    reader.subscribe(1, "t")
    send(driver, bob, 100)
    assert len(reader.receive()) == 100, "others are not limited"
    send(driver, alice, 25)
    send(driver, again, 5)
    assert len(reader.receive()) == 11, "what one second brings, and one on credit of the other connection"
    came = []
    for _ in range(10):
        driver.fill(250)
        came.append(len(reader.receive()))
    assert sum(came) == 19, "nothing is lost"
    assert max(came) <= 3
    assert (driver.usage().messages, driver.usage().connections) == (30, 2)
    assert driver.usage().waits >= 2


def test_bytes_beyond_the_rate_are_paid_back() -> None:
    driver = driver_of(UserQuota(bytes_per_second=1_000))
    reader, alice = driver.connect(principal=BOB), driver.connect(principal=ALICE)
    reader.subscribe(1, "t")
    send(driver, alice, 2, size=5_000)
    assert len(reader.receive()) == 1
    driver.fill(3_000)
    assert len(reader.receive()) == 0
    driver.fill(1_500)
    assert len(reader.receive()) == 1


@pytest.mark.parametrize("seed", range(10))
def test_however_it_is_sent_no_more_than_the_rate_passes(seed: int) -> None:
    rng = Random(seed)
    rate, burst = rng.choice((0.5, 3, 40)), 1
    driver = driver_of(UserQuota(messages_per_second=rate))
    reader = driver.connect(principal=BOB)
    reader.subscribe(1, "t")
    clients, sent, got, seconds = [driver.connect(principal=ALICE) for _ in range(3)], 0, 0, 0.0
    for _ in range(100):
        number = rng.randint(0, 20)
        sent += number
        send(driver, rng.choice(clients), number)
        ms = rng.choice((0, 10, 250, 1_000))
        seconds += ms / 1000
        driver.fill(ms)
        got += len(reader.receive())
        assert got <= rate * (seconds + burst) + len(clients) + 1
    for _ in range(100_000):
        if got == sent:
            break
        driver.fill(1_000)
        got += len(reader.receive())
    assert got == sent


def test_another_quota_holds_at_once_and_none_lets_all_go() -> None:
    driver = driver_of(UserQuota(messages_per_second=1))
    reader, alice = driver.connect(principal=BOB), driver.connect(principal=ALICE)
    reader.subscribe(1, "t")
    send(driver, alice, 50)
    assert len(reader.receive()) == 1
    driver.step(inputs.Reconfigured(BrokerLimits(), False, (), (UserQuota(messages_per_second=20),)))
    driver.fill(0)
    assert len(reader.receive()) == 20
    driver.step(inputs.Reconfigured(BrokerLimits(), False, (), ()))
    driver.fill(0)
    assert len(reader.receive()) == 29


def test_connections_by_user() -> None:
    driver = driver_of(UserQuota("alice", connections=2))
    clients = [driver.connect(principal=ALICE) for _ in range(3)]
    driver.connect(principal=BOB)
    assert driver.closed == [clients[2].number]


def test_queues_by_user_also_after_a_restart() -> None:
    driver = driver_of(UserQuota(queues=2))
    alice, bob = driver.connect(principal=ALICE), driver.connect(principal=BOB)
    alice.publish(driver.message("queue:a"))
    alice.subscribe(1, "queue:b", ack=AckMode.CLIENT)
    assert code(alice, alice.subscribe(2, "queue:c")) == "E_QUOTA_QUEUES"
    receipt = alice.publish(driver.message("queue:c"))
    assert alice.refused == {receipt: "E_QUOTA_QUEUES"}
    alice.ask(MakeTemporary(receipt := alice.next_receipt(), "queue:tmp.x"))
    assert code(alice, receipt) == "E_QUOTA_QUEUES"
    assert code(bob, bob.subscribe(1, "queue:c")) == ""
    driver.crash()
    alice = driver.connect(principal=ALICE)
    alice.ask(CreateQueue(receipt := alice.next_receipt(), "queue:d"))
    assert code(alice, receipt) == "E_QUOTA_QUEUES"
    alice.ask(DeleteQueue(receipt := alice.next_receipt(), "queue:b", force=True))
    assert code(alice, receipt) == ""
    alice.ask(CreateQueue(receipt := alice.next_receipt(), "queue:d"))
    assert code(alice, receipt) == ""
    assert driver.usage().queues == 2


@pytest.mark.parametrize("policy", [False, True])
def test_stored_bytes_by_owner_also_after_a_restart(policy: bool) -> None:
    size = len(NodeDriver().message("queue:a", b"x" * 100))
    policies = (QueuePolicy(DestinationPattern.parse("queue:>"), messages_max=100),) if policy else ()
    driver = driver_of(UserQuota("alice", stored_bytes=3 * size), policies=policies)
    alice, bob = driver.connect(principal=ALICE), driver.connect(principal=BOB)
    for queue in ("queue:a", "queue:b", "queue:a"):
        alice.publish(driver.message(queue, b"x" * 100))
    receipt = bob.publish(driver.message("queue:b", b"y"))
    assert bob.refused == {receipt: "E_QUOTA_BYTES"}, "it is alice's queue"
    bob.publish(driver.message("queue:c", b"y" * 10_000))
    assert len(bob.refused) == 1
    assert driver.usage().stored_bytes == 3 * size
    driver.crash()
    alice = driver.connect(principal=ALICE)
    assert driver.usage().stored_bytes == 3 * size
    alice.subscribe(1, "queue:a", ack=AckMode.CLIENT, credit=10)
    alice.ack(*alice.receive())
    assert driver.usage().stored_bytes == size
    alice.publish(driver.message("queue:b", b"x" * 100))
    assert not alice.refused


def test_the_plane_counts_what_its_connections_send() -> None:
    plane = Forwarder()
    plane.refill(1, 5, 5, 0, 0)
    assert plane.allowance_counts(1) == (0, 0, 0)
    plane.drop_allowance(1)
    with pytest.raises(UsageError, match="E_NO_ALLOWANCE"):
        plane.allowance_counts(1)
