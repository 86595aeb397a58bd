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

An encoded row lets through more than its predicate asks for, so it is known which predicates made it, and one that
brings too much in vain is advertised by its exact filter instead (`narrow`).
"""

from collections.abc import Collection
from heapq import nlargest
from itertools import islice
from typing import NamedTuple

from tidings.kernel.row_antichain import RowAntichain
from tidings.model.codec import decode_predicate, encode_predicate
from tidings.model.constraint import Op
from tidings.model.destination import QUEUE_ATTRIBUTE
from tidings.model.predicate import Conjunction, Predicate
from tidings.routing.bdrp.advertisement import FILTER_BYTES_MAX
from tidings.routing.bdrp.filter_rows import is_filter
from tidings.routing.bdrp.interests import InterestEncoding

LOOKED_AT_MAX = 100_000  # predicates, when the costliest are looked for
_QUEUE = QUEUE_ATTRIBUTE.encode()


class InterestCost(NamedTuple):
    """The costs of advertising a predicate. The form is `exact`, `encoded`, `everything` or `here` (not at all)."""

    subscriptions: int
    form: str
    rows: int
    row_bytes: int
    exact_bytes: int


class LocalInterests:
    """Rows with reference counts, since many subscriptions have equal predicates. Predicates are encoded."""

    def __init__(self, encoding: InterestEncoding) -> None:
        self.encoding = encoding
        self._counts: dict[bytes, int] = {}
        self._minimal = RowAntichain()
        self._also: set[bytes] = set()
        self._everything = encoding.everything()
        self._makers: dict[bytes, set[bytes]] = {}  # the predicates of each encoded row
        self._encoded: dict[bytes, int] = {}  # predicates that have such rows, and the bytes of these
        self._narrowed: set[bytes] = set()
        self.unbounded = 0  # predicates whose rows every message contains

    def __len__(self) -> int:
        """The number of different predicates."""
        return len(self._counts)

    def add(self, predicate: bytes) -> None:
        count = self._counts[predicate] = self._counts.get(predicate, 0) + 1
        if count > 1:
            return
        self._put(predicate, self._rows_of(predicate))

    def remove(self, predicate: bytes) -> None:
        self._counts[predicate] -= 1
        if self._counts[predicate]:
            return
        del self._counts[predicate]
        self._take(predicate, self._rows_of(predicate))
        self._narrowed.discard(predicate)

    def narrow(self, predicate: bytes) -> bool:
        """Advertise a predicate by its exact filter from now on; false if that is not possible or so already."""
        if predicate not in self._encoded or len(predicate) > FILTER_BYTES_MAX:
            return False
        self._take(predicate, self._rows_of(predicate))
        self._narrowed.add(predicate)
        self._put(predicate, self._rows_of(predicate))
        return True

    @property
    def narrowed(self) -> frozenset[bytes]:
        return frozenset(self._narrowed)

    def makers(self, row: bytes) -> Collection[bytes]:
        """The predicates that an encoded row was made of."""
        return self._makers.get(row, ())

    def encoded_rows(self) -> list[bytes]:
        return list(self._makers)

    def cost(self, predicate: bytes) -> InterestCost:
        """The costs of a predicate, also of one that nobody has subscribed with."""
        rows = self._rows_of(predicate)
        form = "exact" if all(map(is_filter, rows)) else "everything" if self._everything <= rows else "encoded"
        count, size = self._counts.get(predicate, 0), sum(map(len, rows))
        return InterestCost(count, form if rows else "here", len(rows), size, len(predicate))

    def costliest(self, count: int) -> list[bytes]:
        """The predicates whose rows take the most bytes, of the first LOOKED_AT_MAX."""
        sizes = self._encoded
        return nlargest(count, islice(self._counts, LOOKED_AT_MAX), key=lambda one: sizes.get(one, len(one)))

    def _put(self, predicate: bytes, rows: set[bytes]) -> None:
        self.unbounded += self._everything <= rows
        for row in rows:
            self.encoding.add_to(self._minimal, row)
        encoded = [row for row in rows if not is_filter(row)]
        for row in encoded:
            self._makers.setdefault(row, set()).add(predicate)
        if encoded:
            self._encoded[predicate] = sum(map(len, rows))

    def _take(self, predicate: bytes, rows: set[bytes]) -> None:
        self.unbounded -= self._everything <= rows
        for row in rows:
            self._minimal.remove(row)
            if row in self._makers:
                self._makers[row].discard(predicate)
                if not self._makers[row]:
                    del self._makers[row]
        self._encoded.pop(predicate, None)

    def _rows_of(self, predicate: bytes) -> set[bytes]:
        """A queue belongs to one broker; others need not know."""
        narrowed = predicate in self._narrowed
        if _QUEUE in predicate:
            read = decode_predicate(predicate)
            topics = [one for one in read.conjunctions if not _of_queues(one)]
            if len(topics) < len(read.conjunctions):
                predicate = encode_predicate(Predicate(topics, read.residual))
        return {self.encoding.exact_row(predicate)} if narrowed else self.encoding.rows(predicate)

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
