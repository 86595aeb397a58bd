"""The network of the demo: four brokers, a process each, over links as slow as the distance between their cities."""

import time
from collections.abc import Callable

from tidings.cli.demo.site_map import TITLES, TOPOLOGY, draw_map
from tidings.cli.demo.stage import Stage
from tidings.errors import TidingsError
from tidings.localnet.member import Routing
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.localnet.ports import free_ports
from tidings.overlay.topology.toml_format import from_toml

WAIT_SECONDS = 60.0
QUIET_SECONDS = 1.0  # several times what it takes from one end of the network to the other


def start_network(stage: Stage) -> None:
    graph = from_toml(TOPOLOGY)
    options = LocalOptions(
        port=free_ports(3 * len(graph))[0], routing=Routing(heartbeat_ms=500, redial_ms_max=500), delays=True
    )
    stage.running = LocalNetwork.create(stage.work / "network", graph, options)
    began = time.monotonic()
    stage.running.start()
    wait_for(stage.running.settled, "the brokers do not find each other")
    seconds = time.monotonic() - began
    stage.tell(stage.network.draw())
    stage.find(
        "network", f"{len(graph)} brokers, {len(list(graph.edges()))} links, all routes known in {seconds:.1f} s"
    )
    texts = [
        "Each site has a broker, a process of its own on this machine. Links hold back what they carry, one way, for "
        "the time that is written on them. No broker has the whole network in its configuration: each names its "
        f"neighbours, and all routes were known {seconds:.1f} s after the start."
    ]
    caption = f"{', '.join(TITLES.values())} and their links, with latencies. Not to scale."
    stage.section("Four sites, one network", texts, stage.picture("network", draw_map, caption))


def wait_for(condition: Callable[[], object], complaint: str, seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TidingsError("E_DEMO_WAIT", f"{complaint}, after {seconds:.0f} s")
        time.sleep(0.1)


def wait_for_interests(network: LocalNetwork, sites: set[str]) -> None:
    """Until every broker has heard what clients of these sites want, and for a while nothing new of it: they tell
    subscriptions that come soon after each other together, and links are slow."""
    routers = {network.members[site].router for site in sites}
    seen: list[object] = []
    since = time.monotonic()

    def known() -> bool:
        nonlocal seen, since
        status = list(network.status().values())
        now = [one["sees"] and one["sees"]["interests"] for one in status]
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since >= QUIET_SECONDS and all(
            one["sees"] is not None
            and all(router == one["router"] or one["sees"]["interests"].get(str(router)) for router in routers)
            for one in status
        )

    wait_for(known, "the brokers do not learn what others want")
