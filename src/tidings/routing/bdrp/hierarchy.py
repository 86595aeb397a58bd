"""Two levels of B-DRP: clusters of routers, and one border router of each that joins it to the backbone.

        cluster A                backbone                cluster B
    a1 ── a2 ── border A ═══════ border C ═══════ border B ── b1 ── b2

Inside a cluster and on the backbone B-DRP runs as ever, each with its own flood and routes. A border router is in both.
To its cluster it advertises, beside its own interests, an aggregate of what it has heard on the backbone; to the
backbone an aggregate of its cluster. So a router knows its cluster exactly and the rest of the world by one entry, of
bounded size. A message is matched where it enters, at the border of that cluster and at the borders it is sent to;
one that came from the backbone never goes back there, so nothing circulates.

A cluster has one border: without it the cluster is alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Set

from tidings.matching.encoding import Elements, minimal_sets
from tidings.routing.bdrp.elements import elements
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.scheme import Bdrp
from tidings.routing.effects import Effect


def aggregate(sets: Iterable[Elements], rows_max: int) -> set[Elements]:
    """Returns at most `rows_max` sets, such that whatever contains one of the given sets contains one of these.

    Sets that share an element become that element alone: the rarest shared elements first, which say the most.

    >>> sorted(map(sorted, aggregate([frozenset({1, 2}), frozenset({1, 3}), frozenset({7, 8})], 2)))
    [[1], [7, 8]]
    >>> aggregate([frozenset({1}), frozenset({2})], 1)  # nothing in common: everything
    {frozenset()}
    """
    kept = minimal_sets(set(sets))
    while len(kept) > rows_max:
        holders: defaultdict[int, list[Elements]] = defaultdict(list)
        for one in kept:
            for element in one:
                holders[element].append(one)
        shared = sorted((len(some), element) for element, some in holders.items() if len(some) > 1)
        if not shared:
            return {frozenset()}
        for count, element in shared:
            if len(kept) <= rows_max:
                break
            inside = [one for one in holders[element] if one in kept]
            if len(inside) > 1:  # others may have been joined meanwhile
                kept.difference_update(inside)
                kept.add(frozenset({element}))
            if count > 2 * shared[0][0] and len(kept) > rows_max:
                break  # count again: the rare ones are used up, and what is left has changed
    return minimal_sets(kept)


class Border:
    """Joins the schemes of a border router; `changed` whenever one of them has learned something."""

    def __init__(self, inside: Bdrp, outside: Bdrp, rows_max: int) -> None:
        self.inside, self.outside, self.rows_max = inside, outside, rows_max

    def changed(self, now: float) -> tuple[list[Effect], list[Effect]]:
        """Returns the effects inside and outside that tell each side what the other wants, unless it knows."""
        cluster = [self.inside.local_rows(), *self.inside.predicates.values()]
        return (
            self.inside.also(now, self._summary(self.outside.predicates.values(), self.inside.encoding)),
            self.outside.also(now, self._summary(cluster, self.outside.encoding)),
        )

    def _summary(self, many: Iterable[Set[bytes]], encoding: InterestEncoding) -> set[bytes]:
        assert not encoding.vectors, "vectors have no elements to share"
        sets = {frozenset(elements(row)) for rows in many for row in rows}
        return encoding.from_sets(aggregate(sets, self.rows_max))
