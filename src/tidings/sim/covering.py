"""A network of covering brokers in virtual time: machines, links that keep order, input queues, failures.

On a tree a link that fails only divides the network until it is back. With `cycles=True` the brokers route on the
spanning tree of what is left; each hears of a new tree at a time of its own (`hear_ms`), as it would from link-state.
Tests see what clients receive through `on_hand`, and count on `pending`: control messages and news that are on
their way.
"""

from collections.abc import Callable, Iterable, Iterator
from random import Random

from tidings.overlay.effects import Router
from tidings.overlay.pan.messages import PanTell
from tidings.overlay.topology.graph import Graph, Node
from tidings.routing.covering.machine import CoveringMachine
from tidings.routing.covering.messages import (
    CoveringHandOver,
    CoveringMessage,
    CoveringPublication,
    CoveringSubscribe,
    Packed,
)
from tidings.routing.covering.policy import Policy
from tidings.routing.covering.spanning import spanning_tree
from tidings.routing.covering.tables import Hop
from tidings.routing.effects import Send
from tidings.sim.calendar import Calendar
from tidings.sim.harness import Adapter, Harness
from tidings.sim.network import PhysicalNetwork, PhysicalWire
from tidings.sim.paths import direct
from tidings.sim.service import ServiceModel, ServiceQueue

Told = tuple[Hop, CoveringMessage]
HandTo = Callable[[Router, CoveringHandOver], None]


class SimulatedCoveringBroker:
    def __init__(self, machine: CoveringMachine, queue: ServiceQueue[Told] | None) -> None:
        self.machine = machine
        self.queue = queue
        self.publications = 0  # received, from neighbours and clients
        self.subscriptions = 0  # messages with subscriptions from neighbours; a packed one counts once
        self.control = 0  # messages of any other kind but publications from neighbours


class _JitteryWire(PhysicalWire):
    """Each message takes from half to twice the latency."""

    __slots__ = ("_rng",)

    def __init__(self, latency_ms: float, rng: Random) -> None:
        super().__init__(latency_ms)
        self._rng = rng

    def travel_ms(self) -> float:
        return self.latency_ms * self._rng.uniform(0.5, 2.0)


