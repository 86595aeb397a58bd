"""Tells which brokers are away, or have been back for so short a time that not all interests in events are known again.

>>> absences = Absences(patience_ms=100)
>>> absences.routed(0, [2, 3])
>>> absences.routed(150, [2])
>>> absences.away(160, [2, 3])
[3]
>>> absences.routed(200, [2, 3])
>>> absences.away(250, [2, 3]), absences.away(300, [2, 3])
([3], [])
"""

from collections.abc import Iterable

from tidings.overlay.effects import Router


class Absences:
    def __init__(self, patience_ms: float) -> None:
        self._patience_ms = patience_ms
        self._since: dict[Router, float] = {}  # routers that can be reached

    def routed(self, now: float, reachable: Iterable[Router]) -> None:
        self._since = {router: self._since.get(router, now) for router in reachable}

    def away(self, now: float, routers: Iterable[Router]) -> list[Router]:
        known = self._since
        return [one for one in routers if one not in known or now < known[one] + self._patience_ms]
