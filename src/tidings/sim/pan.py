"""A network of Pan nodes in virtual time: each can send to each, as over the Internet, at the latency between them.

A message to a node that has crashed comes back to its sender as failed, as a refused connection would. Timers, and
with them heartbeats and repair, run only with `timers=True`: a network that is only built needs none, and is quiet
then when nothing is on its way.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

from tidings.overlay.effects import Router, SetTimer
from tidings.overlay.pan import EXPERIMENT_IDS, Contact, IdSpace, Pan, PanOptions
from tidings.overlay.pan.machine import TIMER
from tidings.overlay.pan.messages import Arrived, PanEffect, PanMessage, Tell
from tidings.sim.calendar import Calendar

Latency = Callable[[Router, Router], float]
EXPERIMENT = PanOptions(leaves=4)


class PanNetwork:
    def __init__(
        self,
        latency_ms: Latency,
        rng: Random,
        space: IdSpace = EXPERIMENT_IDS,
        options: PanOptions = EXPERIMENT,
        *,
        timers: bool = False,
        calendar: Calendar | None = None,
    ) -> None:
        self.calendar = calendar or Calendar()
        self.latency_ms, self.rng, self.space, self.options, self.timers = latency_ms, rng, space, options, timers
        self.nodes: dict[Router, Pan] = {}  # those alive
        self.messages: Counter[str] = Counter()  # told, by kind
        self.on_effect: Callable[[Router, PanEffect], None] | None = None  # all but Tell and timers
        self.arrived: list[tuple[Router, Arrived]] = []
        self._ids: set[int] = set()
        self._lives: Counter[Router] = Counter()

    # --- nodes come and go ----------------------------------------------------------------------------------------

    def free_id(self) -> int:
        while (id := self.rng.randrange(self.space.size)) in self._ids:
            pass
        self._ids.add(id)
        return id

    def add(self, router: Router, bootstrap: Router | None = None, id: int | None = None, *, seek: bool = False) -> Pan:
        """A new node, which joins by this one; the first joins nobody."""
        node = Pan(Contact(self.free_id() if id is None else id, router), self.rng, self.space, self.options)
        self.nodes[router] = node
        self._lives[router] += 1
        if bootstrap is None:
            self._do(router, node.found(self.calendar.now))
        else:
            self._do(router, node.join(self.calendar.now, self.nodes[bootstrap].me, seek=seek))
        if self.timers:
            self._do(router, node.start_timer(self.calendar.now))
        return node

    def grow(self, routers: list[Router]) -> None:
        """Nodes join one after the other, each by the nearest one before it."""
        for router in routers:
            near = min(self.nodes, key=lambda one: self.latency_ms(one, router), default=None)
            self.add(router, near)
            self.calendar.run()

    def tend(self, rounds: int) -> None:
        """As if so many tending intervals had passed."""
        for _ in range(rounds):
            for router, node in self.nodes.items():
                self._do(router, node.tend(self.calendar.now))
            self.calendar.run()

    def crash(self, router: Router) -> None:
        self._ids.discard(self.nodes.pop(router).me.id)

    def leave(self, router: Router) -> None:
        self._do(router, self.nodes[router].leave(self.calendar.now))
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
        self._do(source, self.nodes[source].route(self.calendar.now, key, payload))

    # --- messages -------------------------------------------------------------------------------------------------

    def do(self, router: Router, effects: list[PanEffect]) -> None:
        self._do(router, effects)

    def _do(self, router: Router, effects: list[PanEffect]) -> None:
        calendar = self.calendar
        for effect in effects:
            if isinstance(effect, Tell):
                self.messages[type(effect.message).__name__] += 1
                sender = self.nodes[router].me
                latency = self.latency_ms(router, effect.to.router)
                calendar.after(latency, self._deliver, sender, effect.to, effect.message)
            elif isinstance(effect, SetTimer):
                if self.timers:
                    calendar.at(effect.at, self._ring, router, effect.name, self._lives[router])
            else:
                if isinstance(effect, Arrived):
                    self.arrived.append((router, effect))
                if self.on_effect is not None:
                    self.on_effect(router, effect)

    def _deliver(self, sender: Contact, to: Contact, message: PanMessage) -> None:
        node = self.nodes.get(to.router)
        if node is not None and node.me.id == to.id:
            self._do(to.router, node.hear(self.calendar.now, sender, message))
        elif sender.router in self.nodes:  # it takes the way back to notice
            self.calendar.after(self.latency_ms(sender.router, to.router), self._fail, sender, to, message)

    def _fail(self, sender: Contact, to: Contact, message: PanMessage) -> None:
        node = self.nodes.get(sender.router)
        if node is not None and node.me.id == sender.id:
            self._do(sender.router, node.failed(self.calendar.now, to, message))

    def _ring(self, router: Router, name: str, life: int) -> None:
        if router in self.nodes and self._lives[router] == life and name == TIMER:
            self._do(router, self.nodes[router].tick(self.calendar.now))
