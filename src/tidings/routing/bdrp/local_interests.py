"""LOCAL-PREDICATES: the rows that a router advertises for its own subscriptions, kept as they come and go.

>>> from tidings.model.constraint import Constraint, Op
>>> from tidings.matching.encoding import Encoding
>>> interests = LocalInterests(InterestEncoding(Encoding(bits=64, hashes=2), vectors=True))
>>> interests.add(Predicate.of(Constraint("stock", Op.EQ, "XYZ"), Constraint("price", Op.GT, 20)))
>>> interests.add(Predicate.of(Constraint("stock", Op.EQ, "XYZ")))
>>> len(interests.rows())  # the second asks for less: the first adds nothing
1
>>> added, removed = interests.take_changes()
>>> (added, removed) == (interests.rows(), set())
True
"""

from collections import Counter

from tidings.model.destination import QUEUE_ATTRIBUTE
from tidings.model.predicate import Conjunction, Predicate
from tidings.routing.bdrp import filter_rows
from tidings.routing.bdrp.antichain import Antichain
from tidings.routing.bdrp.interests import InterestEncoding


class LocalInterests:
    """Rows with reference counts, since many subscriptions have equal predicates."""

    def __init__(self, encoding: InterestEncoding) -> None:
        self.encoding = encoding
        self._counts: Counter[Predicate] = Counter()
        self._rows: dict[Predicate, set[bytes]] = {}
        self._minimal = Antichain(encoding.members)
        self._also: set[bytes] = set()
        self._everything = encoding.everything()
        self.unbounded = 0  # predicates whose rows every message contains

    def add(self, predicate: Predicate) -> None:
        self._counts[predicate] += 1
        if self._counts[predicate] > 1:
            return
        topics = predicate
        if any(map(_of_queues, predicate.conjunctions)):  # a queue belongs to one broker; others need not know
            some = [one for one in predicate.conjunctions if not _of_queues(one)]
            topics = Predicate(some, predicate.residual)
        rows = self._rows[predicate] = self.encoding.rows(topics)
        self.unbounded += self._everything <= rows
        for row in rows:
            self._minimal.add(row, filter_rows.members(topics, row) if filter_rows.is_filter(row) else None)

    def remove(self, predicate: Predicate) -> None:
        self._counts[predicate] -= 1
        if self._counts[predicate] <= 0:
            for row in self._rows[predicate]:
                self._minimal.remove(row)
            self.unbounded -= self._everything <= self._rows[predicate]
            del self._counts[predicate], self._rows[predicate]

    def also(self, rows: set[bytes]) -> None:
        """Other rows that are advertised beside those of subscriptions, instead of the ones before."""
        for row in rows - self._also:
            self._minimal.add(row)
        for row in self._also - rows:
            self._minimal.remove(row)
        self._also = set(rows)

    def rows(self) -> set[bytes]:
        """The rows of all, without those that another makes needless."""
        return set(self._minimal)

    def take_changes(self) -> tuple[set[bytes], set[bytes]]:
        """Rows added and removed since the last call."""
        return self._minimal.take_changes()


def _of_queues(conjunction: Conjunction) -> bool:
    return any(one.name == QUEUE_ATTRIBUTE for one in conjunction)
