"""Queues of the network in the simulator: random runs, seeded defects, and cases one at a time."""

import pytest
from hardening.simulate.planting import Mutant, first_noticed
from hardening.simulate.queue_mutants import QUEUE_MUTANTS
from hardening.simulate.queues import policies_of_world
from hardening.simulate.run import run
from hardening.simulate.scenario import LINK

from tidings.node.network.settings import NetworkSettings
from tidings.node.network_queues.network_queues import NetworkQueues
from tidings.node.requests import Ack, AckMode, Begin, Browse, Commit, Drain, Request, Subscribe, Sync, Verdict
from tidings.node.settings import NodeSettings
from tidings.overlay.topology.graph import Graph
from tidings.sim.broker import SimBroker, Sizes
from tidings.sim.brokers import Brokers
from tidings.sim.client import SimClient
from tidings.sim.faults import Crash, CutLink, HealLink, Restart, inflict

QUEUE = "queue:work"


def test_random_runs() -> None:
    outcomes = [run(seed, world="queues") for seed in range(1, 9)]
    assert sum(one.deliveries for one in outcomes) > 500


@pytest.mark.parametrize("mutant", QUEUE_MUTANTS, ids=lambda one: one.name)
def test_seeded_defects_are_noticed(mutant: Mutant) -> None:
    notice = first_noticed(mutant, range(mutant.seed, mutant.seed + 5))
    assert notice is not None
    assert notice.checker != "internal error"


class Line:
    """Three brokers in a line; their queues are the network's."""

    def __init__(self, *, home: int = 0) -> None:
        graph = Graph()
        for router in (1, 2):
            graph.add(router, router + 1, 5.0)
        settings = {
            router: NetworkSettings(router, dials=((str(router + 1), router + 1),) if router < 3 else (), link=LINK)
            for router in (1, 2, 3)
        }
        sizes = Sizes(settings=NodeSettings(policies=policies_of_world(home)))
        self.brokers = Brokers(graph, settings, 1, sizes=dict.fromkeys(settings, sizes))
        self.wait(3000)

    def wait(self, ms: float) -> None:
        self.brokers.calendar.run(until=self.brokers.calendar.now + ms)

    def inflict(self, *faults: Crash | Restart | CutLink | HealLink) -> None:
        for fault in faults:
            inflict(self.brokers.driver, fault)

    def client(self, router: int, *requests: Request, credit: int = 10, selector: str = "") -> SimClient:
        """A consumer of the queue, which has asked for more then."""
        found: list[SimClient] = []

        def act(machine: SimBroker, now: float) -> list[object]:
            found.append(machine.connect(now))
            subscribe = Subscribe(1, 1, QUEUE, selector, ack=AckMode.CLIENT, credit=credit)
            return machine.request(now, found[0], subscribe)

        self.brokers.driver.call(str(router), act)
        for request in requests:
            self.ask(router, found[0], request)
        return found[0]

    def ask(self, router: int, client: SimClient, request: Request) -> None:
        self.brokers.driver.call(str(router), lambda machine, now: machine.request(now, client, request))

    def publish(self, router: int, *values: int) -> None:
        for x in values:
            assert self.brokers.publish(router, {"x": x}, persistent=True, queue="work") is not None

    def queues(self, router: int) -> NetworkQueues:
        broker = self.brokers.broker(router)
        assert broker is not None
        queues = broker.engine.node.network_queues
        assert queues is not None
        return queues

    def described(self, router: int) -> dict[str, object]:
        broker = self.brokers.broker(router)
        assert broker is not None
        return broker.engine.view.home_of(broker.engine.view.mailboxes[QUEUE])

    def waiting(self, router: int) -> int:
        broker = self.brokers.broker(router)
        assert broker is not None
        mailbox = broker.engine.node.mailbox_service.mailboxes.by_name.get(QUEUE)
        return 0 if mailbox is None else mailbox.messages


def test_the_broker_that_uses_a_queue_first_is_its_home_and_consumers_everywhere_share_it() -> None:
    line = Line()
    near = line.client(2)
    line.wait(1000)
    far = line.client(3)
    line.publish(1, *range(8))
    line.wait(1000)
    assert [line.queues(router).home(QUEUE) for router in (1, 2, 3)] == [2, 2, 2]
    assert len(near.deliveries) == len(far.deliveries) == 4
    assert line.described(2) == {"home": 2, "remote_consumers": {"3": 1}}
    assert line.described(1) == {"home": 2, "remote_consumers": {}, "consumers": 0}
    assert [one.attempt for one in far.deliveries] == [1] * 4


def test_a_configured_home_keeps_what_enters_elsewhere_while_it_is_down() -> None:
    line = Line(home=3)
    line.inflict(Crash(3))
    line.wait(4000)
    line.publish(1, *range(5))
    line.wait(2000)
    assert line.waiting(1) == 5
    assert all(one.accepted for one in line.brokers.publications)
    line.inflict(Restart(3))
    line.wait(5000)
    assert (line.waiting(1), line.waiting(3)) == (0, 5)


