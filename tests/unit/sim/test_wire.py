"""Clients that use the wire to the full, in the simulator; and the seeded defects that it must notice."""

from collections import Counter
from random import Random
from typing import Any, get_args

import pytest
from hardening.simulate.fault_plans import combined_faults
from hardening.simulate.mutants import MUTANTS
from hardening.simulate.planting import Mutant, first_noticed, planted
from hardening.simulate.run import run
from hardening.simulate.scenario import LINK
from hardening.simulate.wire import WireWorld

from tidings.kernel.events import CongestionChanged, PlaneEvent, PublishedToScheme
from tidings.node.effects import PersistNow
from tidings.node.engine import Engine
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.topology.generate import ring
from tidings.overlay.topology.graph import Graph
from tidings.sim.broker import SimBroker, Sizes
from tidings.sim.brokers import Brokers
from tidings.sim.faults import Crash, CutLink, Freeze, Restart, Thaw, inflict
from tidings.sim.stomp_client import StompClient, stomp_frame

GROUP = 10
QUICK = 20  # seeds in which each mutant is noticed; docs/networks.md has the first of them


@pytest.mark.parametrize("first", range(1, 61, GROUP))
def test_random_clients_are_served_as_promised(first: int) -> None:
    outcomes = [run(seed, world="wire") for seed in range(first, first + GROUP)]
    assert sum(one.deliveries for one in outcomes) > 200 * GROUP
    assert sum(one.transactions for one in outcomes) > 10


def test_everything_happens_that_the_plane_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[type] = Counter()
    event, carry_out, pauses = Engine._event, SimBroker._carry_out, Counter[str]()

    def noted(self: Engine, now: Any, one: Any) -> None:
        seen[type(one)] += 1
        event(self, now, one)

    def carried(self: SimBroker, now: float, effect: Any) -> None:
        seen[type(effect)] += 1
        carry_out(self, now, effect)
        if self.admission is not None:
            pauses.update(slowed=self.slowed, refused=self.admission.refused)

    monkeypatch.setattr(Engine, "_event", noted)
    monkeypatch.setattr(SimBroker, "_carry_out", carried)
    for seed in range(1, 21):
        WireWorld(seed).run()
    # Those of schemes that carry messages themselves, and of push-back between brokers (test_congestion).
    assert set(get_args(PlaneEvent)) - seen.keys() == {PublishedToScheme, CongestionChanged}
    assert seen[PersistNow] > 20
    assert pauses.keys() == {"slowed", "refused"}
    assert all(pauses.values())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_seeded_defects_are_noticed(mutant: Mutant) -> None:
    notice = first_noticed(mutant, range(mutant.seed, mutant.seed + QUICK))
    assert notice is not None
    assert notice.checker != "internal error"


def test_a_mutant_leaves_no_trace() -> None:
    for mutant in MUTANTS:
        before = mutant.owner.__dict__[mutant.method]
        with planted(mutant):
            assert mutant.owner.__dict__[mutant.method] is not before
        assert mutant.owner.__dict__[mutant.method] is before


def pair(sizes: Sizes | None = None) -> Brokers:
    graph = Graph()
    graph.add(1, 2, 5.0)
    settings = {
        1: NetworkSettings(1, dials=(("2", 2),), link=LINK, costs={2: 5}),
        2: NetworkSettings(2, link=LINK, costs={1: 5}),
    }
    return Brokers(graph, settings, seed=1, sizes=None if sizes is None else {1: sizes, 2: sizes})


def test_a_frozen_broker_takes_what_came_when_it_goes_on() -> None:
    brokers = pair()
    subscriber = brokers.subscribe(2, "x = 1")
    assert subscriber is not None
    brokers.calendar.run(until=3000)
    inflict(brokers.driver, Freeze(2))
    inflict(brokers.driver, Freeze(2))
    assert brokers.subscribe(2, "x = 2") is None
    assert brokers.publish(2, {"x": 1}) is None
    sent = [brokers.publish(1, {"x": 1}, persistent=persistent) for persistent in (False, True)]
    brokers.calendar.run(until=3500)
    brokers.collect()
    assert subscriber.order == []
    inflict(brokers.driver, Thaw(2))
    brokers.calendar.run(until=3600)
    brokers.collect()
    assert subscriber.order == [one.id for one in sent if one is not None]


def test_a_frozen_broker_is_missed_and_comes_back() -> None:
    brokers = pair()
    brokers.calendar.run(until=3000)
    first = brokers.broker(1)
    assert first is not None
    inflict(brokers.driver, Freeze(2))
    brokers.calendar.run(until=3000 + 2 * LINK.dead_ms)
    assert first.network.links.peers() == []
    inflict(brokers.driver, Thaw(2))
    brokers.calendar.run(until=12_000)
    assert first.network.links.peers() == [2]


def test_what_was_meant_for_a_frozen_process_does_not_reach_the_next() -> None:
    brokers = pair()
    brokers.calendar.run(until=3000)
    inflict(brokers.driver, Freeze(2))
    brokers.calendar.run(until=3500)
    inflict(brokers.driver, Crash(2))
    inflict(brokers.driver, Restart(2))
    inflict(brokers.driver, Thaw(2))
    assert not brokers.frozen(2)
    brokers.calendar.run(until=8_000)
    brokers.check_tables()


def test_combined_faults_follow_each_other() -> None:
    kinds: set[type] = set()
    for seed in range(40):
        plan = combined_faults(ring(4), Random(seed), 1000.0)
        assert [at for at, _ in plan] == sorted(at for at, _ in plan)
        kinds |= {type(fault) for _, fault in plan}
    assert {Freeze, Thaw, Crash, Restart, CutLink} <= kinds


def test_clients_may_speak_stomp_and_be_read_in_small_pieces() -> None:
    brokers = pair(Sizes(read_bytes=5, take_bytes=7, requests_max=1))
    made: list[StompClient] = []

    def act(machine: SimBroker, now: float) -> list[Any]:
        made.append(machine.connect_stomp(now))
        subscribe = stomp_frame("SUBSCRIBE", {"id": "1", "destination": "/topic/a"})
        send = stomp_frame("SEND", {"destination": "/topic/a", "receipt": "7"}, b"text\nand more")
        return machine.send(now, made[0], subscribe + send)

    brokers.driver.call("1", act)
    assert [frame.command for frame in made[0].frames] == ["CONNECTED", "MESSAGE", "RECEIPT"]
    assert made[0].frames[1].body == b"text\nand more"
    assert made[0].answers == {7: 1}
