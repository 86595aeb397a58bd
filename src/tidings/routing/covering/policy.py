"""The interface of a policy, which is also the policy `none`: everything is forwarded.

A policy decides what to send to a neighbour when a subscription comes, goes, or becomes of interest to it. Each method
changes the border and returns what to say to the neighbour, in this order. It is only asked about borders other than
the one a subscription came from, and when a subscription goes it is no longer in the table.
"""

from collections.abc import Iterable

from tidings.kernel.codec import MessageBatch
from tidings.routing.covering.messages import (
    AdvertisementId,
    Change,
    CoveringSubscribe,
    CoveringUnsubscribe,
    FilterId,
    Prune,
)
from tidings.routing.covering.tables import CoveringTable, NeighbourTable, SubscriptionEntry


class Policy:
    name = "none"
    packs = False  # what a step says to a neighbour travels in one message

    def announce(self, border: NeighbourTable, entry: SubscriptionEntry) -> list[Change]:
        """A subscription came."""
        return self.fill(border, [entry] if border.wants(entry.filter) else [])

    def fill(self, border: NeighbourTable, entries: Iterable[SubscriptionEntry]) -> list[Change]:
        """These subscriptions, all wanted, may be unknown to the neighbour."""
        fresh = [entry for entry in entries if entry.id not in border.told]
        for entry in fresh:
            border.told.add(entry.id, entry.filter)
        return [CoveringSubscribe(entry.id, entry.filter) for entry in fresh]

    def retract(
        self, border: NeighbourTable, table: CoveringTable, id: FilterId, prunes: tuple[Prune, ...] | None
    ) -> list[Change]:
        """A subscription went that the neighbour was told."""
        return self.replace(border, table, id, None)

    def replace(
        self, border: NeighbourTable, table: CoveringTable, id: FilterId, prunes: tuple[Prune, ...] | None
    ) -> list[Change]:
        """The neighbour shall forget it, and first know what has to stand in for it."""
        border.forget(id)
        return [CoveringUnsubscribe(id, prunes)]

    # Only selective pruning has something to do here.

    def handed(self, now: float, id: FilterId, adv: AdvertisementId, distance: int, count: int) -> None:
        """A publication was given to a client of this broker."""

    def leave(self, id: FilterId) -> tuple[Prune, ...] | None:
        """A client of this broker takes a subscription back: how far is that to go?"""
        return None

    def tidy(self, border: NeighbourTable, table: CoveringTable, suspects: Iterable[FilterId]) -> list[Change]:
        """A subscription or an advertisement has gone; these that the neighbour was told may have covered for it."""
        return []

    def arrived(self, border: NeighbourTable, table: CoveringTable, batch: MessageBatch, needed: bool) -> list[Change]:
        """A publication came from the neighbour, and somebody needed it or nobody."""
        return []
