"""The tables of a covering broker: the subscriptions with their sources, and what it told each neighbour.

`CoveringTable` is the paper's PRT: every subscription known here with its last hop (None: a client of this broker), as
an index for covering and as a matcher for messages. A `NeighbourTable` is one neighbour: the advertisements whose last
hop it is (that neighbour's part of the SRT) and the subscriptions it was told and has not been told to forget. What a
broker has told a neighbour is what the neighbour's table has of it, messages on the way apart, and all policies keep
one promise:

    every subscription that did not come from the neighbour, and that one of its advertisements may serve,
    is covered by one the neighbour was told.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tidings.kernel.codec import MessageBatch
from tidings.matching.cover_index import CoverIndex
from tidings.matching.indexed import IndexedMatcher
from tidings.model.predicate import Predicate
from tidings.overlay.effects import Router
from tidings.routing.covering.messages import AdvertisementId, FilterId
from tidings.routing.covering.preserved_subscriptions import Preserved

Hop: TypeAlias = Router | None  # None: this broker's own clients


@dataclass(frozen=True, slots=True)
class SubscriptionEntry:
    id: FilterId
    filter: Predicate
    hop: Hop
    number: int  # in the matcher


class CoveringTable:
    def __init__(self) -> None:
        self.entries: dict[FilterId, SubscriptionEntry] = {}
        self.index: CoverIndex[FilterId] = CoverIndex()
        self._matcher = IndexedMatcher(in_doubt=True)
        self._numbers: dict[int, SubscriptionEntry] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, id: FilterId, filter: Predicate, hop: Hop) -> SubscriptionEntry:
        number = self._free.pop() if self._free else len(self._numbers)
        entry = SubscriptionEntry(id, filter, hop, number)
        self._matcher.add(number, filter)
        self.entries[id] = self._numbers[number] = entry
        self.index.add(id, filter)
        return entry

    def remove(self, id: FilterId) -> SubscriptionEntry:
        entry = self.entries.pop(id)
        self.index.remove(id)
        self._matcher.remove(entry.number)
        del self._numbers[entry.number]
        self._free.append(entry.number)
        return entry

    def match(self, batch: MessageBatch) -> list[SubscriptionEntry]:
        """The subscriptions that want the one message of this batch."""
        _, found = self._matcher.match(batch)
        numbers = self._numbers
        return [numbers[number] for number in found.tolist()]

    def from_hop(self, hop: Router) -> list[SubscriptionEntry]:
        return [entry for entry in self.entries.values() if entry.hop == hop]


class NeighbourTable:
    def __init__(self, neighbour: Router) -> None:
        self.neighbour = neighbour
        self.advertised: CoverIndex[AdvertisementId] = CoverIndex()
        self.announced: CoverIndex[AdvertisementId] = (
            CoverIndex()
        )  # where advertisements are covered: those it was told
        self.told: CoverIndex[FilterId] = CoverIndex()
        self.preserved = Preserved()  # of those told, the ones that nobody here wants any more

    def wants(self, filter: Predicate) -> bool:
        """Reports whether something advertised from there may match."""
        return next(self.advertised.intersecting(filter), None) is not None

    def covered(self, filter: Predicate) -> bool:
        """Reports whether the neighbour has been told something that covers this."""
        return next(self.told.covering(filter), None) is not None

    def forget(self, id: FilterId) -> Predicate:
        filter = self.told[id]
        self.told.remove(id)
        self.preserved.discard(id)
        return filter

    def quenched_by(self, table: CoveringTable, filter: Predicate) -> Iterator[SubscriptionEntry]:
        """The subscriptions for this neighbour that this filter covers and that it was not told itself."""
        for id in table.index.covered_by(filter):
            entry = table.entries[id]
            if entry.hop != self.neighbour and id not in self.told and self.wants(entry.filter):
                yield entry