def test_a_selector_and_credit_hold_at_the_home() -> None:
    line = Line(home=1)
    line.wait(500)
    few = line.client(3, credit=2, selector="x >= 4")
    line.publish(2, *range(8))
    line.wait(1000)
    assert len(few.deliveries) == 2
    assert line.waiting(1) == 8


def test_an_acknowledgement_is_confirmed_by_the_disk_of_the_home() -> None:
    line = Line(home=1)
    far = line.client(3)
    line.publish(3, 1, 2)
    line.wait(1000)
    line.inflict(CutLink(1, 2))
    line.ask(3, far, Ack(1, (1, 2)))
    line.ask(3, far, Sync(5))
    line.wait(1000)
    assert 5 not in far.done
    line.inflict(HealLink(1, 2))
    line.wait(6000)
    assert 5 in far.done
    assert line.waiting(1) == 0


def test_what_a_lost_broker_had_comes_again_marked() -> None:
    line = Line(home=1)
    line.client(3)
    line.publish(2, *range(4))
    line.wait(1000)
    line.inflict(Crash(3))
    near = line.client(1)
    line.wait(14_000)
    assert [one.attempt > 1 for one in near.deliveries] == [True] * 4


def test_a_drained_consumer_has_all_that_the_home_had() -> None:
    line = Line(home=1)
    line.publish(2, *range(3))
    line.wait(1000)
    far = line.client(3, Drain(9, 1))
    line.wait(1000)
    assert len(far.deliveries) == 3
    assert 9 in far.done


def test_a_group_goes_to_one_consumer_wherever_it_is() -> None:
    line = Line(home=1)
    consumers = [line.client(router) for router in (1, 2, 3)]
    line.wait(1000)
    for x in range(6):
        assert line.brokers.publish(3, {"x": x, "JMSXGroupID": "g"}, persistent=True, queue="work") is not None
        line.wait(200)
    assert sorted(len(one.deliveries) for one in consumers) == [0, 0, 6]


def test_rejected_elsewhere_becomes_a_dead_letter_of_the_home() -> None:
    line = Line(home=1)
    far = line.client(3)
    line.publish(3, 1, 2)
    line.wait(1000)
    line.ask(3, far, Ack(1, (1,), verdict=Verdict.DEAD))
    line.ask(3, far, Ack(1, (2,), verdict=Verdict.RETRY))
    line.wait(1000)
    assert [one.attempt for one in far.deliveries] == [1, 1, 2]
    broker = line.brokers.broker(1)
    assert broker is not None
    assert broker.engine.node.mailbox_service.mailboxes.by_name["queue:dead-letters"].messages == 1


def test_a_transaction_takes_and_sends_at_another_broker_than_the_home() -> None:
    line = Line(home=1)
    far = line.client(3)
    line.publish(2, 1)
    line.wait(1000)
    for request in (Begin(5, 7), Ack(1, (1,), session=7), Commit(6, 7)):
        line.ask(3, far, request)
    line.wait(1000)
    assert {5, 6} <= far.done
    assert line.waiting(1) == 0


def test_a_transaction_whose_home_was_lost_is_rolled_back() -> None:
    line = Line(home=1)
    far = line.client(3)
    line.publish(2, 1)
    line.wait(1000)
    for request in (Begin(5, 7), Ack(1, (1,), session=7)):
        line.ask(3, far, request)
    line.inflict(Crash(1))
    line.wait(1000)
    line.inflict(Restart(1))
    line.wait(9000)
    line.ask(3, far, Commit(6, 7))
    line.wait(1000)
    assert [one.error.code for one in far.failures] == ["E_QUEUE_HOME_LOST"]
    assert [one.attempt > 1 for one in far.deliveries] == [False, True]


def test_two_homes_become_one() -> None:
    line = Line()
    line.inflict(CutLink(1, 2))
    line.wait(4000)
    line.publish(1, 1, 2, 3)
    line.publish(3, 4, 5, 6)
    apart = line.client(3, credit=1)
    line.wait(1000)
    assert len(apart.deliveries) == 1
    line.inflict(HealLink(1, 2))
    line.wait(8000)
    assert [line.queues(router).home(QUEUE) for router in (1, 2, 3)] == [1, 1, 1]
    assert [line.waiting(router) for router in (1, 2, 3)] == [6, 0, 0]
    all_of_it = line.client(1, credit=20)
    line.wait(1000)
    assert [one.attempt > 1 for one in all_of_it.deliveries].count(True) == 1


def test_what_only_the_home_can_do_is_refused_and_names_it() -> None:
    line = Line(home=2)
    far = line.client(3, Browse(7, 2, QUEUE))
    line.wait(500)
    (failure,) = far.failures
    assert failure.error.code == "E_QUEUE_ELSEWHERE"
    assert "broker 2" in failure.error.reason
