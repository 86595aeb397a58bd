"""Active covering: a neighbour gets the widest subscriptions and no others, so tables are as small as can be."""

from collections.abc import Iterable

from tidings.routing.covering.lazy import Lazy
from tidings.routing.covering.messages import Change, CoveringSubscribe, CoveringUnsubscribe, FilterId
from tidings.routing.covering.tables import NeighbourTable, SubscriptionEntry


class Active(Lazy):
    name = "active"

    def fill(self, border: NeighbourTable, entries: Iterable[SubscriptionEntry]) -> list[Change]:
        changes = super().fill(border, entries)
        narrower: dict[FilterId, None] = {}
        for change in changes:
            assert isinstance(change, CoveringSubscribe)
            narrower.update((id, None) for id in border.told.covered_by(change.filter) if id != change.id)
        for id in narrower:
            border.forget(id)
        return [*changes, *(CoveringUnsubscribe(id) for id in narrower)]
