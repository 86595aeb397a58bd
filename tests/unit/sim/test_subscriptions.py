"""Durable and shared subscriptions of the network in the simulator: random runs, seeded defects, and cases one at a
time."""

import pytest
from hardening.simulate.planting import Mutant, first_noticed
from hardening.simulate.run import run
from hardening.simulate.scenario import LINK
from hardening.simulate.subscription_mutants import SUBSCRIPTION_MUTANTS

from tidings.delivery.mailbox import Mailbox
from tidings.delivery.policy import QueueScope
from tidings.node.clients.subscription_plan import durable_name
from tidings.node.network.settings import NetworkSettings
from tidings.node.node import Node
from tidings.node.requests import Ack, AckMode, Forget, Request, Subscribe, SubscribeWait, Sync
from tidings.node.settings import NodeSettings
from tidings.overlay.topology.graph import Graph
from tidings.sim.broker import SimBroker, Sizes
from tidings.sim.brokers import TOPIC, Brokers
from tidings.sim.client import SimClient
from tidings.sim.faults import Crash, CutLink, HealLink, Restart, inflict

GROUP, AUDIT = "shared:team", durable_name("alice", "audit")


def test_random_runs() -> None:
    outcomes = [run(seed, world="subscriptions") for seed in range(1, 9)]
    assert sum(one.deliveries for one in outcomes) > 500


@pytest.mark.parametrize("mutant", SUBSCRIPTION_MUTANTS, ids=lambda one: one.name)
def test_seeded_defects_are_noticed(mutant: Mutant) -> None:
    notice = first_noticed(mutant, range(mutant.seed, mutant.seed + 5))
    assert notice is not None
    assert notice.checker != "internal error"


class Line:
    """Three brokers in a line; their subscriptions are the network's."""

    def __init__(self) -> None:
        graph = Graph()
        for router in (1, 2):
            graph.add(router, router + 1, 5.0)
        settings = {
            router: NetworkSettings(router, dials=((str(router + 1), router + 1),) if router < 3 else (), link=LINK)
            for router in (1, 2, 3)
        }
        sizes = Sizes(settings=NodeSettings(subscription_scope=QueueScope.NETWORK))
        self.brokers = Brokers(graph, settings, 1, sizes=dict.fromkeys(settings, sizes))
        self.wait(3000)

    def wait(self, ms: float) -> None:
        self.brokers.calendar.run(until=self.brokers.calendar.now + ms)

    def inflict(self, *faults: Crash | Restart | CutLink | HealLink) -> None:
        for fault in faults:
            inflict(self.brokers.driver, fault)

    def audit(self, router: int, *, wait: SubscribeWait = SubscribeWait.BROKER) -> SimClient:
        """The durable subscription of one client."""
        return self.client(router, Subscribe(1, 1, TOPIC, "", AckMode.CLIENT, durable="audit", credit=10, wait=wait))

    def member(self, router: int, *, selector: str = "", exclusive: bool = False) -> SimClient:
        subscribe = Subscribe(1, 1, TOPIC, selector, AckMode.CLIENT, shared="team", credit=10, exclusive=exclusive)
        return self.client(router, subscribe)

    def client(self, router: int, *requests: Request) -> SimClient:
        found: list[SimClient] = []

        def act(machine: SimBroker, now: float) -> list[object]:
            found.append(machine.connect(now, "alice"))
            return machine.request(now, found[0], requests[0])

        self.brokers.driver.call(str(router), act)
        for request in requests[1:]:
            self.ask(router, found[0], request)
        return found[0]

    def ask(self, router: int, client: SimClient, request: Request) -> None:
        self.brokers.driver.call(str(router), lambda machine, now: machine.request(now, client, request))

    def leave(self, router: int, client: SimClient) -> None:
        self.brokers.driver.call(str(router), lambda machine, now: machine.disconnect(now, client))

    def publish(self, router: int, *values: int) -> None:
        for x in values:
            assert self.brokers.publish(router, {"x": x}, persistent=True) is not None

    def mailbox(self, router: int, name: str) -> Mailbox | None:
        return self.node(router).mailbox_service.mailboxes.by_name.get(name)

    def home(self, router: int, name: str) -> int | None:
        queues = self.node(router).network_queues
        assert queues is not None
        return queues.home(name)

    def node(self, router: int) -> Node:
        broker = self.brokers.broker(router)
        assert broker is not None
        return broker.engine.node


def codes(client: SimClient) -> list[str]:
    return [one.error.code for one in client.failures]


def test_a_durable_subscription_is_found_at_every_broker() -> None:
    line = Line()
    near = line.audit(1)
    line.wait(1000)
    line.leave(1, near)
    line.publish(2, *range(5))
    line.wait(1000)
    moved = line.audit(3)
    line.wait(1000)
    assert [one.attempt for one in moved.deliveries] == [1] * 5
    assert 1 in moved.done
    line.publish(1, 5, 6)
    line.wait(500)
    assert len(moved.deliveries) == 7
    assert [line.home(router, AUDIT) for router in (1, 2, 3)] == [1, 1, 1]
    assert [line.mailbox(router, AUDIT) is not None for router in (1, 2, 3)] == [True, False, False]


