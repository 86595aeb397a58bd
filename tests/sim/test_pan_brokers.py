"""Whole brokers that arrange themselves, in virtual time: each is given the address of one other."""

from random import Random

from tidings.node.network_settings import NetworkSettings
from tidings.node.pan_links import PanSettings
from tidings.overlay.generate import full
from tidings.overlay.pan import PanOptions
from tidings.sim.brokers import Brokers

BROKERS = 16


def arranged(seed: int, leaves: int = 4) -> Brokers:
    rng = Random(seed)
    options = PanOptions(leaves=leaves, beat_ms=1000, fail_ms=4000, tend_ms=3000, forget_ms=10_000)
    settings = {
        router: NetworkSettings(
            router, "test", pan=PanSettings(str(rng.randrange(1, router)) if router > 1 else "", options)
        )
        for router in range(1, BROKERS + 1)
    }
    graph = full(BROKERS, latency_ms=5)
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
