"""Datagrams: to one broker of the network, by the routes there are. They may be lost with a link."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from tidings.node.network.link_channels import LinkChannels
from tidings.overlay.effects import Router
from tidings.routing.control.messages import Datagram
from tidings.routing.unicast.link_state import LinkStateUnicast
from tidings.routing.unicast.protocol import Unicast

TRACE_KINDS, INTEREST_KINDS = (1, 2), (3, 4)  # a question and its answer: of tracing, of interests
QUEUE_KINDS = (5,)  # frames between the home of a queue and the brokers of its consumers
KEY_KINDS = (6, 7)  # a question and its answer: which messages have a value of an attribute
KINDS = (
    *TRACE_KINDS,
    *INTEREST_KINDS,
    *QUEUE_KINDS,
    *KEY_KINDS,
)  # first bytes of payloads; others are of later versions


class Datagrams:
    def __init__(self, router: Router, hops_max: int, wires: LinkChannels, unicast: Callable[[], Unicast]) -> None:
        self._router, self._hops_max, self._channels, self._unicast = router, hops_max, wires, unicast
        self._inbox: dict[int, list[tuple[Router, bytes]]] = {}  # that came for this broker, by kind: from whom, what

    def topology(self) -> Mapping[Router, Collection[Router]]:
        """The reachable brokers, with their links where these are known."""
        unicast = self._unicast()
        known = unicast.links if isinstance(unicast, LinkStateUnicast) else {}
        return {router: tuple(known.get(router, ())) for router in (self._router, *unicast.reachable())}

    def reachable(self) -> Collection[Router]:
        return (self._router, *self._unicast().reachable())

    def post(self, router: Router, payload: bytes) -> bool:
        """False: there is no way there."""
        return self._pass_on(Datagram(router, self._router, self._hops_max, payload))

    def arrived(self, letter: Datagram) -> None:
        if letter.target == self._router:
            if letter.payload and letter.payload[0] in KINDS:
                self._inbox.setdefault(letter.payload[0], []).append((letter.source, letter.payload))
        elif letter.hops_left > 0:
            self._pass_on(replace(letter, hops_left=letter.hops_left - 1))

    def take(self, kinds: Collection[int]) -> list[tuple[Router, bytes]]:
        """From whom and what: those of these kinds, which the first byte says."""
        return [letter for kind in kinds for letter in self._inbox.pop(kind, ())] if self._inbox else []

    def _pass_on(self, letter: Datagram) -> bool:
        return self._channels.say(self._unicast().next_hop(letter.target) or 0, letter)
