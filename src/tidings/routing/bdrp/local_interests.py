"""LOCAL-PREDICATES: the rows that a router advertises for its own subscriptions, kept as they come and go.

>>> from tidings.model.constraint import Constraint, Op
>>> from tidings.matching.encoding import Encoding
>>> interests = LocalInterests(InterestEncoding(Encoding(bits=64, hashes=2), vectors=True))
>>> interests.add(encode_predicate(Predicate.of(Constraint("stock", Op.EQ, "XYZ"), Constraint("price", Op.GT, 20))))
>>> interests.add(encode_predicate(Predicate.of(Constraint("stock", Op.EQ, "XYZ"))))
>>> len(interests.rows())  # the second asks for less: the first adds nothing
1
>>> added, removed = interests.take_changes()
>>> (added, removed) == (interests.rows(), set())
True
"""

from tidings.kernel.row_antichain import RowAntichain
from tidings.model.codec import decode_predicate, encode_predicate
from tidings.model.constraint import Op
from tidings.model.destination import QUEUE_ATTRIBUTE
from tidings.model.predicate import Conjunction, Predicate
from tidings.routing.bdrp.interests import InterestEncoding

_QUEUE = QUEUE_ATTRIBUTE.encode()


class LocalInterests:
    """Rows with reference counts, since many subscriptions have equal predicates. Predicates are encoded."""

    def __init__(self, encoding: InterestEncoding) -> None:
        self.encoding = encoding
        self._counts: dict[bytes, int] = {}
        self._minimal = RowAntichain()
        self._also: set[bytes] = set()
        self._everything = encoding.everything()
        self.unbounded = 0  # predicates whose rows every message contains

    def add(self, predicate: bytes) -> None:
        count = self._counts[predicate] = self._counts.get(predicate, 0) + 1
        if count > 1:
            return
        rows = self._rows_of(predicate)
        self.unbounded += self._everything <= rows
        for row in rows:
            self.encoding.add_to(self._minimal, row)

    def remove(self, predicate: bytes) -> None:
        self._counts[predicate] -= 1
        if self._counts[predicate]:
            return
        del self._counts[predicate]
        rows = self._rows_of(predicate)
        self.unbounded -= self._everything <= rows
        for row in rows:
            self._minimal.remove(row)

    def _rows_of(self, predicate: bytes) -> set[bytes]:
        """A queue belongs to one broker; others need not know."""
        if _QUEUE in predicate:
            read = decode_predicate(predicate)
            topics = [one for one in read.conjunctions if not _of_queues(one)]
            if len(topics) < len(read.conjunctions):
                predicate = encode_predicate(Predicate(topics, read.residual))
        return self.encoding.rows(predicate)

    def also(self, rows: set[bytes]) -> None:
        """Other rows that are advertised beside those of subscriptions, instead of the ones before."""
        for row in rows - self._also:
            self.encoding.add_to(self._minimal, row)
        for row in self._also - rows:
            self._minimal.remove(row)
        self._also = set(rows)

    def rows(self) -> set[bytes]:
        """The rows of all, without those that another makes needless."""
        return set(self._minimal.rows())

    def take_changes(self) -> tuple[set[bytes], set[bytes]]:
        """Rows added and removed since the last call."""
        return self._minimal.take_changes()


def _of_queues(conjunction: Conjunction) -> bool:
    return any(one.name == QUEUE_ATTRIBUTE and one.op is not Op.MISSING for one in conjunction)
