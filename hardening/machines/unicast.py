"""Unicast protocols judged in the simulator: a random topology, random faults, then tables against the truth.

Everything follows from the protocol's name and a seed; a failure names the command that repeats it:

    python -m hardening.machines.unicast link-state 17          # add --trace to see everything that happens
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from hardening.machines.unicast_adapter import UnicastAdapter
from tidings.overlay.effects import Received
from tidings.overlay.link.greeting import Greeting
from tidings.overlay.link.links import Links
from tidings.overlay.link.machine import LinkOptions
from tidings.overlay.topology.generate import barabasi_albert, random_tree, ring, waxman
from tidings.overlay.topology.graph import Graph, distances
from tidings.routing.control.messages import FloodItem, VectorRequest, VectorUpdate
from tidings.routing.effects import Install, RoutingOutcome
from tidings.routing.unicast.distance_vector import DistanceVector
from tidings.routing.unicast.link_state import LinkStateUnicast
from tidings.routing.unicast.protocol import Unicast
from tidings.sim.calendar import Calendar
from tidings.sim.driver import Trace
from tidings.sim.faults import Fault, inflict, random_faults
from tidings.sim.harness import Harness, HarnessMember
from tidings.sim.network import PhysicalNetwork
from tidings.sim.paths import direct

PROTOCOLS: dict[str, Callable[[int, int], Unicast]] = {
    "link-state": LinkStateUnicast,
    "distance-vector": DistanceVector,
}
# Quicker than in production, so that a run is short; the proportions are the same.
OPTIONS = LinkOptions(
    heartbeat_ms=500, suspect_ms=1200, dead_ms=2500, handshake_ms=1500, backoff_first_ms=50, backoff_max_ms=1000
)
UnicastHarness = Harness[Unicast, RoutingOutcome]
FAULTS_MS, SETTLE_MS, QUIET_MS = 6000.0, 7000.0, 1000.0
EVENTS_MAX = 500_000


@dataclass
class Scenario:
    graph: Graph  # the latency of an edge is also its cost
    dials: dict[int, list[str]]
    faults: list[tuple[float, Fault]]
    skews_ms: dict[int, float] = field(default_factory=dict)  # how far ahead each clock is


def random_scenario(seed: int) -> Scenario:
    rng = Random(seed)
    size = rng.randint(3, 15)
    kind = rng.choice((random_tree, lambda n, _: ring(n), waxman, barabasi_albert))
    shape = kind(size, rng)
    graph = Graph()
    dials: dict[int, list[str]] = {int(node): [] for node in shape}
    for edge in shape.edges():
        a, b = int(edge.a), int(edge.b)
        graph.add(a, b, latency_ms=rng.choice((1, 1, 2, 5, 10, 30)))
        for one, other in rng.choice((((a, b),), ((b, a),), ((a, b), (b, a)))):
            dials[one].append(str(other))
    skews_ms = {node: rng.uniform(0, 100_000) for node in dials}
    return Scenario(graph, dials, random_faults(graph, rng, rng.randint(1, 8), FAULTS_MS), skews_ms)


def simulate(
    protocol: str, seed: int, scenario: Scenario, trace: Trace | None = None, *, fixed_costs: bool = True
) -> UnicastHarness:
    """Start all routers, inflict the faults; the caller lets the calendar run."""
    calendar, graph = Calendar(), scenario.graph
    fixed = {node: {int(peer): int(edge.latency_ms) for peer, edge in graph.neighbours(node).items()} for node in graph}
    adapter = UnicastAdapter({int(node): costs for node, costs in fixed.items()} if fixed_costs else {})
    driver = UnicastHarness(PhysicalNetwork.of_graph(calendar, graph, direct), adapter, trace)
    for node in scenario.dials:

        def make(incarnation: int, node: int = node) -> HarnessMember[Unicast, RoutingOutcome]:
            unicast = PROTOCOLS[protocol](node, incarnation)
            parameters = (("unicast", type(unicast).__name__),)
            greeting = Greeting("simulated", node, incarnation, parameters=parameters)
            links = Links(greeting, OPTIONS, Random(f"{seed} {node} {incarnation}"))
            return HarnessMember(adapter, unicast, links, scenario.dials[node])

        driver.place(node, make, scenario.skews_ms.get(node, 0.0))
    for node in scenario.dials:
        driver.start(str(node))

    def strike(fault: Fault) -> None:
        if trace is not None:
            trace(calendar.now, "*", fault)
        inflict(driver, fault)

    for at, fault in scenario.faults:
        calendar.at(at, strike, fault)
    return driver


def survivors(driver: UnicastHarness, graph: Graph) -> Graph:
    """The remaining graph: running routers and links that work both ways."""
    left = Graph()
    alive = set(driver.machines)
    for node in graph:
        if node in alive:
            left.add_node(node)
    for edge in graph.edges():
        cut = driver.network.wire(edge.a, edge.b).cuts or driver.network.wire(edge.b, edge.a).cuts
        if edge.a in alive and edge.b in alive and not cut:
            left.add(edge.a, edge.b, edge.latency_ms)
    return left


def check_unicast(driver: UnicastHarness, graph: Graph) -> None:
    """Every table has exactly the reachable routers, at the true distance, by a next hop on a shortest path."""
    truth = survivors(driver, graph)
    far = {node: distances(truth, node) for node in truth}
    for me, unicast in driver.machines.items():
        expected = {node: int(distance) for node, distance in far[me].items() if node != me}
        found = {node: unicast.distance(node) for node in unicast.reachable()}
        assert found == expected, f"router {me} has distances {found}, the truth is {expected}"
        for node in unicast.reachable():
            hop = unicast.next_hop(node)
            assert hop is not None
            assert truth.has(me, hop), f"router {me} sends for {node} to {hop}, where no link is"
            # Strictly nearer to the goal with every hop: on a shortest path, and therefore no loop.
            rest = far[hop][node] + truth.neighbours(me)[hop].latency_ms
            assert rest == far[me][node], f"router {me} reaches {node} by {hop}: {rest} instead of {far[me][node]}"


def is_change(what: object) -> bool:
    """A table that changes, or a message that only changes cause."""
    match what:
        case Install():
            return True
        case Received(message=FloodItem() | VectorRequest()):
            return True
        case Received(message=VectorUpdate(whole=whole)):
            return not whole
        case _:
            return False


def run(protocol: str, seed: int, trace: Trace | None = None) -> UnicastHarness:
    """Simulate and judge: right tables in time, and then quiet."""
    scenario = random_scenario(seed)
    late: list[str] = []

    def watch(now: float, who: str, what: object) -> None:
        if now > FAULTS_MS + SETTLE_MS - QUIET_MS and is_change(what):
            late.append(f"{now:.1f} {who} {what}")
        if trace is not None:
            trace(now, who, what)

    driver = simulate(protocol, seed, scenario, watch)
    try:
        driver.calendar.run(until=FAULTS_MS + SETTLE_MS, events_max=EVENTS_MAX)
        assert driver.calendar.now == FAULTS_MS + SETTLE_MS, f"{EVENTS_MAX} events and no end"
        check_unicast(driver, scenario.graph)
        assert late == [], "changes that no fault caused"
    except Exception as error:
        error.add_note(f"Repeat with: python -m hardening.machines.unicast {protocol} {seed} --trace")
        raise
    return driver


def main(arguments: list[str]) -> None:
    trace = None
    if "--trace" in arguments:
        arguments = [one for one in arguments if one != "--trace"]

        def trace(now: float, who: str, what: object) -> None:
            sys.stdout.write(f"{now:9.1f}  {who:>3}  {what}\n")

    if len(arguments) != 2 or arguments[0] not in PROTOCOLS or not arguments[1].isdecimal():
        sys.exit(f"usage: python -m hardening.machines.unicast {{{'|'.join(PROTOCOLS)}}} SEED [--trace]")
    driver = run(arguments[0], int(arguments[1]), trace)
    sys.stdout.write(f"{arguments[0]} {arguments[1]}: right; {driver.messages_sent} messages\n")


if __name__ == "__main__":
    main(sys.argv[1:])
