"""Set-up of the experiments on Hermes: a transit-stub network, brokers on its hosts, overlays between them.

One world belongs to a seed; all systems that are compared live in it. Brokers are numbered from 0 in the order in which
they joined. Clients are drawn one after the other, so the first hundred of five thousand are the same as of a hundred.
"""

from dataclasses import dataclass
from functools import cached_property
from random import Random

from tidings.overlay.topology.generate import transit_stub
from tidings.overlay.topology.graph import Graph, nearest_earlier_tree, spanning_tree_of
from tidings.sim.pan import PanNetwork
from tidings.sim.paths import two_level_latency

SAME_HOST_MS = 0.01
BETWEEN_MS = (2.0, 10.0)  # between two autonomous systems; inside one a link has at most 20 ms
TENDED = 4  # rounds in which Pan looked for nearer neighbours before anything is measured


@dataclass(frozen=True, slots=True)
class HermesClient:
    broker: int
    types: tuple[str, ...]


class HermesWorld:
    def __init__(self, seed: int, brokers: int, systems: int = 10, nodes_each: int = 100) -> None:
        self.seed, self.count = seed, brokers
        rng = Random(f"hermes world {seed}")
        self.physical = transit_stub(rng, systems=systems, nodes_each=nodes_each, between_latency_ms=BETWEEN_MS)
        hosts = [int(node) for node in self.physical]
        rng.shuffle(hosts)
        self.hosts = [hosts[number % len(hosts)] for number in range(brokers)]
        between = two_level_latency(self.physical)
        self._rows = [[max(SAME_HOST_MS, between(a, b)) for b in self.hosts] for a in self.hosts]

    def latency_ms(self, a: int | str, b: int | str) -> float:
        return self._rows[int(a)][int(b)]

    # --- overlays -------------------------------------------------------------------------------------------------

    @cached_property
    def spanning_tree(self) -> Graph:
        return spanning_tree_of(range(self.count), self.latency_ms)

    @cached_property
    def nearest_tree(self) -> Graph:
        return nearest_earlier_tree(range(self.count), self.latency_ms)

    def pan(self) -> PanNetwork:
        """Brokers join one after the other, each by the nearest before it."""
        network = PanNetwork(self.latency_ms, Random(f"hermes ids {self.seed}"))
        network.grow(list(range(self.count)))
        network.tend(TENDED)
        return network

    @cached_property
    def pan_graph(self) -> Graph:
        """The neighbour relation of Pan: the entries of each broker's tables."""
        graph = Graph()
        network = self.pan()
        for router, node in network.nodes.items():
            graph.add_node(router)
            for contact in node.neighbours():
                if not graph.has(router, contact.router):
                    graph.add(router, contact.router, self.latency_ms(router, contact.router))
        return graph

    # --- clients --------------------------------------------------------------------------------------------------

    def clients(
        self, kind: str, count: int, types: int, types_each: int, *, one_a_broker: bool = False
    ) -> list[HermesClient]:
        rng = Random(f"hermes {kind} {self.seed}")
        places = rng.sample(range(self.count), count) if one_a_broker else []
        names = [f"type{number}" for number in range(types)]
        return [
            HermesClient(places[number] if places else rng.randrange(self.count), tuple(rng.sample(names, types_each)))
            for number in range(count)
        ]
