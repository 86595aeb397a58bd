"""Predicates: a disjunction of conjunctions of constraints, and perhaps a program for what constraints cannot say.

The canonical form is structural: constraints sorted within a conjunction, conjunctions sorted, neither twice. Two
predicates are equal if they are written alike in that form; `covers` (covering.py) compares what they mean.

>>> from tidings.model.constraint import Op
>>> cheap = Constraint("price", Op.LT, 10)
>>> predicate = Predicate([[cheap, cheap, Constraint("stock", Op.EQ, "XYZ")]])
>>> len(predicate.conjunctions[0]), predicate.matches({"price": 5, "stock": "XYZ"}), Predicate.always().matches({})
(2, True, True)
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from tidings.errors import UsageError
from tidings.model.attribute_set import AttributeSet
from tidings.model.constraint import Constraint
from tidings.model.destination import QUEUE_ATTRIBUTE, TOPIC_ATTRIBUTE
from tidings.model.value_set import MISSING_KEY, key_bytes
from tidings.model.values import Value

Attributes: TypeAlias = Mapping[str, Value]
# Of each attribute the least value allowed and the first beyond, as bytes in order (value_set.py); None: text tests or
# several kinds say more than these would.
Box: TypeAlias = list[tuple[str, bytes | None, bytes | None]]
Evaluate: TypeAlias = Callable[[bytes, Attributes], bool | None]  # runs a residual program

PROGRAM_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Normal:
    """The normal form of a conjunction: a set of allowed values for each attribute it names."""

    sets: Mapping[str, AttributeSet]
    satisfiable: bool
    place: int  # 1: only topics, 2: only queues, 0: either; no message is at both


class Conjunction(tuple[Constraint, ...]):
    """Constraints in canonical order, each once. Empty: always true. Its meaning is worked out once and kept."""

    def __new__(cls, constraints: Iterable[Constraint] = ()) -> "Conjunction":
        if type(constraints) is Conjunction:
            return constraints
        return super().__new__(cls, sorted(set(constraints)))

    @cached_property
    def normal(self) -> Normal:
        by_name: dict[str, list[Constraint]] = {}
        for constraint in self:
            by_name.setdefault(constraint.name, []).append(constraint)
        sets = {name: AttributeSet.of(constraints) for name, constraints in by_name.items()}
        place = sum(
            bit
            for bit, name in ((1, TOPIC_ATTRIBUTE), (2, QUEUE_ATTRIBUTE))
            if name in sets and MISSING_KEY not in sets[name].cuts
        )
        return Normal(sets, place != 3 and all(one.possible for one in sets.values()), place % 3)

    @cached_property
    def box(self) -> Box:
        """The hull of what it allows each attribute it names; it must be satisfiable."""
        sides: Box = []
        for name, one in self.normal.sets.items():
            if one.tests or one.readings:
                sides.append((name, None, None))
            else:
                sides.append((name, key_bytes(one.cuts[0]), key_bytes(one.cuts[-1])))
        return sides

    def matches(self, attributes: Attributes) -> bool:
        get = attributes.get
        return all(constraint.holds(get(constraint.name)) for constraint in self)

    def also(self, constraint: Constraint) -> "Conjunction":
        return Conjunction((*self, constraint))


@dataclass(frozen=True, slots=True, init=False)
class Predicate:
    conjunctions: tuple[Conjunction, ...]
    residual: bytes | None

    def __init__(self, conjunctions: Iterable[Iterable[Constraint]], residual: bytes | None = None) -> None:
        if residual is not None and len(residual) > PROGRAM_BYTES_MAX:
            raise UsageError("E_PREDICATE_PROGRAM", f"a program has at most {PROGRAM_BYTES_MAX} bytes")
        unique = sorted({Conjunction(one) for one in conjunctions})
        object.__setattr__(self, "conjunctions", tuple(unique))
        object.__setattr__(self, "residual", residual or None)

    @staticmethod
    def always() -> "Predicate":
        return Predicate([()])

    @staticmethod
    def never() -> "Predicate":
        return Predicate([])

    @staticmethod
    def of(*constraints: Constraint) -> "Predicate":
        """The conjunction of these."""
        return Predicate([constraints])

    def within(self, constraint: Constraint) -> "Predicate":
        """This and one more constraint, such as a destination's."""
        return Predicate([one.also(constraint) for one in self.conjunctions], self.residual)

    def matches(self, attributes: Attributes, evaluate: Evaluate | None = None) -> bool:
        """Reports whether these attributes match. Without `evaluate` a residual program counts as true."""
        if not any(one.matches(attributes) for one in self.conjunctions):
            return False
        return self.residual is None or evaluate is None or evaluate(self.residual, attributes) is True
