"""The paper's scale-out in the simulator: 80 clients at 8 sites, links of 1 MB/s, networks of 2, 4 and 8 brokers.

Each client has 20 subscriptions of one constraint; together they publish at a constant rate. What is compared:
output against what should be delivered, what the links carry against the least possible (shortest-path trees to the
brokers that really want a message, and nothing but message and frame on them), and how full the busiest link is.

Brokers are the machines and the kernel that ship; time, wires and clients are simulated, so links limit, not this
computer's processor.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tidings.kernel.codec import MessageBatch, encode_message, encode_messages
from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.matching.indexed import IndexedMatcher
from tidings.matching.matcher import per_message
from tidings.matching.workload import Workload
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.node.network.settings import NetworkSettings
from tidings.node.requests import Subscribe
from tidings.overlay.topology.generate import eight_brokers, large_network, line, square_diagonal, with_links
from tidings.overlay.topology.graph import Graph, shortest_tree
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.sim.broker import SimBroker
from tidings.sim.brokers import Brokers
from tidings.sim.client import SimClient

CLIENTS, SUBSCRIPTIONS = 80, 20
# With this number of attribute names a message matches about 5 % of the clients, as in the paper.
STRINGS, INTEGERS = 105, 70
BANDWIDTH_BYTES_S, LATENCY_MS = 1_000_000.0, 5.0
SETTLE_MS, DRAIN_MS = 4000.0, 200.0
FRAME_BYTES = 8
TOPOLOGIES = {2: lambda: line(2), 4: square_diagonal, 8: eight_brokers, 42: large_network}
VARIANTS = {
    "graded": ("bdrp", InterestEncoding(Encoding(grade=GradedGrade()), vectors=False)),
    "plain": ("bdrp", InterestEncoding()),
    "flooding": ("flooding", InterestEncoding(Encoding(grade=GradedGrade()), vectors=False)),
}


@dataclass(frozen=True, slots=True)
class ScaleOutSetup:
    """Parameters; the defaults are the paper's comparison runs."""

    brokers: int = 8
    clients: int = CLIENTS
    subscriptions: int = SUBSCRIPTIONS  # of a client
    constraints_max: int = 1
    bandwidth_bytes_s: float = BANDWIDTH_BYTES_S

    def graph(self) -> Graph:
        return with_links(TOPOLOGIES[self.brokers](), LATENCY_MS, self.bandwidth_bytes_s)

    def workload(self, seed: int) -> Workload:
        limit = self.constraints_max
        return Workload(seed, conjunctions=1, constraints_max=limit, strings=STRINGS, integers=INTEGERS)


@dataclass(frozen=True, slots=True)
class ScaleOutMeasurement:
    brokers: int
    variant: str
    rate: float  # messages a second, all clients together
    expected: int  # deliveries
    delivered: int  # of these, a fifth of a second after the last was published
    link_bytes: int
    least_bytes: int
    busiest: float  # share of its bandwidth that the busiest link used
    destinations: float  # brokers a message is sent to, on average
    wanted: float  # other brokers that really want it, on average
    clients: float  # that want it, on average


def workload(seed: int) -> Workload:
    return ScaleOutSetup().workload(seed)


