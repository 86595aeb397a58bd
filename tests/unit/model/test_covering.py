import math
from itertools import product

import pytest
from hardening.support.strategies_model import (
    attributes_near,
    boundary_values,
    conjunctions,
    constraints,
    predicates,
    topic_patterns,
    uniform_conjunctions,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.model.constraint import Constraint, Op
from tidings.model.covering import covers, intersects, satisfiable
from tidings.model.like import topic_matches
from tidings.model.predicate import Conjunction, Predicate
from tidings.model.values import Value


def holding(conjunction: Conjunction, name: str, candidates: list[Value | None]) -> list[Value | None]:
    """Which of the candidates a conjunction allows for one attribute."""
    own = [one for one in conjunction if one.name == name]
    return [value for value in candidates if all(one.holds(value) for one in own)]


@given(conjunctions, conjunctions, st.data())
@settings(max_examples=300)
def test_covers_means_implies(f: Conjunction, g: Conjunction, data: st.DataObject) -> None:
    near = data.draw(attributes_near(f, g))
    if covers(f, g):
        assert f.matches(near) or not g.matches(near)
    if not intersects(f, g):
        assert not (f.matches(near) and g.matches(near))


@given(constraints, constraints)
@settings(max_examples=500)
def test_constraints_on_one_attribute(f: Constraint, g: Constraint) -> None:
    a, b = (
        Conjunction([Constraint("x", f.op, f.value, f.negated)]),
        Conjunction([Constraint("x", g.op, g.value, g.negated)]),
    )
    both = [(a.matches(m), b.matches(m)) for v in boundary_values(a, b)["x"] for m in ({} if v is None else {"x": v},)]
    assert (False, True) not in both or not covers(a, b)
    assert (True, True) not in both or intersects(a, b)
    assert intersects(a, b) == intersects(b, a)


@given(uniform_conjunctions, uniform_conjunctions)
@settings(max_examples=300)
def test_exact_where_promised(f: Conjunction, g: Conjunction) -> None:
    """Whatever is denied, boundary values bear witness."""
    near = boundary_values(f, g)
    allowed = {name: holding(g, name, some) for name, some in near.items()}
    possible = all(allowed.values())
    assert satisfiable(g) == possible
    if possible and satisfiable(f):
        escapes = any(len(holding(f, name, some)) < len(some) for name, some in allowed.items())
        assert covers(f, g) == (not escapes)
    assert intersects(f, g) == all(holding(f, name, some) for name, some in allowed.items())


@given(predicates, predicates, st.data())
def test_predicates(f: Predicate, g: Predicate, data: st.DataObject) -> None:
    near = data.draw(attributes_near(*f.conjunctions, *g.conjunctions))

    def evaluate(program: bytes, attributes: object) -> bool:
        return len(program) % 2 == 0

    if covers(f, g):
        assert f.matches(near, evaluate) or not g.matches(near, evaluate)
    if not intersects(f, g):
        assert not (f.matches(near, evaluate) and g.matches(near, evaluate))
    assert covers(f, f)
    assert covers(f, Predicate.never())
    assert covers(Predicate.always(), f)
    assert not intersects(f, Predicate.never())


TOPICS = [".".join(levels) for n in range(1, 6) for levels in product("abc", repeat=n)]


@given(topic_patterns, topic_patterns)
def test_topic_patterns_are_exact(f: str, g: str) -> None:
    a, b = Constraint("@topic", Op.TOPIC, f), Constraint("@topic", Op.TOPIC, g)
    of_f = {topic for topic in TOPICS if topic_matches(f, topic)}
    of_g = {topic for topic in TOPICS if topic_matches(g, topic)}
    assert covers(a, b) == (of_g <= of_f)
    assert intersects(a, b) == bool(of_f & of_g)


def c(op: Op, operand: Value | tuple[Value, ...] | None = None, negated: bool = False) -> Constraint:
    return Constraint("x", op, operand, negated)


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (c(Op.GE, 1), c(Op.GT, 1)),
        (c(Op.LT, 2**53 + 2), c(Op.LE, 2**53 + 1)),
        (c(Op.LE, 2**53 + 1), c(Op.LT, 2**53 + 2)),  # no value lies between
        (c(Op.GE, -math.inf), c(Op.IN, (1, 2.5))),
        (c(Op.PREFIX, ""), c(Op.NE, "a")),
        (c(Op.GE, "a"), c(Op.PREFIX, "ab")),
        (c(Op.PREFIX, "ab"), c(Op.LIKE, "abc%d_")),
        (c(Op.SUFFIX, "c"), c(Op.SUFFIX, "bc")),
        (c(Op.CONTAINS, "b"), c(Op.PREFIX, "abc")),
        (c(Op.CONTAINS, "b"), c(Op.EQ, "abc")),
        (c(Op.LIKE, "%a_c%"), c(Op.LIKE, "_abc%")),
        (c(Op.NE, "a"), c(Op.SUFFIX, "b")),
        (c(Op.SUFFIX, "x", negated=True), c(Op.EQ, "five")),
        (c(Op.CONTAINS, "ab", negated=True), c(Op.CONTAINS, "b", negated=True)),
        (c(Op.SUFFIX, "a", negated=True), c(Op.SUFFIX, "b")),
        (c(Op.EXISTS), c(Op.LIKE, "a", negated=True)),
        (c(Op.GT, 5, negated=True), c(Op.EQ, "five")),
        (c(Op.TOPIC, "*.b"), c(Op.EQ, "a.b")),
        (c(Op.TOPIC, "a.*.>"), c(Op.PREFIX, "a.b.")),
    ],
)
def test_covers(f: Constraint, g: Constraint) -> None:
    assert covers(f, g)


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (c(Op.GT, 1), c(Op.LT, 2)),
        (c(Op.NE, 1), c(Op.NE, 2)),
        (c(Op.EQ, "text"), c(Op.GT, 9, negated=True)),
        (c(Op.SUFFIX, "b"), c(Op.PREFIX, "a")),
        (c(Op.GE, math.inf), c(Op.GT, 1e308)),
    ],
)
def test_intersects_without_covering(f: Constraint, g: Constraint) -> None:
    assert intersects(f, g)
    assert not covers(f, g)


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (c(Op.EQ, 1), c(Op.EQ, True)),
        (c(Op.NE, 1), c(Op.EQ, "1")),
        (c(Op.GT, 2**53 + 1), c(Op.LT, 2**53 + 2)),
        (c(Op.GT, math.inf), c(Op.EXISTS)),
        (c(Op.MISSING), c(Op.EXISTS)),
        (c(Op.IN, ()), c(Op.EXISTS)),
        (c(Op.PREFIX, "a"), c(Op.PREFIX, "b")),
        (c(Op.SUFFIX, "a"), c(Op.SUFFIX, "b")),
        (c(Op.CONTAINS, "b"), c(Op.CONTAINS, "b", negated=True)),
        (c(Op.TOPIC, "*.b"), c(Op.PREFIX, "a.b.")),
    ],
)
def test_disjoint(f: Constraint, g: Constraint) -> None:
    assert not intersects(f, g)


