"""The encoding of messages and predicates in plain Python: the control plane's, and the reference for the kernel's.

Each category (categories.py) becomes an *element*: a 64-bit fingerprint under the network's key. A message is the set
of its elements, a predicate a set of such sets, one for each conjunction (or alternative of one); a conjunction can
match only if its set is contained in the message's. Where sets of elements are too large, both become *vectors*: Bloom
filters of M bits with k hashes, for which containment is as necessary.

>>> from tidings.model.constraint import Op
>>> encoding = Encoding()
>>> wanted = Predicate.of(Constraint("stock", Op.EQ, "XYZ"), Constraint("price", Op.GT, 20))
>>> [vector] = encoding.predicate_vectors(wanted)
>>> message = encoding.message_vector({"stock": "XYZ", "price": 50.0, "volume": 7})
>>> vector & ~message, vector.bit_count() <= 14
(0, True)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod
from typing import TypeAlias

from tidings.errors import UsageError
from tidings.kernel.hash64 import MASK, hash64, mix64
from tidings.kernel.matrix import check_bits
from tidings.matching.categories import Alternative, Category, Demand, Grade, PlainGrade
from tidings.model.constraint import Constraint
from tidings.model.covering import conjunction_covers
from tidings.model.predicate import Conjunction, Predicate
from tidings.model.values import Value

Elements: TypeAlias = frozenset[int]

HASHES_MAX = 64
MESSAGE_ELEMENTS_MAX = 1 << 16  # what carries more may match anything: it goes to everybody
SET_ELEMENTS_MAX = 4096  # on the wire; what asks for more asks for this many of them
COVERING_MAX = 256  # conjunctions that are compared with each other before encoding; beyond, only after it
_STEP = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Encoding:
    """Settings that must be the same in the whole network."""

    bits: int = 256
    hashes: int = 7
    key: int = 0
    grade: Grade = field(default_factory=PlainGrade)
    alternatives_max: int = 16  # most sets that one conjunction becomes

    def __post_init__(self) -> None:
        check_bits(self.bits)
        if not 0 < self.hashes <= HASHES_MAX:
            raise UsageError("E_ENCODING_HASHES", f"hashes must be from 1 to {HASHES_MAX}, not {self.hashes}")
        if not 0 <= self.key <= MASK:
            raise UsageError("E_ENCODING_KEY", "the key must be from 0 to 2**64 - 1")
        if self.alternatives_max < 1:
            raise UsageError(
                "E_ENCODING_ALTERNATIVES", f"alternatives_max must be at least 1, not {self.alternatives_max}"
            )

    def element(self, category: Category) -> int:
        name, what = category
        return hash64(what, hash64(name.encode(), self.key))

    def message_elements(self, attributes: Mapping[str, Value]) -> Elements:
        """E_ENCODING_LIMIT for a message that carries too many: it may match any predicate."""
        carried = self._carried(attributes)
        if carried is None:
            raise UsageError("E_ENCODING_LIMIT", f"the message carries more than {MESSAGE_ELEMENTS_MAX} elements")
        return frozenset(map(self.element, carried))

    def _carried(self, attributes: Mapping[str, Value]) -> list[Category] | None:
        """A message's categories, some perhaps twice; None if they are too many."""
        every = (category for name, value in attributes.items() for category in self.grade.carried(name, value))
        carried = list(islice(every, MESSAGE_ELEMENTS_MAX + 1))
        return carried if len(carried) <= MESSAGE_ELEMENTS_MAX else None

    def conjunction_elements(self, constraints: Sequence[Constraint]) -> set[Elements]:
        alternatives = choose(self.grade.asked(constraints), self.alternatives_max)
        return {frozenset(sorted(set(map(self.element, one)))[:SET_ELEMENTS_MAX]) for one in alternatives}

    def predicate_elements(self, predicate: Predicate) -> set[Elements]:
        """Sets of which at least one lies in each matching message's; none contains another."""
        conjunctions = uncovered(predicate.conjunctions)
        return minimal_sets({one for each in conjunctions for one in self.conjunction_elements(each)})

    def vector(self, elements: Iterable[int]) -> int:
        """The Bloom filter of some elements: bit i of the vector is bit i of the number."""
        vector = 0
        for element in elements:
            for position in positions(element, self.bits, self.hashes):
                vector |= 1 << position
        return vector

    def message_vector(self, attributes: Mapping[str, Value]) -> int:
        """All bits are set for a message that carries too many elements."""
        carried = self._carried(attributes)
        return (1 << self.bits) - 1 if carried is None else self.vector(set(map(self.element, carried)))

    def predicate_vectors(self, predicate: Predicate) -> set[int]:
        """Vectors of which at least one is a subset of each matching message's; none contains another."""
        return minimal_vectors({self.vector(one) for one in self.predicate_elements(predicate)})


def positions(element: int, bits: int, hashes: int) -> list[int]:
    """An element's k bits: 16 bits of hash each. Double hashing would repeat positions too often in so few bits.

    >>> positions(1, 256, 3)
    [238, 225, 192]
    """
    words = [mix64((element + (i // 4 + 1) * _STEP) & MASK) for i in range(0, hashes, 4)]
    return [((words[i // 4] >> 16 * (i % 4) & 0xFFFF) * bits) >> 16 for i in range(hashes)]


def choose(demands: Sequence[Demand], alternatives_max: int) -> list[Alternative]:
    """A conjunction's alternatives: of each demand the finest level that still fits, short demands first."""
    chosen: dict[int, tuple[Alternative, ...]] = {}
    for i in sorted(range(len(demands)), key=lambda i: len(demands[i].finest)):
        room = alternatives_max // prod(map(len, chosen.values()))
        chosen[i] = next(level for level in demands[i].levels if len(level) <= room)
    return [tuple(one for part in parts for one in part) for parts in product(*chosen.values())]


def uncovered(conjunctions: Sequence[Conjunction]) -> list[Conjunction]:
    """Without those that no message satisfies and, unless there are many, those covered by another."""
    kept: list[Conjunction] = []
    possible = [one for one in conjunctions if one.normal.satisfiable]
    if len(possible) > COVERING_MAX:
        return possible
    for one in sorted(possible, key=len):  # stable; of equivalent ones the first stays
        if not any(conjunction_covers(other, one) for other in kept):
            kept = [other for other in kept if not conjunction_covers(one, other)]
            kept.append(one)
    return kept


def minimal_sets(sets: set[Elements]) -> set[Elements]:
    """Those that contain no other.

    >>> minimal_sets({frozenset({1}), frozenset({1, 2}), frozenset({3, 4})}) == {frozenset({1}), frozenset({3, 4})}
    True
    """
    kept: dict[int, list[Elements]] = {}  # by that of their elements under which there were fewest
    minimal: set[Elements] = set()
    if frozenset() in sets:
        return {frozenset()}
    for one in sorted(sets, key=len):
        if not any(small <= one for element in one for small in kept.get(element, ())):
            kept.setdefault(min(one, key=lambda element: len(kept.get(element, ()))), []).append(one)
            minimal.add(one)
    return minimal


def minimal_vectors(vectors: set[int]) -> set[int]:
    """Those that contain no other.

    >>> sorted(minimal_vectors({0b0001, 0b1001, 0b0110}))
    [1, 6]
    """
    kept: list[int] = []
    for one in sorted(vectors, key=int.bit_count):
        if all(small & ~one for small in kept):
            kept.append(one)
    return set(kept)
