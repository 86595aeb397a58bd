"""Runs pure routing machines in virtual time, one at each router: covering, Hermes, Pan, B-DRP, unicast protocols.

    what arrives, timers, links ──► adapter ──► machine ──► effects ──► Carried: the harness
                                                                   └──► others:  the adapter

The harness carries out the effects that machines have in common (`Carried`): it sends messages, sets timers, and brings
a machine what its links report. Everything else, such as an event for a client, goes to `Adapter.handle`, which is all
that has to be written for a scheme, together with the names of its machine's methods.

A member without links sends records over the wires of the network, each to each, with no handshake and no heartbeats:
a run of millions of messages stays short, and the calendar is empty when nothing is on its way. A member with links
(`overlay.links`) sends bytes over connections, as a broker does.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, assert_never

from tidings.overlay import effects as fx
from tidings.overlay.effects import LinkEffect, Router
from tidings.overlay.link.links import Links
from tidings.overlay.pan.messages import PanTell
from tidings.routing.effects import Send
from tidings.sim.calendar import Calendar
from tidings.sim.driver import Driver, SimulatedProcess, Trace
from tidings.sim.network import PhysicalNetwork, PhysicalWire

M = TypeVar("M")  # a machine
E = TypeVar("E")  # the closed union of its effects that are not carried out here
Carried: TypeAlias = Send | PanTell | LinkEffect
Latency: TypeAlias = Callable[[Router, Router], float]


def each_to_each(calendar: Calendar, latency_ms: Latency) -> PhysicalNetwork:
    """A network in which every two routers have a wire of their own."""
    return PhysicalNetwork(calendar, lambda a, b: (a, b), lambda a, b: PhysicalWire(latency_ms(int(a), int(b))))


class Adapter(Generic[M, E]):
    """The methods of one kind of machine under common names, and the effects that only it has."""

    machine_timers: frozenset[str] = frozenset()  # needed where links have timers too

    def start(self, now: float, machine: M) -> Iterable[Carried | E]:
        return ()

    def tick(self, now: float, machine: M, timer: str) -> Iterable[Carried | E]:
        raise NotImplementedError

    def receive(self, now: float, machine: M, source: Router, parcel: Any) -> Iterable[Carried | E]:
        raise NotImplementedError

    def link_up(self, now: float, machine: M, peer: Router, latency_ms: float) -> Iterable[Carried | E]:
        raise NotImplementedError

    def latency_changed(self, now: float, machine: M, peer: Router, latency_ms: float) -> Iterable[Carried | E]:
        raise NotImplementedError

    def link_down(self, now: float, machine: M, peer: Router) -> Iterable[Carried | E]:
        raise NotImplementedError

    def pack(self, source: Router, effect: Send | PanTell) -> Any:
        """The parcel that travels over the wire and reaches `receive`, or `failed`."""
        return effect.message

    def failed(self, source: Router, to: Router, parcel: Any) -> None:
        """The wire lost it, or no machine runs there."""

    def handle(self, machine: M, effect: E) -> None:
        raise NotImplementedError


class HarnessMember(Generic[M, E]):
    """A machine as the driver sees it."""

    def __init__(
        self, adapter: Adapter[M, E], machine: M, links: Links | None = None, dials: Sequence[str] = ()
    ) -> None:
        self.machine, self.links = machine, links
        self._adapter, self._dials = adapter, dials

    def start(self, now: float) -> list[Carried | E]:
        out = list(self._adapter.start(now, self.machine))
        if self.links is not None:
            for address in self._dials:
                out += self.links.dial(now, address)
        return out

    def step(self, now: float, told: fx.Input) -> Iterable[Carried | E]:
        if isinstance(told, fx.Timer) and (self.links is None or told.name in self._adapter.machine_timers):
            return self._adapter.tick(now, self.machine, told.name)
        assert self.links is not None, f"{told} needs links"
        return self.links.step(now, told)


class Harness(Driver, Generic[M, E]):
    """`timers=False`: timers are not set, so that a network without repair and renewals comes to rest."""

    def __init__(
        self, network: PhysicalNetwork, adapter: Adapter[M, E], trace: Trace | None = None, *, timers: bool = True
    ) -> None:
        super().__init__(network, trace=trace)
        self.machines: dict[Router, M] = {}  # those that run
        self._hosts: dict[Router, SimulatedProcess] = {}
        self._links: dict[Router, Links | None] = {}  # of those that run
        self._adapter, self._timers = adapter, timers

    def place(self, router: Router, make: Callable[[int], HarnessMember[M, E]], skew_ms: float = 0.0) -> None:
        """A process that is not running yet; `start(str(router))` starts it, as often as it has crashed."""

        def made(incarnation: int) -> HarnessMember[M, E]:
            member = make(incarnation)
            self.machines[router], self._links[router] = member.machine, member.links
            return member

        if router in self._hosts:
            self._hosts[router].make = made
        else:
            self._hosts[router] = self.add(str(router), router, made, skew_ms)

    def run(self, router: Router, machine: M) -> None:
        """Start this machine now, without links."""
        self.place(router, lambda incarnation: HarnessMember(self._adapter, machine))
        self.start(str(router))

    def crash(self, address: str) -> None:
        super().crash(address)
        router = int(self.processes[address].host)
        del self.machines[router], self._links[router]

    def do(self, router: Router, effects: Iterable[Carried | E]) -> None:
        """Carry out what a machine returned to its client, or to its adapter."""
        self._carry_out(self._hosts[router], effects)

    def _carry_out(self, process: SimulatedProcess, effects: Iterable[Carried | E]) -> None:
        for effect in effects:
            if isinstance(effect, Carried):
                self._carry(process, effect)
            else:
                self._note(process, effect)
                self._adapter.handle(self.machines[int(process.host)], effect)

    def _carry(self, process: SimulatedProcess, effect: Carried) -> None:
        match effect:
            case PanTell(to=to):
                self._send(process, to.router, effect)
            case Send(neighbour=neighbour):
                self._send(process, neighbour, effect)
            case fx.SetTimer():
                if self._timers:
                    self._perform(process, effect)
            case fx.Dial() | fx.Transmit() | fx.CloseLink() | fx.Authenticate():
                self._perform(process, effect)
            case fx.Arrived(peer=peer, message=message):
                self._tell(process, self._adapter.receive, peer, message)
            case fx.LinkUp(peer=peer, latency_ms=latency_ms):
                self._note(process, effect)
                self._tell(process, self._adapter.link_up, peer, latency_ms)
            case fx.LatencyChanged(peer=peer, latency_ms=latency_ms):
                self._tell(process, self._adapter.latency_changed, peer, latency_ms)
            case fx.LinkDown(peer=peer):
                self._note(process, effect)
                self._tell(process, self._adapter.link_down, peer)
            case fx.Report() | fx.NobodyThere():
                self._note(process, effect)  # for operators and publishers, of which there are none
            case _:
                assert_never(effect)

    def _tell(self, process: SimulatedProcess, method: Callable[..., Iterable[Carried | E]], *about: Any) -> None:
        machine = self.machines[int(process.host)]
        self._carry_out(process, method(self.calendar.now + process.skew_ms, machine, *about))

    def _send(self, process: SimulatedProcess, to: Router, effect: Send | PanTell) -> None:
        source = int(process.host)
        links = self._links[source]
        if links is not None:
            self._carry_out(process, links.send(to, effect.message))
            return
        wire = self.network.wire(source, to)
        if not wire.cuts:  # otherwise it is lost; the machine hears of the link
            parcel = self._adapter.pack(source, effect)
            self.network.carry(wire, self._deliver, self._adapter.failed, source, to, parcel)

    def _deliver(self, source: Router, to: Router, parcel: Any) -> None:
        if to in self.machines:
            self._tell(self._hosts[to], self._adapter.receive, source, parcel)
        else:
            self._adapter.failed(source, to, parcel)
