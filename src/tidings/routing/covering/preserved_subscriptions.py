"""Subscriptions that nobody wants any more, kept towards a neighbour as imprecise covers of others.

A preserved subscription is in no table of this broker, so it delivers to nobody; the neighbour goes on sending what
matches it, and what then matches nothing here was sent in vain: a false positive, and this broker is the one that sees
it.

How many are borne is bounded by a bucket of tokens for each. A publication from the neighbour that matches the
preserved subscription puts 1 − φ of a token in, up to `depth`; one sent in vain takes a whole one out; when none is
left, the subscription must go. So of any n consecutive publications that it lets through, at most (1 − φ) · n + depth
are in vain, whatever the traffic: not an average over all time, in which a good past would pay for a bad present.

>>> from tidings.model.predicate import Predicate
>>> bucket = Bucket(phi=0.9, depth=2.0)
>>> [bucket.take(needed=False) for _ in range(3)]
[True, True, False]
"""

from collections.abc import Iterator

from tidings.kernel.codec import MessageBatch
from tidings.matching.indexed import IndexedMatcher
from tidings.model.predicate import Predicate
from tidings.routing.covering.messages import FilterId


class Bucket:
    __slots__ = ("depth", "phi", "tokens")

    def __init__(self, phi: float, depth: float) -> None:
        self.phi, self.depth = phi, depth
        self.tokens = depth

    def take(self, needed: bool) -> bool:
        """One publication more; whether what let it through may stay."""
        self.tokens = min(self.depth, self.tokens + 1 - self.phi)
        if not needed:
            self.tokens -= 1
        return self.tokens >= 0


class Preserved:
    def __init__(self) -> None:
        self._buckets: dict[FilterId, tuple[int, Bucket]] = {}
        self._ids: dict[int, FilterId] = {}
        self._matcher = IndexedMatcher(in_doubt=True)
        self._next = 0

    def __len__(self) -> int:
        return len(self._buckets)

    def __contains__(self, id: object) -> bool:
        return id in self._buckets

    def __iter__(self) -> Iterator[FilterId]:
        return iter(self._buckets)

    def add(self, id: FilterId, filter: Predicate, bucket: Bucket) -> None:
        self._next += 1
        self._matcher.add(self._next, filter)
        self._buckets[id] = (self._next, bucket)
        self._ids[self._next] = id

    def discard(self, id: FilterId) -> None:
        if id in self._buckets:
            number, _ = self._buckets.pop(id)
            self._matcher.remove(number)
            del self._ids[number]

    def account(self, batch: MessageBatch, needed: bool) -> list[FilterId]:
        """A publication came from the neighbour; those that may not stay."""
        _, found = self._matcher.match(batch)
        ids = [self._ids[number] for number in sorted(found.tolist())]
        return [id for id in ids if not self._buckets[id][1].take(needed)]
