"""The network of the demo: four brokers, a process each, over links as slow as the distance between their cities."""

import time
from collections.abc import Callable

from matplotlib.figure import Figure

from tidings.cli.demo.stage import Stage
from tidings.errors import TidingsError
from tidings.localnet.member import Routing
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.localnet.ports import free_ports
from tidings.overlay.topology.toml_format import from_toml

TOPOLOGY = """
nodes = ["london", "frankfurt", "newyork", "tokyo"]
links = [
    {between = ["london", "frankfurt"], latency_ms = 6},
    {between = ["london", "newyork"], latency_ms = 35},
    {between = ["frankfurt", "newyork"], latency_ms = 42},
    {between = ["frankfurt", "tokyo"], latency_ms = 110},
    {between = ["newyork", "tokyo"], latency_ms = 80},
]
"""
PLACES = {"newyork": (0, 0), "london": (1, 1), "frankfurt": (2.2, 1), "tokyo": (3.2, 0)}  # not to scale
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
    text = "Four broker processes on this machine. Links hold back what they carry, one way, as long as they say."
    stage.section("The network", [text], stage.picture("network.svg", draw()))


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


def draw() -> Figure:
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.subplots()
    for edge in from_toml(TOPOLOGY).edges():
        (x1, y1), (x2, y2) = PLACES[str(edge.a)], PLACES[str(edge.b)]
        axes.plot([x1, x2], [y1, y2], color="#7a8fa6", zorder=1)
        middle = ((x1 + x2) / 2, (y1 + y2) / 2)
        axes.annotate(f"{edge.latency_ms:g} ms", middle, fontsize=8, ha="center", va="center", backgroundcolor="white")
    for name, (x, y) in PLACES.items():
        axes.scatter([x], [y], s=120, color="#1f5f8b", zorder=2)
        axes.annotate(name, (x, y + 0.15), ha="center", weight="bold")
    axes.margins(0.1, 0.25)
    axes.set_axis_off()
    return figure