def test_what_was_acknowledged_elsewhere_is_done_at_the_home() -> None:
    line = Line()
    line.leave(1, line.audit(1))
    line.wait(1000)
    line.publish(2, 1, 2, 3)
    line.wait(1000)
    moved = line.audit(3)
    line.wait(1000)
    for request in (Ack(1, (1, 2)), Sync(9)):
        line.ask(3, moved, request)
    line.wait(500)
    assert 9 in moved.done
    line.inflict(Crash(1), Restart(1))
    line.leave(3, moved)
    line.wait(8000)
    last = line.audit(2)
    line.wait(1000)
    assert [one.attempt > 1 for one in last.deliveries] == [True]


def test_a_durable_subscription_has_one_subscriber_in_the_network() -> None:
    line = Line()
    line.audit(1)
    line.wait(500)
    other = line.audit(3)
    line.wait(5000)
    assert codes(other) == ["E_DURABLE_BUSY"]


def test_a_subscriber_that_moves_at_once_waits_for_its_earlier_connection() -> None:
    line = Line()
    line.leave(1, line.audit(1))
    line.wait(500)
    before = line.audit(2)
    line.wait(500)
    after = line.audit(3)
    line.wait(500)
    line.leave(2, before)
    line.wait(2000)
    assert (codes(after), 1 in after.done) == ([], True)


def test_members_of_a_group_share_messages_wherever_they_are() -> None:
    line = Line()
    members = [line.member(1)]
    line.wait(500)
    members += [line.member(2), line.member(3)]
    line.wait(500)
    line.publish(2, *range(9))
    line.wait(1000)
    assert [len(one.deliveries) for one in members] == [3, 3, 3]


def test_a_member_that_wants_something_else_is_refused() -> None:
    line = Line()
    line.member(1)
    line.wait(500)
    other = line.member(3, selector="x > 3")
    line.wait(500)
    assert codes(other) == ["E_SHARED_DIFFERS"]


def test_an_exclusive_member_elsewhere_gets_everything() -> None:
    line = Line()
    near = line.member(1)
    line.wait(500)
    only = line.member(3, exclusive=True)
    line.wait(500)
    line.publish(2, *range(6))
    line.wait(1000)
    assert (len(near.deliveries), len(only.deliveries)) == (0, 6)


def test_a_group_ends_with_its_last_member() -> None:
    line = Line()
    near = line.member(1)
    line.wait(500)
    far = line.member(3)
    line.wait(500)
    line.leave(1, near)
    line.publish(2, 1)
    line.wait(500)
    assert len(far.deliveries) == 1
    line.leave(3, far)
    line.wait(1000)
    assert line.mailbox(1, GROUP) is None
    assert [line.home(router, GROUP) for router in (1, 2, 3)] == [None] * 3


def test_a_subscription_is_deleted_from_elsewhere() -> None:
    line = Line()
    line.leave(1, line.audit(1))
    line.wait(500)
    far = line.client(3, Forget(5, "audit", look=True), Forget(6, "audit"), Forget(7, "audit"))
    line.wait(1500)
    assert {5, 6} <= far.done
    assert codes(far) == ["E_DURABLE_UNKNOWN"]
    assert line.mailbox(1, AUDIT) is None


def test_a_subscriber_whose_home_is_away_is_refused_in_time() -> None:
    line = Line()
    line.leave(1, line.audit(1))
    line.wait(1000)
    line.inflict(Crash(1))
    line.wait(4000)
    far = line.audit(3)
    line.wait(12_000)
    assert codes(far) == ["E_HOME_AWAY"]


def test_a_subscription_is_in_force_everywhere_when_its_home_says_so() -> None:
    line = Line()
    line.leave(1, line.audit(1))
    line.wait(1000)
    far = line.audit(3, wait=SubscribeWait.NETWORK)
    line.wait(2000)
    assert 1 in far.done


def test_subscriptions_that_were_made_apart_become_one() -> None:
    line = Line()
    line.inflict(CutLink(1, 2))
    line.wait(4000)
    line.leave(1, line.audit(1))
    line.leave(3, line.audit(3))
    line.wait(1000)
    line.publish(1, 1, 2, 3)
    line.publish(2, 4, 5, 6)
    line.wait(1000)
    line.inflict(HealLink(1, 2))
    line.wait(8000)
    assert [line.home(router, AUDIT) for router in (1, 2, 3)] == [1, 1, 1]
    kept = line.mailbox(3, AUDIT)
    assert kept is not None
    assert kept.messages == 0
    line.publish(3, 7)
    line.wait(1000)
    assert kept.messages == 0
    last = line.audit(2)
    line.wait(1000)
    assert [one.attempt > 1 for one in last.deliveries] == [False] * 3 + [True] * 3 + [False]
    line.leave(2, last)
    line.ask(2, line.client(2, Forget(5, "audit")), Sync(6))
    line.wait(13_000)
    assert line.mailbox(3, AUDIT) is None
    assert line.mailbox(1, AUDIT) is None


def test_a_former_home_passes_on_what_comes_late_also_after_a_restart() -> None:
    line = Line()
    line.inflict(CutLink(1, 2))
    line.wait(4000)
    line.leave(1, line.audit(1))
    line.leave(3, line.audit(3))
    line.wait(1500)
    line.inflict(CutLink(2, 3))
    line.publish(2, 4, 5, 6)  # for broker 3 alone, the only home it knows
    line.wait(500)
    line.inflict(Crash(2), HealLink(1, 2), HealLink(2, 3), Crash(3), Restart(3), Restart(2))
    line.wait(9000)
    last = line.audit(1)
    line.wait(1000)
    assert len(last.deliveries) == 3
