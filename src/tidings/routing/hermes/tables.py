"""The routing tables of one type: for each kind of interest, the hops that asked for it (From) and were told it (To).

What is kept is soft: each entry has a time until which it holds. Telling a neighbour of a filter, a broker gives it no
more time than the filter has here from somebody else, so what circulates by mistake dies out.

A neighbour hears only of filters that no other filter it was told covers:

    every filter that somebody other than the neighbour asked for is covered by one the neighbour was told.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from tidings.matching.cover_index import CoverIndex
from tidings.model.predicate import Predicate
from tidings.overlay.effects import Router
from tidings.routing.hermes.type_filters import TypeFilters

Hop: TypeAlias = Router | str | None  # None: clients of this broker; a name: the type for which events are passed on
ALWAYS = Predicate.always()


@dataclass(slots=True)
class ToldInterest:
    """Filters that one neighbour was told, and until when each holds there."""

    until: dict[Predicate, float] = field(default_factory=dict)
    index: CoverIndex[Predicate] = field(default_factory=CoverIndex)

    def covers(self, filter: Predicate) -> bool:
        if ALWAYS in self.until:
            return True
        return next(self.index.covering(filter), None) is not None

    def add(self, filter: Predicate, until: float) -> None:
        if filter not in self.until:
            self.index.add(filter, filter)
        self.until[filter] = until

    def remove(self, filter: Predicate) -> None:
        del self.until[filter]
        self.index.remove(filter)


class Flow:
    def __init__(self) -> None:
        self.sources: dict[Predicate, dict[Hop, float]] = {}
        self.told: dict[Router, ToldInterest] = {}
        self._index: CoverIndex[Predicate] = CoverIndex()
        self._filters = TypeFilters()

    def __bool__(self) -> bool:
        return bool(self.sources)

    # --- From -----------------------------------------------------------------------------------------------------

    def hops(self) -> set[Hop]:
        return {hop for hops in self.sources.values() for hop in hops}

    def from_hop(self, hop: Hop) -> list[Predicate]:
        return [filter for filter, hops in self.sources.items() if hop in hops]

    def add(self, hop: Hop, filter: Predicate, until: float) -> None:
        hops = self.sources.get(filter)
        if hops is None:
            hops = self.sources[filter] = {}
            self._index.add(filter, filter)
            self._filters.add(filter)
        hops[hop] = until

    def remove(self, hop: Hop, filter: Predicate) -> None:
        hops = self.sources[filter]
        del hops[hop]
        if not hops:
            del self.sources[filter]
            self._index.remove(filter)
            self._filters.remove(filter)

    def has(self, hop: Hop, filter: Predicate) -> bool:
        return hop in self.sources.get(filter, ())

    def expired(self, now: float) -> list[tuple[Hop, Predicate]]:
        return [(hop, one) for one, hops in self.sources.items() for hop, until in hops.items() if until <= now]

    def wanting(self, message: bytes) -> set[Hop]:
        """Returns the hops that asked for a filter that matches."""
        return {hop for filter in self.matching(message) for hop in self.sources[filter]}

    def matching(self, message: bytes) -> list[Predicate]:
        return self._filters.matching(message)

    def roots(self) -> int:
        """Counts the filters that no other covers: the entries a table of this kind needs."""
        if ALWAYS in self.sources:
            return 1
        count = 0
        for filter in self.sources:
            wider = [other for other in self._index.covering(filter) if other != filter]
            equal = set(self._index.covered_by(filter))
            count += not any(other not in equal or str(other) < str(filter) for other in wider)
        return count

    # --- To -------------------------------------------------------------------------------------------------------

    def until_without(self, filter: Predicate, neighbour: Router) -> float:
        """Until when somebody other than the neighbour wants it; -inf: nobody does."""
        return max((until for hop, until in self.sources.get(filter, {}).items() if hop != neighbour), default=-inf)

    def for_neighbour(self, neighbour: Router) -> Iterator[Predicate]:
        for filter, hops in self.sources.items():
            if len(hops) > 1 or neighbour not in hops:
                yield filter

    def to_add(self, neighbour: Router, filter: Predicate) -> tuple[bool, list[Predicate]]:
        """Returns whether the neighbour must be told of this filter, and those it need not be told any more then."""
        told = self.told[neighbour]
        if filter in told.until or told.covers(filter):
            return False, []
        return True, [one for one in told.index.covered_by(filter) if one != filter]

    def to_remove(self, neighbour: Router, filter: Predicate) -> list[Predicate]:
        """Removes a filter from those told; returns those to tell in its place: what nothing else told covers."""
        told = self.told[neighbour]
        told.remove(filter)
        return [
            one
            for one in self._index.covered_by(filter)
            if one != filter and one not in told.until and self.until_without(one, neighbour) > -inf
        ]