def test_disjuncts_that_cover_only_together() -> None:
    y = Constraint("y", Op.EQ, 1)
    halves = Predicate([[c(Op.LT, 5)], [c(Op.GE, 5)]])
    assert covers(halves, Predicate.of(c(Op.GT, 1), y))
    assert not covers(halves, Predicate.of(y))
    assert covers(Predicate([[c(Op.MISSING)], [c(Op.EXISTS)]]), Predicate.of(y))
    assert not covers(Predicate([[c(Op.LT, 5), y], [c(Op.GE, 5)]]), Predicate.of(c(Op.GT, 1)))


def test_residual_programs() -> None:
    plain, strict = Predicate.of(c(Op.GT, 1)), Predicate([[c(Op.GT, 1)]], b"program")
    assert covers(plain, strict)
    assert not covers(strict, plain)
    assert covers(strict, Predicate([[c(Op.GT, 2)]], b"program"))
    assert not covers(strict, Predicate([[c(Op.GT, 2)]], b"other"))
    assert covers(strict, Predicate.of(c(Op.GT, 2), c(Op.LT, 2)))


def test_no_message_is_at_a_topic_and_a_queue() -> None:
    topic, queue = Constraint("@topic", Op.EXISTS), Constraint("@queue", Op.EQ, "a")
    assert not intersects(topic, queue)
    assert not satisfiable(Conjunction([topic, queue]))
    assert intersects(topic, c(Op.GT, 1))


def test_what_nothing_matches_is_covered_by_everything() -> None:
    nothing = Predicate.of(Constraint("a", Op.LT, 1), Constraint("a", Op.GT, 1))
    assert covers(Predicate.never(), nothing)
    assert covers(Predicate.of(Constraint("b", Op.EQ, 1)), nothing)
    assert not covers(Predicate.never(), Predicate.of(Constraint("a", Op.LT, 1)))
