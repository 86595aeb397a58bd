"""Hypothesis strategies for the model. Small pools of names, texts and numbers make collisions likely."""

import math
import string

from hypothesis import strategies as st

from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination, name_fault
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Conjunction, Predicate
from tidings.model.value_set import number_after, number_before
from tidings.model.values import INT_MAX, INT_MIN, Untyped, Value

NAMES = ("a", "b", "price", "stock")
COMPARISONS = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)
EDGES: tuple[int | float, ...] = (INT_MIN, INT_MAX, 2**53, 2**53 + 1, 2.0**53, 2.0**63, -(2.0**63), 1e300)
EDGES += (math.inf, -math.inf, -0.0, 5e-324, 1.0, 0.1)
EDGE_TEXTS = (
    "",
    "a",
    "a\0",
    "ab",
    "b",
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "a\U0010ffff",
    "é",
    "a.b",
    "a.b.c",
    "b.b",
    "a.",
)

texts = st.one_of(
    st.sampled_from(EDGE_TEXTS),
    st.text(alphabet="ab.", max_size=5),
    st.text(max_size=8),
)
numbers = st.one_of(
    st.integers(-5, 5),
    st.sampled_from(EDGES),
    st.sampled_from([0.5, 1.5, -2.5, 4.0]),
    st.integers(INT_MIN, INT_MAX),
    st.floats(allow_nan=False),
)
byte_strings = st.one_of(st.sampled_from([b"", b"\0", b"a", b"a\0", b"\xff"]), st.binary(max_size=4))
operands: st.SearchStrategy[Value] = st.one_of(numbers, texts, st.booleans(), byte_strings)
untyped = st.one_of(texts, numbers.map(str), st.sampled_from(["true", "False", "1e999", "007", "-0.0", "5."])).map(
    Untyped
)
values: st.SearchStrategy[Value] = st.one_of(operands, untyped)
names = st.sampled_from(NAMES)

like_patterns = st.text(alphabet="ab%_\\", max_size=6)
topic_patterns = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=4).flatmap(
    lambda levels: st.sampled_from([".".join(levels), ".".join([*levels, ">"]), ">"])
)


@st.composite
def exact_constraints(
    draw: st.DrawFn, names: st.SearchStrategy[str] = names, operands: st.SearchStrategy[Value] = operands
) -> Constraint:
    """Constraints between which covering is exact."""
    op = draw(st.sampled_from([*COMPARISONS, *COMPARISONS, Op.IN, Op.PREFIX, Op.EXISTS, Op.MISSING]))
    operand: Value | tuple[Value, ...] | None
    match op:
        case Op.EXISTS | Op.MISSING:
            return Constraint(draw(names), op)
        case Op.IN:
            operand = tuple(draw(st.lists(operands, max_size=4)))
        case Op.PREFIX:
            operand = draw(texts)
        case _:
            operand = draw(operands)
    return Constraint(draw(names), op, operand, draw(st.sampled_from([False, False, False, True])))


@st.composite
def text_constraints(draw: st.DrawFn, names: st.SearchStrategy[str] = names) -> Constraint:
    """Constraints on texts for which covering is careful only."""
    op = draw(st.sampled_from([Op.SUFFIX, Op.CONTAINS, Op.LIKE, Op.TOPIC, Op.PREFIX]))
    operand = draw(like_patterns if op is Op.LIKE else topic_patterns if op is Op.TOPIC else texts)
    return Constraint(draw(names), op, operand, draw(st.booleans()))


