"""Lazy covering: what is covered is not forwarded; what was forwarded before its cover came stays where it is.

Tables are larger than with active covering, but when a cover goes only what came after it has to be forwarded.
"""

from collections.abc import Iterable

from tidings.routing.covering.messages import (
    Change,
    CoveringSubscribe,
    CoveringUnsubscribe,
    FilterId,
    Prune,
)
from tidings.routing.covering.policy import Policy
from tidings.routing.covering.tables import CoveringTable, NeighbourTable, SubscriptionEntry


class Lazy(Policy):
    name = "lazy"

    def fill(self, border: NeighbourTable, entries: Iterable[SubscriptionEntry]) -> list[Change]:
        """Of many at once only the widest are said, whatever their order."""
        fresh: dict[FilterId, SubscriptionEntry] = {}
        for entry in entries:
            if entry.id in border.told or border.covered(entry.filter):
                continue
            for id in [id for id in border.told.covered_by(entry.filter) if id in fresh] if fresh else ():
                border.forget(id)
                del fresh[id]
            border.told.add(entry.id, entry.filter)
            fresh[entry.id] = entry
        return [CoveringSubscribe(entry.id, entry.filter) for entry in fresh.values()]

    def replace(
        self, border: NeighbourTable, table: CoveringTable, id: FilterId, prunes: tuple[Prune, ...] | None
    ) -> list[Change]:
        """First the new roots, those that only this one covered, so that nothing is missed in between."""
        filter = border.forget(id)
        return [*self.fill(border, list(border.quenched_by(table, filter))), CoveringUnsubscribe(id, prunes)]
