"""Flat B-DRP against two levels: what a broker keeps, what advertisements cost, what the coarser picture costs.

Clusters are random trees with some more links, the backbone of their borders is one, too; flat means one network of
all these links. Every broker has some filters of the paper's workload. Messages enter anywhere; they are followed
through the tables as forwarding would, and compared with who really wants them: nobody may be missed.
"""

import gc
import time
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from statistics import mean

from tidings.kernel.element_matrix import ElementMatrix, pack
from tidings.matching.workload import Workload
from tidings.model.predicate import Predicate
from tidings.overlay.topology.generate import random_tree
from tidings.overlay.topology.graph import Graph, shortest_tree
from tidings.routing.bdrp.elements import elements
from tidings.routing.effects import Router
from tidings.sim.hierarchy import Hierarchy, HierarchyLayout

SETTLE_MS = 8000.0


@dataclass(frozen=True, slots=True)
class HierarchyOptions:
    clusters: int = 32
    size: int = 32  # brokers of a cluster, its border included
    filters: int = 5  # of a broker
    messages: int = 200
    changes: int = 20
    rows_max: int = 256
    seed: int = 1


@dataclass(frozen=True, slots=True)
class HierarchyResult:
    levels: int
    brokers: int
    links: int
    rows: float  # kept by a broker, on average
    rows_most: int
    routes: float
    start_messages: int  # until everybody knew everything
    start_bytes: int
    change_messages: float  # of one broker that gets one more filter
    change_bytes: float
    copies: float  # links a message crosses
    least_copies: float  # with exact knowledge on the flat network
    reached: float  # brokers it is brought to
    wanted: float  # brokers that want it
    missed: int
    cpu_seconds: float


def graphs(options: HierarchyOptions) -> tuple[list[Graph], Graph]:
    """Clusters, numbered through, and the backbone of the first broker of each."""
    rng = Random(options.seed)
    clusters = []
    for number in range(options.clusters):
        first = 1 + number * options.size
        clusters.append(_mesh(list(range(first, first + options.size)), rng))
    return clusters, _mesh([1 + number * options.size for number in range(options.clusters)], rng)


