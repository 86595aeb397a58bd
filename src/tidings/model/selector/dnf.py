"""Translates a syntax tree to a predicate: a disjunction of conjunctions of constraints.

For each condition e two predicates exist: T(e), when it is true, and F(e), when it is false. They are built without
ever negating a predicate: T(NOT e) = F(e), T(a AND b) = T(a) x T(b), F(a AND b) = F(a) + F(b), and dually for OR. For a
constraint c, T is c and F is `c.negate()`: present, and not so. So "unknown" comes out right, because neither
holds for a missing attribute.

Not everything fits. A comparison of two attributes, or with arithmetic, is no constraint; and the product of many ORs
is too large. What does not fit is replaced by something weaker, so that the predicate is always a *necessary*
condition; `exact` says whether it is sufficient too. If it is not, the selector's program has the last word.

>>> from tidings.model.selector.parser import parse
>>> translate(parse("NOT (price > 20 OR stock LIKE 'X%')")).conjunctions[0][1]
Constraint(name='stock', op=<Op.PREFIX: 8>, value='X', negated=True)
>>> translate(parse("price > 2 * cost")).exact
False
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, assert_never

from tidings.model.constraint import Constraint, Op
from tidings.model.like import Pattern
from tidings.model.selector.evaluate import constant
from tidings.model.selector.operations import relate
from tidings.model.selector.syntax import (
    And,
    Between,
    Compare,
    Expression,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Product,
    Signed,
    Sum,
    bounds,
    static_kind,
    walk,
)
from tidings.model.values import Kind, Untyped, Value, kind

CONJUNCTIONS_MAX = 64
"""Conjunctions in a predicate, unless the caller says otherwise."""
CONSTRAINTS_MAX = 16384
"""Constraints in a predicate: no fewer than a selector has tokens, so only what multiplies comes near."""

Constraints: TypeAlias = tuple[Constraint, ...]


class Translation(NamedTuple):
    """A predicate; `exact` if it holds precisely where the selector is true, and not only there."""

    conjunctions: tuple[Constraints, ...]
    exact: bool


_ALWAYS = Translation(((),), exact=True)
_NEVER = Translation((), exact=True)

_FLIPPED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}


def translate(tree: Expression, conjunctions_max: int = CONJUNCTIONS_MAX) -> Translation:
    """T(tree), with at most `conjunctions_max` conjunctions (at least 1)."""
    return _Translator(conjunctions_max).side(tree, True)


@dataclass(frozen=True, slots=True)
class _Translator:
    conjunctions_max: int

    def side(self, node: Expression, wanted: bool) -> Translation:
        """T(node) or F(node)."""
        match node:
            case Not():
                return self.side(node.operand, not wanted)
            case And() | Or():
                parts = [self.side(term, wanted) for term in node.terms]
                return self._conjoin(parts) if isinstance(node, And) is wanted else self._disjoin(parts)
            case Between():
                return self.side(bounds(node), wanted)
            case Compare():
                return self._compare(node, wanted)
            case Identifier():
                return _atom(Constraint(node.name, Op.EQ, True), wanted)
            case In(operand=Identifier(name=name)):
                return _atom(_one_of(name, [choice.value for choice in node.choices]), wanted)
            case Like(operand=Identifier(name=name)):
                return _atom(_like(name, node.pattern), wanted)
            case IsNull(operand=Identifier(name=name)):
                return _atom(Constraint(name, Op.MISSING), wanted)
            case In() | Like() | IsNull():
                return _computed(node, wanted)
            case Literal():
                return _ALWAYS if node.value is wanted else _NEVER
            case Signed() | Sum() | Product():
                raise AssertionError("the parser lets no number stand as a condition")
            case _:
                assert_never(node)

    def _compare(self, node: Compare, wanted: bool) -> Translation:
        op, left, right = node.op, node.left, node.right
        if _is_constant(left):
            op, left, right = _FLIPPED[op], right, left
        if not _is_constant(right):
            return _present([left, right])
        value = constant(right)
        if value is None:
            return _NEVER  # always unknown
        if _is_constant(left):
            return _ALWAYS if relate(op, constant(left), value) is wanted else _NEVER
        if isinstance(left, Identifier):
            return _atom(Constraint(left.name, op, value), wanted)
        if isinstance(value, bool) and static_kind(left) is Kind.BOOL:
            return self.side(left, wanted == ((op is Op.EQ) == value))  # (a > b) = TRUE is a > b
        return _present([left])

    def _conjoin(self, parts: list[Translation]) -> Translation:
        """The product. Single conjunctions first, then the ORs from small to large, as long as there is room."""
        if not all(part.conjunctions for part in parts):
            return _NEVER
        exact = all(part.exact for part in parts)
        products: list[Constraints] = [tuple(c for part in parts if len(part[0]) == 1 for c in part[0][0])]
        for conjunctions, _ in sorted((part for part in parts if len(part[0]) > 1), key=lambda part: len(part[0])):
            size = len(products) * _size(conjunctions) + len(conjunctions) * _size(products)
            if len(products) * len(conjunctions) > self.conjunctions_max or size > CONSTRAINTS_MAX:
                weaker, exact = _merge(conjunctions)[0], False
                products = [product + weaker for product in products]
            else:
                products = [product + one for product in products for one in conjunctions]
        possible = _distinct(one for product in products if (one := _simplify(product)) is not None)
        return Translation(tuple(possible), exact) if possible else _NEVER

    def _disjoin(self, parts: list[Translation]) -> Translation:
        """The union, and where it is too long a shorter one that contains it."""
        if any(part.exact and () in part.conjunctions for part in parts):
            return _ALWAYS
        exact = all(part.exact for part in parts)
        conjunctions = _distinct(one for part in parts for one in part.conjunctions)
        if () in conjunctions:
            return Translation(((),), exact)
        if len(conjunctions) <= self.conjunctions_max and _size(conjunctions) <= CONSTRAINTS_MAX:
            return Translation(tuple(conjunctions), exact)
        return self._shorten(conjunctions, exact)

    def _shorten(self, conjunctions: list[Constraints], exact: bool) -> Translation:
        """Merge those that speak of the same attributes, the largest group first; if that is not enough, all."""
        groups: defaultdict[frozenset[str], list[Constraints]] = defaultdict(list)
        for one in conjunctions:
            groups[frozenset(constraint.name for constraint in one)].append(one)
        count, size = len(conjunctions), _size(conjunctions)
        result: list[Constraints] = []
        for group in sorted(groups.values(), key=len, reverse=True):
            if count <= self.conjunctions_max and size <= CONSTRAINTS_MAX:
                result += group
                continue
            merged, lossless = _merge(group)
            result.append(merged)
            exact = exact and lossless
            count -= len(group) - 1
            size -= _size(group) - len(merged)
        if count > self.conjunctions_max or size > CONSTRAINTS_MAX:
            result, exact = [_merge(result)[0]], False
        return Translation(tuple(result), exact)


def _atom(constraint: Constraint, wanted: bool) -> Translation:
    return Translation(((constraint if wanted else constraint.negate(),),), exact=True)


def _one_of(name: str, values: Iterable[Value]) -> Constraint:
    constraint = Constraint(name, Op.IN, tuple(values))
    match constraint.value:
        case (only,):
            return Constraint(name, Op.EQ, only)
        case _:
            return constraint


def _like(name: str, pattern: Pattern) -> Constraint:
    match pattern.literals:
        case (text,):
            return Constraint(name, Op.EQ, text)
        case (start, ""):
            return Constraint(name, Op.PREFIX, start)
        case ("", end):
            return Constraint(name, Op.SUFFIX, end)
        case ("", middle, ""):
            return Constraint(name, Op.CONTAINS, middle)
        case _:
            return Constraint(name, Op.LIKE, pattern.text)


def _computed(node: In | Like | IsNull, wanted: bool) -> Translation:
    """A test of something that is not an attribute but made from some."""
    if _is_constant(node):
        return _ALWAYS if constant(node) is wanted else _NEVER
    if isinstance(node, IsNull) and wanted:
        return Translation(((),), exact=False)
    return _present([node.operand])


def _is_constant(node: Expression) -> bool:
    return isinstance(node, Literal) or not any(isinstance(one, Identifier) for one in walk(node))


def _present(operands: Iterable[Expression]) -> Translation:
    """A comparison of these is neither true nor false while an attribute it computes with is missing."""
    names = dict.fromkeys(name for operand in operands for name in _needed(operand))
    return Translation((tuple(Constraint(name, Op.EXISTS) for name in names),), exact=False)


def _needed(node: Expression) -> list[str]:
    """The identifiers without which a value is NULL. A condition inside may be known without its identifiers."""
    match node:
        case Identifier():
            return [node.name]
        case Signed():
            return _needed(node.operand)
        case Sum() | Product():
            return _needed(node.first) + [name for _, operand in node.rest for name in _needed(operand)]
        case Literal() | Compare() | Between() | In() | Like() | IsNull() | Not() | And() | Or():
            return []
        case _:
            assert_never(node)


def _distinct(conjunctions: Iterable[Constraints]) -> list[Constraints]:
    return list({frozenset(one): one for one in conjunctions}.values())


def _size(conjunctions: Iterable[Constraints]) -> int:
    return sum(map(len, conjunctions))


def _by_name(conjunction: Constraints) -> dict[str, list[Constraint]]:
    """The constraints on each attribute, each once."""
    names: dict[str, list[Constraint]] = {}
    for constraint in dict.fromkeys(conjunction):
        names.setdefault(constraint.name, []).append(constraint)
    return names


def _simplify(conjunction: Constraints) -> Constraints | None:
    """The same with fewer constraints; None if it can never hold. (Ranges are not looked at.)"""
    result: list[Constraint] = []
    for constraints in _by_name(conjunction).values():
        fixed = next((one for one in constraints if one.op is Op.EQ and not one.negated), None)
        if fixed is not None:  # that value decides all the others
            assert fixed.value is not None
            assert not isinstance(fixed.value, tuple)
            decided = _decided(fixed, fixed.value, constraints)
            if decided is None:
                return None
            constraints = [fixed, *decided]
        elif len(constraints) > 1:
            if any(one.op is Op.MISSING for one in constraints):
                return None  # all others need the attribute
            constraints = [one for one in constraints if one.op is not Op.EXISTS]  # the others imply it
        result += constraints
    return tuple(result)


def _decided(fixed: Constraint, value: Value, constraints: Sequence[Constraint]) -> list[Constraint] | None:
    """Those of the constraints that an equality leaves open; None if it contradicts one.

    A string may be untyped text, and untyped text that equals a number may be spelt in many ways.
    """
    if isinstance(value, str):
        typed, untyped = (all(one.holds(v) for one in constraints) for v in (value, Untyped(value)))
        if not typed and not untyped:
            return None
        return [] if typed and untyped else [one for one in constraints if one != fixed]
    alike = [one for one in constraints if one.op in (Op.EXISTS, Op.MISSING) or one.kinds == {kind(value)}]
    others = [one for one in constraints if one not in alike]
    if not all(one.holds(value) for one in alike) or any(_elsewhere(one, kind(value)) for one in others):
        return None
    return others


def _elsewhere(constraint: Constraint, kind: Kind) -> bool:
    """Reports whether it asks for another kind and neither is text: no text reads as two of number, boolean, bytes."""
    return not constraint.negated and not constraint.kinds & {Kind.STRING, kind}


def _merge(conjunctions: Sequence[Constraints]) -> tuple[Constraints, bool]:
    """One conjunction that holds wherever any of these does, and whether it holds nowhere else."""
    all_names = [_by_name(one) for one in conjunctions]
    result: list[Constraint] = []
    shared = set(all_names[0])
    for names in all_names[1:]:
        shared.intersection_update(names)
    for name in [name for name in all_names[0] if name in shared]:
        alternatives = [names[name] for names in all_names]
        result += _common(name, alternatives)
    choices = len(result) == 1 and all(len(one) == 1 and _choices(one) is not None for one in conjunctions)
    return tuple(result), choices and all(result[0].name in names for names in all_names)


def _common(name: str, alternatives: list[list[Constraint]]) -> list[Constraint]:
    """The constraints on one attribute that all alternatives imply: IN of all values, equal constraints, or EXISTS."""
    choices = [_choices(one) for one in alternatives]
    if all(one is not None for one in choices):
        return [_one_of(name, [value for one in choices for value in one or ()])]
    shared = dict.fromkeys(alternatives[0])
    for one in alternatives[1:]:
        shared = {constraint: None for constraint in one if constraint in shared}
    if shared:
        return list(shared)
    if all(one and all(c.op is not Op.MISSING for c in one) for one in alternatives):
        return [Constraint(name, Op.EXISTS)]
    return []


def _choices(constraints: Sequence[Constraint]) -> tuple[Value, ...] | None:
    """The values that an EQ or IN among these leaves possible."""
    for one in constraints:
        if one.op in (Op.EQ, Op.IN) and not one.negated:
            assert one.value is not None
            return one.value if isinstance(one.value, tuple) else (one.value,)
    return None
