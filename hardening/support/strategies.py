"""Random values, properties, patterns and selectors for property tests (needs hypothesis).

Names and literals come from small pools, so that comparisons are often true and attributes often present.
"""

from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tidings.model.constraint import Op
from tidings.model.like import Pattern
from tidings.model.selector import syntax
from tidings.model.selector.syntax import Expression, Identifier, Literal, Operator
from tidings.model.values import INT_MAX, INT_MIN, Untyped, Value

NAMES = ("a", "b", "c", "price", "größe", "$x_1", "Order", "nullable")

_ALPHABET = "ab%_\\'é😀"
_SPECIAL_INTS = (0, 1, -1, 2, 3, 10, INT_MAX, INT_MIN, INT_MAX - 1, 2**53, 2**53 + 1)
_SPECIAL_FLOATS = (0.0, -0.0, 1.0, 0.5, -1.5, 2.0, 10.0, 2.0**53, 2.0**63, 1e300, 5e-324)


@cache
def names() -> SearchStrategy[str]:
    return st.sampled_from(NAMES)


@cache
def texts(max_size: int = 5) -> SearchStrategy[str]:
    return st.text(_ALPHABET, max_size=max_size)


@cache
def ints() -> SearchStrategy[int]:
    return st.sampled_from(_SPECIAL_INTS) | st.integers(-4, 4) | st.integers(INT_MIN, INT_MAX)


@cache
def floats() -> SearchStrategy[float]:
    """Finite ones, as in a selector's text."""
    return st.sampled_from(_SPECIAL_FLOATS) | st.floats(allow_nan=False, allow_infinity=False)


@cache
def values() -> SearchStrategy[Value]:
    """Everything a message can carry."""
    infinities = st.sampled_from((float("inf"), float("-inf")))
    untyped = st.one_of(texts(), st.booleans().map(str), ints().map(str), floats().map(str)).map(Untyped)
    return st.one_of(st.booleans(), ints(), floats(), infinities, texts(), st.binary(max_size=2), untyped)


@cache
def properties() -> SearchStrategy[dict[str, Value | None]]:
    """Some properties, some of them NULL."""
    return st.dictionaries(names(), st.none() | values())


@cache
def patterns() -> SearchStrategy[Pattern]:
    return st.builds(Pattern.parse, texts(), st.sampled_from((None, "\\", "a", "%")))


@cache
def identifiers() -> SearchStrategy[Identifier]:
    return st.builds(Identifier, names())


@cache
def numbers() -> SearchStrategy[Literal]:
    return st.builds(Literal, ints() | floats())


@cache
def literals() -> SearchStrategy[Literal]:
    return st.builds(Literal, ints() | floats() | texts() | st.booleans())


@cache
def arithmetic() -> SearchStrategy[Expression]:
    """Expressions that are numbers or NULL, and plain identifiers."""
    leaves: SearchStrategy[Expression] = identifiers() | numbers()
    return st.recursive(leaves, _arithmetic_above, max_leaves=4)


def _arithmetic_above(below: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
    sums = st.tuples(st.sampled_from((Operator.ADD, Operator.SUB)), below)
    products = st.tuples(st.sampled_from((Operator.MUL, Operator.DIV, Operator.REM)), below)
    return st.one_of(
        st.builds(syntax.signed, st.sampled_from((Operator.ADD, Operator.SUB)), below),
        st.builds(syntax.chain, st.just(syntax.Sum), below, st.lists(sums, min_size=1, max_size=3)),
        st.builds(syntax.chain, st.just(syntax.Product), below, st.lists(products, min_size=1, max_size=3)),
    )


@cache
def constraints() -> SearchStrategy[Expression]:
    """Conditions that compare one identifier with literals, and those that need no more than a name."""
    orders = st.sampled_from((Op.LT, Op.LE, Op.GT, Op.GE))
    equalities = st.sampled_from((Op.EQ, Op.NE))
    ordered = st.builds(Literal, ints() | floats() | texts())
    return st.one_of(
        identifiers(),
        st.builds(syntax.Compare, equalities, identifiers(), literals()),
        st.builds(syntax.Compare, equalities, literals(), identifiers()),
        st.builds(syntax.Compare, orders, identifiers(), ordered),
        st.builds(syntax.Compare, orders, ordered, identifiers()),
        st.builds(syntax.Between, identifiers(), ordered, ordered),
        st.builds(syntax.In, identifiers(), st.lists(literals(), min_size=1, max_size=4).map(tuple)),
        st.builds(syntax.Like, identifiers(), patterns()),
        st.builds(syntax.IsNull, identifiers()),
    )


@cache
def conditions(*, exact: bool = False, max_leaves: int = 8) -> SearchStrategy[Expression]:
    """Canonical trees of selectors; `exact`: only of what constraints can express."""
    if exact:
        return st.recursive(constraints() | st.builds(Literal, st.booleans()), _logic_above, max_leaves=max_leaves)
    compared = st.sampled_from((Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE))
    leaves = st.one_of(
        constraints(),
        st.builds(Literal, st.booleans()),
        st.builds(syntax.Compare, compared, arithmetic(), arithmetic()),
        st.builds(syntax.Between, arithmetic(), arithmetic(), arithmetic()),
        st.builds(syntax.In, arithmetic(), st.lists(literals(), min_size=1, max_size=4).map(tuple)),
        st.builds(syntax.Like, arithmetic() | literals(), patterns()),
        st.builds(syntax.IsNull, arithmetic() | literals()),
    )
    equalities = st.sampled_from((Op.EQ, Op.NE))
    return st.recursive(
        leaves,
        lambda below: (
            _logic_above(below)
            | st.builds(syntax.Compare, equalities, below, below | st.builds(Literal, st.booleans()))
            | st.builds(syntax.IsNull, below)
        ),
        max_leaves=max_leaves,
    )


def _logic_above(below: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
    return st.one_of(
        st.builds(syntax.Not, below),
        st.lists(below, min_size=2, max_size=4).map(syntax.both),
        st.lists(below, min_size=2, max_size=4).map(syntax.either),
    )


_WORDS = (
    *"= <> != < <= > >= + - * / % ( ) ,".split(),  # noqa: SIM905
    *"AND or Not BETWEEN in LIKE ESCAPE is NULL true FALSE exists".split(),  # noqa: SIM905
    *NAMES,
    *("1", "0x1F", "017", "08", "2.5e3", ".5", "1e999", "5d", "9223372036854775808", "'x'", "'%_!'", "'!'", "''"),
    *("'", '"', ".", "#", "é", "\u00a0", "\ud800", "0x", "1e", "5a", "\n", " "),
)


@cache
def token_soup() -> SearchStrategy[str]:
    """Text made of what selectors are made of, in no order."""
    return st.lists(st.sampled_from(_WORDS), max_size=30).map(" ".join)
