"""The least that routes: links and a unicast protocol joined into one machine, to simulate unicast by itself.

How a node joins them: inputs go to the links, what the links report goes to the protocol, what the protocol sends goes
out by the links.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeAlias

from tidings.overlay import effects as fx
from tidings.overlay.effects import LinkEffect, Router
from tidings.overlay.greeting import Greeting
from tidings.overlay.link import LinkOptions
from tidings.overlay.links import Links
from tidings.routing.effects import Deliver, Effect, Install, Report, Send
from tidings.routing.unicast import COST_MAX, TIMER, Unicast

Out: TypeAlias = LinkEffect | Install | Deliver


class RouterNode:
    """`dials` are addresses; `costs` fix the costs of links by peer, others cost their measured latency in 0.1 ms."""

    def __init__(
        self,
        unicast: Unicast,
        incarnation: int,
        dials: Sequence[str],
        rng: Random,
        costs: Mapping[Router, int] | None = None,
        options: LinkOptions | None = None,
    ) -> None:
        self.unicast = unicast
        parameters = (("unicast", type(unicast).__name__),)
        greeting = Greeting("simulated", unicast.router, incarnation, parameters=parameters)
        self.links = Links(greeting, options or LinkOptions(), rng)
        self._dials = dials
        self._costs = costs or {}

    def start(self, now: float) -> list[Out]:
        out = self._routed(self.unicast.start(now))
        for address in self._dials:
            out += self._linked(now, self.links.dial(now, address))
        return out

    def step(self, now: float, told: fx.Input) -> list[Out]:
        if isinstance(told, fx.Timer) and told.name == TIMER:
            return self._routed(self.unicast.tick(now))
        return self._linked(now, self.links.step(now, told))

    def _linked(self, now: float, effects: list[LinkEffect]) -> list[Out]:
        out: list[Out] = []
        for effect in effects:
            match effect:
                case fx.LinkUp(peer=peer, latency_ms=latency_ms):
                    out += [effect, *self._routed(self.unicast.link_up(now, peer, self._cost(peer, latency_ms)))]
                case fx.LatencyChanged(peer=peer, latency_ms=latency_ms):
                    if peer not in self._costs:
                        out += self._routed(self.unicast.link_up(now, peer, self._cost(peer, latency_ms)))
                case fx.LinkDown(peer=peer):
                    out += [effect, *self._routed(self.unicast.link_down(now, peer))]
                case fx.Arrived(peer=peer, message=message):
                    out += self._routed(self.unicast.receive(now, peer, message))
                case _:
                    out.append(effect)
        return out

    def _cost(self, peer: Router, latency_ms: float) -> int:
        return self._costs.get(peer) or min(COST_MAX, max(1, round(latency_ms * 10)))

    def _routed(self, effects: list[Effect]) -> list[Out]:
        out: list[Out] = []
        for effect in effects:
            match effect:
                case Send(neighbour=neighbour, message=message):
                    out += self.links.send(neighbour, message)
                case Install() | Deliver() | Report() | fx.SetTimer():
                    out.append(effect)
        return out
