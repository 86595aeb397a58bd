"""A network of Pan nodes in virtual time: each can send to each, as over the Internet, at the latency between them.

A message to a node that has crashed comes back to its sender as failed, as a refused connection would. Timers, and
with them heartbeats and repair, run only with `timers=True`: a network that is only built needs none, and is quiet
then when nothing is on its way.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple, TypeAlias, assert_never

from tidings.overlay.effects import Router
from tidings.overlay.pan import EXPERIMENT_IDS, Contact, Pan, PanOptions
from tidings.overlay.pan.messages import (
    Changed,
    Joined,
    Missed,
    PanAnswered,
    PanArrived,
    PanEffect,
    PanMessage,
    PanTell,
    Unanswered,
)
from tidings.routing.effects import Send
from tidings.sim.calendar import Calendar
from tidings.sim.harness import Adapter, Harness, Latency, each_to_each

EXPERIMENT = PanOptions(leaves=4)
PanOutcome: TypeAlias = (
    PanArrived | PanAnswered | Unanswered | Joined | Missed | Changed
)  # `PanEffect` less what is carried


class _Parcel(NamedTuple):
    """A message between two nodes, which may both have made room for others at their routers when it arrives."""

    sender: Contact
    to: Contact
    message: PanMessage


class PanNetwork(Adapter[Pan, PanOutcome]):
    def __init__(
        self,
        latency_ms: Latency,
        rng: Random,
        options: PanOptions = EXPERIMENT,
        *,
        timers: bool = False,
    ) -> None:
        self.calendar = Calendar()
        self.latency_ms, self.rng, self.options, self.timers = latency_ms, rng, options, timers
        self.space = EXPERIMENT_IDS
        self.harness = Harness(each_to_each(self.calendar, latency_ms), self, timers=timers)
        self.nodes = self.harness.machines  # those alive
        self.do = self.harness.do
        self.messages: Counter[str] = Counter()  # told, by kind
        self.on_effect: Callable[[Router, PanOutcome], None] | None = None
        self.arrived: list[tuple[Router, PanArrived]] = []
        self._ids: set[int] = set()

    # --- nodes come and go ----------------------------------------------------------------------------------------

    def free_id(self) -> int:
        while (id := self.rng.randrange(self.space.size)) in self._ids:
            pass
        self._ids.add(id)
        return id

    def add(self, router: Router, bootstrap: Router | None = None, id: int | None = None, *, seek: bool = False) -> Pan:
        """A new node, which joins by this one; the first joins nobody."""
        node = Pan(Contact(self.free_id() if id is None else id, router), self.rng, self.space, self.options)
        self.harness.run(router, node)
        if bootstrap is None:
            self.do(router, node.found(self.calendar.now))
        else:
            self.do(router, node.join(self.calendar.now, self.nodes[bootstrap].me, seek=seek))
        if self.timers:
            self.do(router, node.start_timer(self.calendar.now))
        return node

    def grow(self, routers: list[Router]) -> None:
        """Nodes join one after the other, each by the nearest one before it."""
        for router in routers:
            near = min(self.nodes, key=lambda one: self.latency_ms(one, router), default=None)
            self.add(router, near)
            self.calendar.run()

    def tend(self, rounds: int) -> None:
        """Advance as if this number of tending intervals had passed."""
        for _ in range(rounds):
            for router, node in self.nodes.items():
                self.do(router, node.tend(self.calendar.now))
            self.calendar.run()

    def crash(self, router: Router) -> None:
        self._ids.discard(self.nodes[router].me.id)
        self.harness.crash(str(router))

    def leave(self, router: Router) -> None:
        self.do(router, self.nodes[router].leave(self.calendar.now))
        self.crash(router)

    # --- keys -----------------------------------------------------------------------------------------------------

    def closest(self, key: int) -> Router:
        """The truth: who of all nodes alive is numerically closest to the key."""
        return min(self.nodes, key=lambda one: (self.space.distance(self.nodes[one].me.id, key), self.nodes[one].me.id))

    def path(self, source: Router, key: int) -> list[Router]:
        """The nodes that a message for this key visits, by the tables as they are."""
        found = [source]
        while (to := self.nodes[found[-1]].next_hop(key)) is not None and len(found) <= len(self.nodes):
            found.append(to.router)
        return found

    def route(self, source: Router, key: int, payload: bytes = b"") -> None:
        self.do(source, self.nodes[source].route(self.calendar.now, key, payload))

    # --- the machine in the harness -------------------------------------------------------------------------------

    def tick(self, now: float, machine: Pan, timer: str) -> Iterable[PanEffect]:
        return machine.tick(now)

    def pack(self, source: Router, effect: Send | PanTell) -> _Parcel:
        assert isinstance(effect, PanTell)
        self.messages[type(effect.message).__name__] += 1
        return _Parcel(self.nodes[source].me, effect.to, effect.message)

    def receive(self, now: float, machine: Pan, source: Router, parcel: _Parcel) -> Iterable[PanEffect]:
        if machine.me.id == parcel.to.id:
            return machine.hear(now, parcel.sender, parcel.message)
        self.failed(source, parcel.to.router, parcel)
        return ()

    def failed(self, source: Router, to: Router, parcel: _Parcel) -> None:
        if source in self.nodes:  # it takes the way back to notice
            self.calendar.after(self.latency_ms(source, to), self._fail, parcel)

    def _fail(self, parcel: _Parcel) -> None:
        router = parcel.sender.router
        node = self.nodes.get(router)
        if node is not None and node.me.id == parcel.sender.id:
            self.do(router, node.failed(self.calendar.now, parcel.to, parcel.message))

    def handle(self, machine: Pan, effect: PanOutcome) -> None:
        match effect:
            case PanArrived():
                self.arrived.append((machine.me.router, effect))
            case PanAnswered() | Unanswered() | Joined() | Missed() | Changed():
                pass  # only for the observer
            case _:
                assert_never(effect)
        if self.on_effect is not None:
            self.on_effect(machine.me.router, effect)
