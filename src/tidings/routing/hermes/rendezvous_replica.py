"""Replica of the knowledge of rendezvous nodes, kept by the broker that would take their place.

A type's subtypes and users are known to its rendezvous node only, and would be said again with the next refresh. So
that nobody waits for that when it is lost, it tells the next closest broker (`Estate`) whenever this changes, and with
every refresh. That one makes use of it when it finds itself the closest.
"""

from collections.abc import Callable

from tidings.overlay.effects import Router
from tidings.routing.hermes.messages import Estate
from tidings.routing.hermes.options import HermesOptions


class RendezvousReplica:
    def __init__(self, options: HermesOptions) -> None:
        self._options = options
        self._told: dict[str, tuple[Router, Estate]] = {}  # of types that are this broker's
        self._kept: dict[str, tuple[Estate, float]] = {}  # of others', until when

    def news(self, to: Router, estate: Estate) -> bool:
        """Notes what that broker will be told of a type; reports whether it was not told so yet."""
        if not estate.chain and not estate.subtypes:
            return self._told.pop(estate.type, None) is not None
        before, self._told[estate.type] = self._told.get(estate.type), (to, estate)
        return before != (to, estate)

    def keep(self, now: float, estate: Estate) -> None:
        if estate.chain or estate.subtypes:
            self._kept[estate.type] = (estate, now + self._options.lifetime_ms)
        else:
            self._kept.pop(estate.type, None)

    def take(self, now: float, mine: Callable[[str], bool]) -> list[Estate]:
        """Takes out and returns what was kept of types that are this broker's now."""
        self._kept = {name: one for name, one in self._kept.items() if one[1] > now}
        return [self._kept.pop(name)[0] for name in list(self._kept) if mine(name)]