class CoveringNetwork(Adapter[CoveringMachine, CoveringHandOver]):
    def __init__(
        self,
        graph: Graph,
        make_policy: Callable[[], Policy],
        *,
        service: ServiceModel | None = None,
        jitter: Random | None = None,  # each message takes from half to twice its latency
        cycles: bool = False,
        hear_ms: float = 0.0,
        on_hand: HandTo | None = None,
        on_send: Callable[[Router, Router, CoveringMessage], None] | None = None,
        cover_advertisements: bool = False,
    ) -> None:
        self.calendar = Calendar()
        self.graph, self.service, self.cycles, self.hear_ms = graph, service, cycles, hear_ms
        self.on_hand, self.on_send = on_hand, on_send
        self.pending = 0
        self.on_quiet: Callable[[], None] | None = None
        self._jitter = jitter
        self._heard_at: dict[Router, float] = {}  # how old the news is that a broker has
        self.brokers: dict[Router, SimulatedCoveringBroker] = {}
        self.harness = Harness(PhysicalNetwork(self.calendar, direct(graph), self._wire), self)
        for node in graph:
            machine = CoveringMachine(int(node), make_policy(), cover_advertisements=cover_advertisements)
            self.brokers[int(node)] = SimulatedCoveringBroker(machine, self._queue(int(node)) if service else None)
            self.harness.run(int(node), machine)
        if cycles:
            self._news()
        else:
            for a, b in self.links_up():
                self.harness.do(a, self.brokers[a].machine.link_up(0.0, b))

    def links_up(self) -> Iterator[tuple[Router, Router]]:
        """The directions of links that work."""
        for edge in self.graph.edges():
            for a, b in ((int(edge.a), int(edge.b)), (int(edge.b), int(edge.a))):
                if not self.harness.network.wire(a, b).cuts:
                    yield a, b

    def _wire(self, a: Node, b: Node) -> PhysicalWire:
        latency_ms = self.graph.neighbours(a)[b].latency_ms
        return PhysicalWire(latency_ms) if self._jitter is None else _JitteryWire(latency_ms, self._jitter)

    def _queue(self, router: Router) -> ServiceQueue[Told]:
        return ServiceQueue(
            self.calendar, lambda told: self._time_ms(router, told[1]), lambda told: self._serve(router, *told)
        )

    def _time_ms(self, router: Router, message: CoveringMessage) -> float:
        assert self.service is not None
        entries = len(self.brokers[router].machine.table)
        if isinstance(message, CoveringPublication):
            return self.service.publication(entries)
        return self.service.control(entries, len(message.changes) if isinstance(message, Packed) else 1)

    # Clients.

    def tell(self, router: Router, message: CoveringMessage) -> None:
        """A client of this broker says something, now."""
        self._count(message, 1)
        self._arrive(router, None, message)

    # Messages.

    def _count(self, message: CoveringMessage, step: int) -> None:
        if not isinstance(message, CoveringPublication):
            self.pending += step
            if self.pending == 0 and self.on_quiet is not None:
                self.on_quiet()

    def _arrive(self, router: Router, source: Hop, message: CoveringMessage) -> None:
        queue = self.brokers[router].queue
        if queue is None:
            self._serve(router, source, message)
        else:
            queue.put((source, message))

    def _serve(self, router: Router, source: Hop, message: CoveringMessage) -> None:
        broker = self.brokers[router]
        if isinstance(message, CoveringPublication):
            broker.publications += 1
        elif source is not None:
            first = message.changes[0] if isinstance(message, Packed) else message
            if isinstance(first, CoveringSubscribe):
                broker.subscriptions += 1
            else:
                broker.control += 1
        self.harness.do(router, broker.machine.step(self.calendar.now, source, message))
        self._count(message, -1)

    # The machine in the harness.

    def pack(self, source: Router, effect: Send | PanTell) -> CoveringMessage:
        assert isinstance(effect, Send)
        message: CoveringMessage = effect.message  # type: ignore[assignment]
        if self.on_send is not None:
            self.on_send(source, effect.neighbour, message)
        self._count(message, 1)
        return message

    def receive(
        self, now: float, machine: CoveringMachine, source: Router, parcel: CoveringMessage
    ) -> Iterable[Send | CoveringHandOver]:
        self._arrive(machine.router, source, parcel)
        return ()

    def failed(self, source: Router, to: Router, parcel: CoveringMessage) -> None:
        self._count(parcel, -1)

    def handle(self, machine: CoveringMachine, effect: CoveringHandOver) -> None:
        if self.on_hand is not None:
            self.on_hand(machine.router, effect)

    # Failures.

    def cut(self, a: Router, b: Router) -> None:
        """The link fails: what is on it is lost, both ends notice."""
        network = self.harness.network
        if network.wire(a, b).cuts:
            return
        network.cut(a, b)
        for one, other in ((a, b), (b, a)):
            queue = self.brokers[one].queue
            for _, message in queue.drop(lambda told, other=other: told[0] == other) if queue else ():  # type: ignore[misc]
                self._count(message, -1)
            self.harness.do(one, self.brokers[one].machine.link_down(self.calendar.now, other))
        self._news()

    def heal(self, a: Router, b: Router) -> None:
        network = self.harness.network
        if not network.wire(a, b).cuts:
            return
        network.heal(a, b)
        if self.cycles:
            self._news()
        else:
            for one, other in ((a, b), (b, a)):
                self.harness.do(one, self.brokers[one].machine.link_up(self.calendar.now, other))

    def _news(self) -> None:
        """Every broker will hear which links are up now, and go over to their tree."""
        if self.cycles:
            links = [(a, b, int(self.graph.neighbours(a)[b].latency_ms)) for a, b in self.links_up() if a < b]
            for router in self.brokers:
                self.pending += 1
                wait = self._jitter.uniform(0, self.hear_ms) if self._jitter else 0.0
                self.calendar.after(wait, self._hear, router, links, self.calendar.now)

    def _hear(self, router: Router, links: list[tuple[Router, Router, int]], sent_at: float) -> None:
        machine = self.brokers[router].machine
        tree = spanning_tree(router, links)
        if sent_at >= self._heard_at.get(router, -1.0):  # older news come too late
            alive = [other for other in tree.neighbours if not self.harness.network.wire(router, other).cuts]
            self.harness.do(router, machine.join(self.calendar.now, tree.epoch, alive))
        self._heard_at[router] = max(sent_at, self._heard_at.get(router, -1.0))
        self.pending -= 1
        if self.pending == 0 and self.on_quiet is not None:
            self.on_quiet()