class Truth:
    """Places and interests of the clients, and the least traffic that serves them."""

    def __init__(self, graph: Graph, seed: int, setup: ScaleOutSetup | None = None) -> None:
        setup = setup or ScaleOutSetup()
        self.graph, self.subscriptions = graph, setup.subscriptions
        self.routers = [int(node) for node in graph]
        clients = setup.clients
        self.homes = [self.routers[client * len(self.routers) // clients] for client in range(clients)]
        self.predicates = setup.workload(seed).predicates(0, clients * setup.subscriptions)
        self._matcher = IndexedMatcher()
        for number, predicate in enumerate(self.predicates):
            self._matcher.add(number, predicate)
        self._trees = {router: shortest_tree(graph, router) for router in self.routers}

    def matches(self, batch: MessageBatch) -> list[list[int]]:
        """Numbers of subscriptions, for each message; subscription n belongs to client n // SUBSCRIPTIONS."""
        return per_message(self._matcher.match(batch))

    def brokers_of(self, matched: Sequence[int]) -> set[int]:
        return {self.homes[one // self.subscriptions] for one in matched}

    def least_links(self, source: int, routers: set[int]) -> int:
        """Links of the shortest-path tree to these."""
        tree, links = self._trees[source], set()
        for router in routers:
            node: Any = router
            while node != source:
                links.add(node)
                node = tree[node]
        return len(links)


class ScaleOut:
    """`service` says how long brokers take (broker_costs.py); without it only links limit."""

    def __init__(
        self, setup: ScaleOutSetup, variant: str, seed: int = 1, service: Callable[[Any], float] | None = None
    ) -> None:
        self.setup, self.graph = setup, setup.graph()
        self.variant, self.seed = variant, seed
        self.truth = Truth(self.graph, seed, setup)
        scheme, encoding = VARIANTS[variant]
        settings = {
            int(node): NetworkSettings(
                int(node),
                dials=tuple((str(e.b), int(e.b)) for e in self.graph.edges() if e.a == node),
                scheme=scheme,
                encoding=encoding,
                costs={int(peer): 1 for peer in self.graph.neighbours(node)},
            )
            for node in self.graph
        }
        self.net = Brokers(self.graph, settings, seed, service=service)
        self.clients: dict[int, SimClient] = {}
        self._subscribe()
        self.net.calendar.run(until=SETTLE_MS)

    def _subscribe(self) -> None:
        for client, home in enumerate(self.truth.homes):
            size = self.setup.subscriptions
            mine = self.truth.predicates[client * size : (client + 1) * size]

            def act(
                machine: SimBroker, now: float, client: int = client, mine: Sequence[Predicate] = mine
            ) -> list[Any]:
                one = self.clients[client] = machine.connect(now)  # brokers that take time are not asked in turn
                effects: list[Any] = []
                for number, predicate in enumerate(mine, 1):
                    request = Subscribe(number, number, ">", selector_of(predicate))
                    effects += machine.request(now, one, request)
                return effects

            self.net.driver.call(str(home), act)

    def run(self, rate: float, seconds: float) -> ScaleOutMeasurement:
        count = int(rate * seconds)
        rng = Random(f"{self.seed} {rate}")
        messages = self.setup.workload(self.seed).messages(0, count)
        before = self._counts()
        carried = self._carried()
        start, at = self.net.calendar.now, self.net.calendar.now
        expected = least = wanted = clients = 0
        batch = MessageBatch.from_messages(encode_messages(messages))
        found = self.truth.matches(batch)
        for number, message in enumerate(messages):
            at += rng.expovariate(rate) * 1000
            client = rng.randrange(self.setup.clients)
            data = encode_message(message)
            matched = found[number]
            expected += len(matched)
            home = self.truth.homes[client]
            routers = self.truth.brokers_of(matched) - {home}
            wanted += len(routers)
            clients += len({one // self.setup.subscriptions for one in matched})
            least += self.truth.least_links(home, routers) * (len(data) + FRAME_BYTES)
            self.net.calendar.at(at, self._publish, client, data)
        self.net.calendar.run(until=at)
        took_ms = at - start
        self.net.calendar.run(until=at + DRAIN_MS)
        after = self._counts()
        used = {wire: amount - carried[wire] for wire, amount in self._carried().items()}
        busiest = max(used.values()) / (self.setup.bandwidth_bytes_s * took_ms / 1000)
        delta = Counter(after)
        delta.subtract(before)
        return ScaleOutMeasurement(
            len(self.graph),
            self.variant,
            rate,
            expected,
            delta["delivered"],
            delta["copy_bytes"],
            least,
            busiest,
            delta["destinations"] / count,
            wanted / count,
            clients / count,
        )

    def _publish(self, client: int, data: bytes) -> None:
        one = self.clients[client]
        self.net.driver.call(str(self.truth.homes[client]), lambda machine, now: machine.publish(now, one, data))

    def _counts(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for broker in self.net.running().values():
            total.update(broker.forwarder.network_stats())
            total["delivered"] += broker.forwarder.stats()["delivered"]
        return total

    def _carried(self) -> dict[tuple[Any, Any], int]:
        network = self.net.driver.network
        ends = [(e.a, e.b) for e in self.graph.edges()]
        return {(a, b): network.wire(a, b).bytes_sent for a, b in [*ends, *((b, a) for a, b in ends)]}


def selector_of(predicate: Predicate) -> str:
    """The text of a predicate of one conjunction, as the workload draws them."""
    [conjunction] = predicate.conjunctions
    return " AND ".join(map(_text, conjunction))


def _text(constraint: Constraint) -> str:
    name, value = constraint.name, constraint.value
    assert isinstance(value, str | int)
    match constraint.op:
        case Op.PREFIX:
            return f"{name} LIKE '{value}%'"
        case Op.SUFFIX:
            return f"{name} LIKE '%{value}'"
        case Op.CONTAINS:
            return f"{name} LIKE '%{value}%'"
        case Op.LT | Op.GT:
            return f"{name} {'<' if constraint.op is Op.LT else '>'} {value}"
        case _:
            return f"{name} = '{value}'" if isinstance(value, str) else f"{name} = {value}"