def _mesh(routers: list[Router], rng: Random) -> Graph:
    """A random tree, and a quarter as many links again."""
    graph = Graph()
    graph.add_node(routers[0])
    for edge in random_tree(len(routers), rng).edges():
        graph.add(routers[int(edge.a) - 1], routers[int(edge.b) - 1])
    for _ in range(len(routers) // 4):
        a, b = rng.sample(routers, 2)
        if b not in graph.neighbours(a):
            graph.add(a, b)
    return graph


def layout(options: HierarchyOptions, levels: int) -> HierarchyLayout:
    clusters, backbone = graphs(options)
    if levels == 2:
        return HierarchyLayout((*clusters, backbone), len(clusters))
    whole = Graph()
    for graph in (*clusters, backbone):
        for edge in graph.edges():
            whole.add(edge.a, edge.b)
    return HierarchyLayout((whole,))


def run(options: HierarchyOptions, levels: int) -> HierarchyResult:
    """Without the collector of cycles: it would scan millions of records repeatedly and find nothing."""
    gc.disable()
    try:
        return _run(options, levels)
    finally:
        gc.enable()


def _run(options: HierarchyOptions, levels: int) -> HierarchyResult:
    began = time.process_time()
    workload = Workload(options.seed, conjunctions=1)
    network = Hierarchy(layout(options, levels), options.rows_max)
    routers = network.layout.routers
    filters = workload.predicates(0, len(routers) * options.filters)
    interests = {router: filters[n * options.filters :][: options.filters] for n, router in enumerate(routers)}
    for router, some in interests.items():
        for predicate in some:
            network.subscribe(router, predicate)
    network.run(SETTLE_MS)
    started = network.messages, network.bytes
    rng = Random(f"changes {options.seed}")
    for number in range(options.changes):
        router = rng.choice(routers)
        [predicate] = workload.predicates(len(filters) + number, 1)
        network.subscribe(router, predicate)
        interests[router] = [*interests[router], predicate]
        network.run(SETTLE_MS / 4)
    changed = network.messages - started[0], network.bytes - started[1]
    follow = _Follow(network, interests, options)
    rows = [sum(place.rows for (_, at), place in network.places.items() if at == router) for router in routers]
    routes = [
        sum(len(p.unicast.reachable()) for (_, at), p in network.places.items() if at == router) for router in routers
    ]
    links = sum(len(list(area.edges())) for area in network.layout.areas)
    each = max(1, options.changes)
    copies, least, reached, wanted, missed = follow.totals()
    return HierarchyResult(
        levels,
        len(routers),
        links,
        mean(rows),
        max(rows),
        mean(routes),
        *started,
        changed[0] / each,
        changed[1] / each,
        copies,
        least,
        reached,
        wanted,
        missed,
        time.process_time() - began,
    )


class _Follow:
    """Messages through the tables, as forwarding would bring them."""

    def __init__(self, network: Hierarchy, interests: dict[Router, list[Predicate]], options: HierarchyOptions) -> None:
        self.network, self.interests, self.options = network, interests, options
        self._matrices: dict[tuple[int, Router], ElementMatrix] = {}

    def totals(self) -> tuple[float, float, float, float, int]:
        """Copies, least copies, brokers reached, brokers that want it (means); brokers missed (sum)."""
        rng = Random(f"messages {self.options.seed}")
        messages = Workload(self.options.seed, conjunctions=1).messages(0, self.options.messages)
        sums = [0, 0, 0, 0, 0]
        flat = _Tree(layout(self.options, 1).areas[0])
        for message in messages:
            attributes = message.attributes()
            carried = self.network.encoding.encoding.message_elements(attributes)
            entry = rng.choice(self.network.layout.routers)
            copies, reached = self._follow(entry, carried)
            wanted = {router for router, some in self.interests.items() if any(p.matches(attributes) for p in some)}
            found = (copies, flat.links(entry, wanted), len(reached - {entry}), len(wanted - {entry}))
            missed = len(wanted - reached - {entry})
            sums = [total + one for total, one in zip(sums, (*found, missed), strict=True)]
        copies_, least, reached_, wanted_ = (total / len(messages) for total in sums[:4])
        return copies_, least, reached_, wanted_, sums[4]

    def _follow(self, entry: Router, carried: Iterable[int]) -> tuple[int, set[Router]]:
        network, backbone = self.network, self.network.layout.backbone
        home = network.home(entry)
        carried = frozenset(carried)
        inside = self._match((home, entry), carried)
        copies, reached = self._links(home, entry, inside), set(inside)
        if backbone is None:
            return copies, reached
        [border] = network.layout.borders & {int(node) for node in network.layout.areas[home]}
        if entry != border and border not in inside:
            return copies, reached
        others = self._match((backbone, border), carried)
        copies += self._links(backbone, border, others)
        reached |= others
        for other in others:
            there = network.home(other)
            members = self._match((there, other), carried)
            copies += self._links(there, other, members)
            reached |= members
        return copies, reached

    def _match(self, key: tuple[int, Router], carried: frozenset[int]) -> set[Router]:
        matrix = self._matrices.get(key)
        if matrix is None:
            matrix = self._matrices[key] = ElementMatrix()
            for router, rows in self.network.places[key].scheme.predicates.items():
                matrix.add(router, [elements(row) for row in rows])
        return set(matrix.match(pack([carried])).lists()[0])

    def _links(self, area: int, source: Router, routers: set[Router]) -> int:
        """Links that the copies cross, by the routes there are."""
        crossed = set()
        for router in routers:
            at = source
            while at != router:
                hop = self.network.places[area, at].unicast.next_hop(router)
                assert hop is not None
                crossed.add((at, hop))
                at = hop
        return len(crossed)


class _Tree:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._parents: dict[Router, dict[Router, Router]] = {}

    def links(self, source: Router, routers: set[Router]) -> int:
        if source not in self._parents:
            self._parents[source] = {int(a): int(b) for a, b in shortest_tree(self._graph, source).items()}
        tree, crossed = self._parents[source], set()
        for router in routers:
            while router != source:
                crossed.add(router)
                router = tree[router]
        return len(crossed)
