"""Kleene's logic over random trees; what each operator means stands in test_jms_examples.py."""

from hardening.support.strategies import arithmetic, conditions, names, properties
from hypothesis import assume, given
from hypothesis.strategies import SearchStrategy

from tidings.model.constraint import Op
from tidings.model.selector.evaluate import constant, evaluator
from tidings.model.selector.syntax import (
    Between,
    Compare,
    Expression,
    Identifier,
    IsNull,
    Literal,
    Not,
    both,
    bounds,
    either,
    walk,
)
from tidings.model.values import Value

Properties = dict[str, Value | None]


def small() -> SearchStrategy[Expression]:
    return conditions(max_leaves=4)


def ask(tree: Expression, having: Properties) -> bool | None:
    return evaluator(tree)(having)


@given(conditions(), properties())
def test_three_answers(tree: Expression, having: Properties) -> None:
    assert ask(tree, having) in (True, False, None)
    assert type(ask(tree, having)) in (bool, type(None))


@given(conditions(), properties())
def test_not(tree: Expression, having: Properties) -> None:
    assert ask(Not(tree), having) is {True: False, False: True, None: None}[ask(tree, having)]
    assert ask(Not(Not(tree)), having) is ask(tree, having)


@given(small(), small(), properties())
def test_and_is_the_minimum_and_or_the_maximum(a: Expression, b: Expression, having: Properties) -> None:
    order = [False, None, True]
    ranks = order.index(ask(a, having)), order.index(ask(b, having))
    assert ask(both([a, b]), having) is order[min(ranks)]
    assert ask(either([a, b]), having) is order[max(ranks)]


@given(small(), small(), properties())
def test_de_morgan(a: Expression, b: Expression, having: Properties) -> None:
    assert ask(Not(both([a, b])), having) is ask(either([Not(a), Not(b)]), having)
    assert ask(Not(either([a, b])), having) is ask(both([Not(a), Not(b)]), having)


@given(small(), small(), small(), properties())
def test_distribution(a: Expression, b: Expression, c: Expression, having: Properties) -> None:
    assert ask(both([a, either([b, c])]), having) is ask(either([both([a, b]), both([a, c])]), having)


@given(arithmetic(), arithmetic(), arithmetic(), properties())
def test_between_is_two_comparisons(a: Expression, low: Expression, high: Expression, having: Properties) -> None:
    assert ask(Between(a, low, high), having) is ask(bounds(Between(a, low, high)), having)


@given(arithmetic(), arithmetic(), properties())
def test_a_comparison_read_backwards(a: Expression, b: Expression, having: Properties) -> None:
    for op, flipped in ((Op.LT, Op.GT), (Op.LE, Op.GE), (Op.EQ, Op.EQ), (Op.NE, Op.NE)):
        assert ask(Compare(op, a, b), having) is ask(Compare(flipped, b, a), having)


@given(conditions(), properties(), names())
def test_more_knowledge_never_turns_an_answer(tree: Expression, having: Properties, name: str) -> None:
    assume(not any(isinstance(node, IsNull) for node in walk(tree)))
    before = ask(tree, {key: value for key, value in having.items() if key != name})
    assert before is None or before is ask(tree, having)


def test_constants() -> None:
    assert constant(Compare(Op.EQ, Literal(1), Literal(1.0))) is True
    assert constant(Identifier("missing")) is None


def test_a_message_may_hold_none() -> None:
    assert ask(Identifier("a"), {"a": None}) is None
