"""Unicast protocols in the harness: each router a unicast machine on real links."""

from collections.abc import Iterable, Mapping
from typing import assert_never

from tidings.overlay.effects import ControlMessage, Router
from tidings.routing.effects import AskKey, Deliver, Effect, HandOver, Install, Passed, RoutingOutcome, Safe
from tidings.routing.unicast.protocol import COST_MAX, TIMER, Unicast
from tidings.sim.harness import Adapter


class UnicastAdapter(Adapter[Unicast, RoutingOutcome]):
    """`costs` fixes the costs of links by router and peer; other links cost their measured latency in 0.1 ms."""

    machine_timers = frozenset({TIMER})

    def __init__(self, costs: Mapping[Router, Mapping[Router, int]]) -> None:
        self._costs = costs

    def start(self, now: float, machine: Unicast) -> Iterable[Effect]:
        return machine.start(now)

    def tick(self, now: float, machine: Unicast, timer: str) -> Iterable[Effect]:
        return machine.tick(now)

    def receive(self, now: float, machine: Unicast, source: Router, parcel: ControlMessage) -> Iterable[Effect]:
        return machine.receive(now, source, parcel)

    def link_up(self, now: float, machine: Unicast, peer: Router, latency_ms: float) -> Iterable[Effect]:
        fixed = self._costs.get(machine.router, {}).get(peer)
        return machine.link_up(now, peer, fixed or min(COST_MAX, max(1, round(latency_ms * 10))))

    def latency_changed(self, now: float, machine: Unicast, peer: Router, latency_ms: float) -> Iterable[Effect]:
        if peer in self._costs.get(machine.router, {}):
            return ()
        return self.link_up(now, machine, peer, latency_ms)

    def link_down(self, now: float, machine: Unicast, peer: Router) -> Iterable[Effect]:
        return machine.link_down(now, peer)

    def handle(self, machine: Unicast, effect: RoutingOutcome) -> None:
        match effect:
            case Install() | Deliver():
                pass  # tables are read from the machine, and no scheme follows a flooded topic
            case HandOver() | AskKey() | Safe() | Passed():
                raise AssertionError(f"{effect} is an effect of schemes that carry messages")
            case _:
                assert_never(effect)