# One kind of value for each name: between these covering is exact.
_OF_ONE_KIND = {"a": numbers, "b": texts, "price": numbers, "stock": byte_strings}
uniform_constraints = names.flatmap(
    lambda name: exact_constraints(st.just(name), _OF_ONE_KIND[name]).filter(
        lambda one: name == "b" or one.op is not Op.PREFIX
    )
)
uniform_conjunctions = st.lists(uniform_constraints, max_size=4).map(Conjunction)
constraints = st.one_of(exact_constraints(), text_constraints())
exact_conjunctions = st.lists(exact_constraints(), max_size=4).map(Conjunction)
conjunctions = st.lists(constraints, max_size=4).map(Conjunction)
programs = st.one_of(st.none(), st.binary(min_size=1, max_size=5))
predicates = st.builds(Predicate, st.lists(conjunctions, max_size=4), programs)
exact_predicates = st.builds(Predicate, st.lists(exact_conjunctions, max_size=4))

message_ids = st.builds(
    MessageId,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**48 - 1),
    st.integers(0, 2**16 - 1),
)
_levels = st.text(alphabet=string.ascii_lowercase + "é:/-+#", min_size=1, max_size=4)
destination_names = st.lists(_levels, min_size=1, max_size=4).map(".".join).filter(lambda name: not name_fault(name))
destinations = st.builds(Destination, destination_names, st.booleans())
property_names = st.one_of(names, st.text(min_size=1, max_size=10)).filter(
    lambda name: not name.startswith(("@", "JMS"))
)
attribute_maps = st.dictionaries(names, values, max_size=4)
_times = st.one_of(st.none(), st.integers(1, INT_MAX))
messages = st.builds(
    Message,
    destinations,
    st.dictionaries(st.one_of(property_names, st.just("JMSXGroupID")), values, max_size=5),
    st.binary(max_size=20),
    message_ids,
    persistent=st.booleans(),
    priority=st.integers(0, 9),
    timestamp_ms=_times,
    expiration_ms=_times,
    correlation_id=st.one_of(st.none(), texts),
    reply_to=st.one_of(st.none(), destinations),
    type=st.one_of(st.none(), texts),
)


def neighbours(value: Value) -> list[Value]:
    """A value and those next to it: where a wrong bound shows."""
    match value:
        case bool():
            return [False, True, Untyped("true"), Untyped("false")]
        case str():
            pattern = [value.replace("%", "").replace("_", "a"), value.replace("*", "a").replace(">", "b.c")]
            near_text = [value, value + "\0", value + "b", value[:-1], "a" + value, *pattern]
            return [*near_text, *map(Untyped, near_text)]
        case bytes():
            return [value, value + b"\0", value[:-1], value + b"b"]
        case _:
            near = (value, number_before(value), number_after(value), value + 1, value - 1, value + 0.5)
            fit = [one for one in near if one is not None and (isinstance(one, float) or INT_MIN <= one <= INT_MAX)]
            return [*fit, *(Untyped(one) for one in fit)]


def boundary_values(*filters: Conjunction) -> dict[str, list[Value | None]]:
    """For each attribute named: missing, one of each kind, and everything near an operand."""
    found: dict[str, list[Value | None]] = {}
    for conjunction in filters:
        for constraint in conjunction:
            some = found.setdefault(constraint.name, [None, False, True, -math.inf, 0, math.inf, "", "zz", b"", b"zz"])
            operands = constraint.value if isinstance(constraint.value, tuple) else (constraint.value,)
            for operand in operands:
                if operand is not None:
                    some += neighbours(operand)
            if isinstance(constraint.value, str):
                some += _beyond_prefix(constraint.value)
    return found


def _beyond_prefix(prefix: str) -> list[Value]:
    """The first text above all with this prefix."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return []
    point = ord(stem[-1]) + 1
    return [stem[:-1] + chr(0xE000 if point == 0xD800 else point)]


def attributes_near(*filters: Conjunction) -> st.SearchStrategy[dict[str, Value]]:
    """Attribute maps made of boundary values of these conjunctions."""
    choices = {name: st.sampled_from(some) for name, some in boundary_values(*filters).items()}
    return st.fixed_dictionaries(choices).map(
        lambda chosen: {name: value for name, value in chosen.items() if value is not None}
    )
