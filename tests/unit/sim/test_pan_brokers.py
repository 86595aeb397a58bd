"""Whole brokers that arrange themselves, in virtual time: each is given the address of one other."""

from random import Random

import pytest

from tidings.node.network.pan_links import PanLinks, PanSettings
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.effects import LinkEffect
from tidings.overlay.link.machine import LinkOptions
from tidings.overlay.pan import PanOptions
from tidings.overlay.topology.generate import full
from tidings.sim.brokers import Brokers

BROKERS, FEW = 16, 8


def arranged(seed: int, count: int = BROKERS, leaves: int = 4) -> Brokers:
    rng = Random(seed)
    options = PanOptions(leaves=leaves, beat_ms=1000, fail_ms=4000, tend_ms=3000, forget_ms=10_000)
    settings = {
        router: NetworkSettings(
            router, "test", pan=PanSettings(str(rng.randrange(1, router)) if router > 1 else "", options)
        )
        for router in range(1, count + 1)
    }
    graph = full(count, latency_ms=5)
    return Brokers(graph, settings, seed)


def everybody_reaches_everybody(brokers: Brokers) -> bool:
    running = brokers.running()
    return all(
        broker.network.pan is not None
        and broker.network.pan.pan.joined
        and set(broker.network.unicast.reachable()) == running.keys() - {router}
        for router, broker in running.items()
    )


def test_sixteen_brokers_form_a_network_and_any_three_may_crash() -> None:
    seed = 1
    brokers = arranged(seed)
    brokers.calendar.run(until=60_000)
    assert everybody_reaches_everybody(brokers)
    for router in brokers.running():
        brokers.subscribe(router, "n >= 0")
    brokers.calendar.run(until=brokers.calendar.now + 5_000)
    for router in Random(seed).sample(range(1, BROKERS + 1), 3):
        brokers.driver.crash(str(router))
    brokers.calendar.run(until=brokers.calendar.now + 60_000)
    assert everybody_reaches_everybody(brokers)
    links = {router: len(list(broker.network.links.peers())) for router, broker in brokers.running().items()}
    wanted = {
        router: len(broker.network.pan.pan.neighbours())
        for router, broker in brokers.running().items()
        if broker.network.pan is not None
    }
    assert all(links[router] >= wanted[router] for router in links)


def test_a_broker_that_comes_back_finds_its_place_again() -> None:
    brokers = arranged(4)
    brokers.calendar.run(until=60_000)
    brokers.driver.crash("7")
    brokers.calendar.run(until=brokers.calendar.now + 30_000)
    assert 7 not in brokers.running()
    assert everybody_reaches_everybody(brokers)
    brokers.driver.start("7")
    brokers.calendar.run(until=brokers.calendar.now + 60_000)
    assert everybody_reaches_everybody(brokers)
    assert 7 in brokers.running()


def knowing(brokers: Brokers, router: int) -> set[int]:
    """Who counts this broker among its neighbours."""
    return {
        one
        for one, broker in brokers.running().items()
        if broker.network.pan is not None and router in {it.router for it in broker.network.pan.pan.neighbours()}
    }


def test_a_broker_that_crashed_is_given_up_long_before_it_could_have_been_missed() -> None:
    """Its machine says that nothing listens there: nobody waits for `reach_ms`, or for a heartbeat."""
    brokers = arranged(2, FEW, leaves=2)
    brokers.calendar.run(until=40_000)
    assert len(knowing(brokers, 5)) > 1
    brokers.driver.crash("5")
    brokers.calendar.run(until=brokers.calendar.now + 1_000)
    assert knowing(brokers, 5) == set()
    brokers.calendar.run(until=brokers.calendar.now + 5_000)
    assert everybody_reaches_everybody(brokers)


def test_a_host_that_falls_silent_is_given_up_when_its_links_are() -> None:
    brokers = arranged(2, FEW, leaves=2)
    brokers.calendar.run(until=40_000)
    brokers.driver.network.lose_host(5)
    brokers.calendar.run(until=brokers.calendar.now + LinkOptions().dead_ms + 1_500)
    assert knowing(brokers, 5) <= {5}


def test_a_link_that_flaps_changes_nothing() -> None:
    brokers = arranged(3, FEW, leaves=2)
    brokers.calendar.run(until=40_000)
    before = {router: knowing(brokers, router) for router in brokers.running()}
    rng = Random(3)
    for _ in range(8):
        a, b = rng.sample(range(1, FEW + 1), 2)
        brokers.driver.network.cut(a, b)
        brokers.calendar.run(until=brokers.calendar.now + 2_000)
        brokers.driver.network.heal(a, b)
        brokers.calendar.run(until=brokers.calendar.now + 500)
    assert {router: knowing(brokers, router) for router in brokers.running()} == before


def test_only_links_that_neither_end_needs_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    needed: list[bool] = []  # of each link that was lost, by each end
    lost = PanLinks.link_down

    def noted(self: PanLinks, now: float, peer: int, silent: bool) -> list[LinkEffect]:
        needed.append(peer in {one.router for one in self.pan.neighbours()})
        return lost(self, now, peer, silent)

    brokers = arranged(6, leaves=2)
    brokers.calendar.run(until=20_000)
    monkeypatch.setattr(PanLinks, "link_down", noted)
    brokers.calendar.run(until=80_000)
    assert needed
    assert not any(needed)


def test_a_network_that_fell_apart_becomes_one_again() -> None:
    brokers = arranged(5, FEW, leaves=2)
    brokers.calendar.run(until=40_000)
    half = range(1, FEW // 2 + 1)
    brokers.driver.network.partition(half)
    brokers.calendar.run(until=brokers.calendar.now + 60_000)
    assert all(knowing(brokers, router) <= set(half) for router in half)
    brokers.driver.network.partition()
    brokers.calendar.run(until=brokers.calendar.now + 60_000)
    assert everybody_reaches_everybody(brokers)
    assert any(knowing(brokers, router) - set(half) for router in half)
