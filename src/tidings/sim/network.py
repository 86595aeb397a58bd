"""The physical network: hosts and wires with latency, bandwidth and a queue each, and what can go wrong with them.

A *wire* is one direction of a link. Packets leave it in the order they came; one that is larger, or comes behind
others, waits for the wire (bandwidth) and then travels (latency). A cut loses what is on the wire. A wire can be cut
for several reasons at once (the link, the host, a partition) and works again when the last is gone.

    network = Network.of_graph(calendar, graph, flat)       # or two_level, direct
    network.send(1, 7, size_bytes=500, deliver=..., lost=...)
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

from tidings.overlay.topology.graph import Graph, Node
from tidings.sim.calendar import Calendar
from tidings.sim.paths import Paths

Action: TypeAlias = Callable[[], None]
# A packet on its way: its route, how far it is, its size, and what follows.
Parcel: TypeAlias = "tuple[tuple[PhysicalWire, ...], int, int, Action, Action | None]"
LOCAL_MS = 0.01  # between two processes on one host


class PhysicalWire:
    __slots__ = (
        "bandwidth_bytes_ms",
        "bytes_sent",
        "cuts",
        "delay_ms",
        "epoch",
        "free_at",
        "last_at",
        "latency_ms",
        "stuck",
    )

    def __init__(self, latency_ms: float, bandwidth_bytes_s: float | None = None) -> None:
        self.latency_ms = latency_ms
        self.bandwidth_bytes_ms = None if bandwidth_bytes_s is None else bandwidth_bytes_s / 1000
        self.delay_ms = 0.0  # a fault: so much slower than usual
        self.cuts: set[str] = set()
        self.epoch = 0  # grows with each cut: what was sent in an earlier one is lost
        self.free_at = 0.0
        self.last_at = 0.0  # when the latest packet arrives: nothing overtakes it
        self.bytes_sent = 0
        self.stuck: list[Parcel] | None = None  # a fault: what is sent stays here; None: the wire is not clogged

    def travel_ms(self) -> float:
        """From its beginning to its end, of the next packet."""
        return self.latency_ms + self.delay_ms


class PhysicalNetwork:
    """`wire_of(a, b)` gives the wire between two neighbouring hosts of a path."""

    def __init__(self, calendar: Calendar, paths: Paths, wire_of: Callable[[Node, Node], PhysicalWire]) -> None:
        self.calendar = calendar
        self.down: set[Node] = set()
        self.packets_lost = 0
        self._paths = paths
        self._wire_of = wire_of
        self._wires: dict[tuple[Node, Node], PhysicalWire] = {}
        self._routes: dict[tuple[Node, Node], tuple[PhysicalWire, ...]] = {}
        self._partition: tuple[frozenset[Node], ...] = ()

    @classmethod
    def of_graph(cls, calendar: Calendar, graph: Graph, paths: Callable[[Graph], Paths]) -> "PhysicalNetwork":
        def wire(a: Node, b: Node) -> PhysicalWire:
            edge = graph.neighbours(a)[b]
            return PhysicalWire(edge.latency_ms, edge.bandwidth_bytes_s)

        return cls(calendar, paths(graph), wire)

    def wire(self, a: Node, b: Node) -> PhysicalWire:
        found = self._wires.get((a, b))
        if found is None:
            found = self._wires[a, b] = self._wire_of(a, b)
            self._cut_as_known(a, b, found)
        return found

    def latency_ms(self, source: Node, target: Node) -> float:
        """Of an empty network without faults."""
        return sum(wire.latency_ms for wire in self._route(source, target)) if source != target else LOCAL_MS

    def send(self, source: Node, target: Node, size_bytes: int, deliver: Action, lost: Action | None = None) -> None:
        """Bring a packet from host to host: exactly one of the two actions follows."""
        if source in self.down:
            self._lose(lost)
        elif source == target:
            self.calendar.after(LOCAL_MS, deliver)
        else:
            self._hop(self._route(source, target), 0, size_bytes, deliver, lost)

    def carry(self, wire: PhysicalWire, deliver: Callable[..., None], lost: Callable[..., None], *what: Any) -> None:
        """Bring a packet without a size over one wire, for which `send` would take too long: one of the two actions
        follows, with these arguments."""
        if wire.cuts or wire.stuck is not None or wire.bandwidth_bytes_ms is not None:
            self._hop((wire,), 0, 0, partial(deliver, *what), partial(lost, *what))
        else:
            wire.last_at = max(wire.last_at, self.calendar.now + wire.travel_ms())
            self.calendar.at(wire.last_at, self._carried, wire, wire.epoch, deliver, lost, what)

    def _carried(
        self,
        wire: PhysicalWire,
        epoch: int,
        deliver: Callable[..., None],
        lost: Callable[..., None],
        what: tuple[Any, ...],
    ) -> None:
        if wire.epoch == epoch:
            deliver(*what)
        else:
            self.packets_lost += 1
            lost(*what)

    def _route(self, source: Node, target: Node) -> tuple[PhysicalWire, ...]:
        route = self._routes.get((source, target))
        if route is None:
            path = self._paths(source, target)
            route = tuple(self.wire(a, b) for a, b in pairwise(path))
            self._routes[source, target] = route
        return route

    def _hop(
        self, route: tuple[PhysicalWire, ...], position: int, size: int, deliver: Action, lost: Action | None
    ) -> None:
        wire = route[position]
        if wire.cuts:
            self._lose(lost)
            return
        if wire.stuck is not None:
            wire.stuck.append((route, position, size, deliver, lost))
            return
        leaves = self.calendar.now
        if wire.bandwidth_bytes_ms is not None:
            leaves = wire.free_at = max(leaves, wire.free_at) + size / wire.bandwidth_bytes_ms
        wire.bytes_sent += size
        arrives = wire.last_at = max(wire.last_at, leaves + wire.travel_ms())
        self.calendar.at(arrives, self._arrive, route, position, wire.epoch, size, deliver, lost)

    def _arrive(
        self,
        route: tuple[PhysicalWire, ...],
        position: int,
        epoch: int,
        size: int,
        deliver: Action,
        lost: Action | None,
    ) -> None:
        if route[position].epoch != epoch:
            self._lose(lost)
        elif position + 1 < len(route):
            self._hop(route, position + 1, size, deliver, lost)
        else:
            deliver()

    def _lose(self, lost: Action | None) -> None:
        self.packets_lost += 1
        if lost is not None:
            self.calendar.after(0.0, lost)  # not within `send`: the sender is not done yet

    # Faults.

    def cut(self, a: Node, b: Node, reason: str = "cut", *, one_way: bool = False) -> None:
        """Cut the link, or only its direction from a to b."""
        for wire in [self.wire(a, b)] if one_way else [self.wire(a, b), self.wire(b, a)]:
            self._cut(wire, reason)

    def heal(self, a: Node, b: Node, reason: str = "cut") -> None:
        for wire in (self.wire(a, b), self.wire(b, a)):
            self._heal(wire, reason)

    def delay(self, a: Node, b: Node, delay_ms: float) -> None:
        """Both directions are so much slower from now on."""
        for wire in (self.wire(a, b), self.wire(b, a)):
            wire.delay_ms = delay_ms

    def clog(self, a: Node, b: Node) -> None:
        """Hold packets sent from a to b from now on until `release`: late, not lost."""
        wire = self.wire(a, b)
        if wire.stuck is None:
            wire.stuck = []

    def release(self, a: Node, b: Node) -> None:
        wire = self.wire(a, b)
        stuck, wire.stuck = wire.stuck, None
        for parcel in stuck or ():
            self._hop(*parcel)

    def lose_host(self, host: Node) -> None:
        """The host falls silent, and nothing passes through it."""
        self.down.add(host)
        for ends, wire in self._wires.items():
            if host in ends:
                self._cut(wire, f"host {host}")

    def restore_host(self, host: Node) -> None:
        self.down.discard(host)
        for wire in self._wires.values():
            self._heal(wire, f"host {host}")

    def partition(self, *groups: Iterable[Node]) -> None:
        """Cut every wire between hosts of different groups; no group at all ends it."""
        self._partition = tuple(frozenset(group) for group in groups)
        for (a, b), wire in self._wires.items():
            if self._divided(a, b):
                self._cut(wire, "partition")
            else:
                self._heal(wire, "partition")

    def _divided(self, a: Node, b: Node) -> bool:
        return any((a in group) != (b in group) for group in self._partition)

    def _cut_as_known(self, a: Node, b: Node, wire: PhysicalWire) -> None:
        """A wire is made when it is first used; faults may be older."""
        for host in {a, b} & self.down:
            self._cut(wire, f"host {host}")
        if self._divided(a, b):
            self._cut(wire, "partition")

    def _cut(self, wire: PhysicalWire, reason: str) -> None:
        wire.cuts.add(reason)
        wire.epoch += 1
        wire.free_at = wire.last_at = self.calendar.now
        if wire.stuck:
            for *_, lost in wire.stuck:
                self._lose(lost)
            wire.stuck.clear()

    def _heal(self, wire: PhysicalWire, reason: str) -> None:
        wire.cuts.discard(reason)
