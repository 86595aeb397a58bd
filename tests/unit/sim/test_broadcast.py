"""Broadcasts along reverse paths: every broker gets one copy, where the map of the network is known."""

from random import Random

import pytest

from tidings.node.network.settings import NetworkSettings
from tidings.overlay.link.machine import LinkOptions
from tidings.overlay.topology.generate import barabasi_albert
from tidings.overlay.topology.graph import Graph
from tidings.sim.brokers import Brokers

LINK = LinkOptions(heartbeat_ms=200, suspect_ms=500, dead_ms=1200)


def network(graph: Graph, unicast: str, seed: int) -> tuple[Brokers, list[int]]:
    routers = [int(str(node)) for node in graph]
    links = {router: [int(str(one)) for one in graph.neighbours(router)] for router in routers}
    settings = {
        router: NetworkSettings(
            router,
            dials=tuple((str(other), other) for other in links[router] if other > router),
            unicast=unicast,
            broadcast_above=1,
            link=LINK,
        )
        for router in routers
    }
    return Brokers(graph, settings, seed=seed), routers


def counted(brokers: Brokers, name: str) -> int:
    return sum(int(one.forwarder.network_stats()[name]) for one in brokers.running().values())


@pytest.mark.parametrize("unicast", ["link-state", "distance-vector"])
@pytest.mark.parametrize("seed", range(4))
def test_a_broadcast_reaches_every_broker_once(seed: int, unicast: str) -> None:
    rng = Random(seed)
    brokers, routers = network(barabasi_albert(rng.randint(6, 12), rng), unicast, seed)
    readers = [brokers.subscribe(router, "x = 1") for router in routers]
    brokers.calendar.run(until=6000)
    before = {name: counted(brokers, name) for name in ("copies", "wrong_path", "duplicates")}
    count = 20
    for number in range(count):
        brokers.publish(routers[number % len(routers)], {"x": 1}, persistent=False)
        brokers.calendar.run(until=6000 + 50 * (number + 1))
    brokers.calendar.run(until=9000)
    brokers.collect()
    assert [sum(one.got.values()) for one in readers if one is not None] == [count] * len(routers)
    copies, wrong, twice = (counted(brokers, name) - before[name] for name in ("copies", "wrong_path", "duplicates"))
    assert copies - wrong - twice == count * (len(routers) - 1)
    if unicast == "link-state":  # without a map a broker cannot know what its neighbours discard
        assert (wrong, twice) == (0, 0)
    else:
        assert wrong + twice > 0
