from hardening.support.strategies import arithmetic, conditions
from hypothesis import given

from tidings.model.selector.syntax import (
    And,
    Expression,
    Identifier,
    Literal,
    Operator,
    Or,
    Product,
    Sum,
    both,
    chain,
    either,
    signed,
    static_kind,
    walk,
)
from tidings.model.values import Kind

A, B, C = map(Identifier, "abc")


def test_literals_of_different_types_differ() -> None:
    assert len({Literal(1), Literal(1.0), Literal(True), Literal("1"), Literal(0.0), Literal(-0.0)}) == 6
    assert Literal(1) == Literal(1, position=7)
    assert Literal(1) != 1


def test_chains_are_flat_where_that_changes_nothing() -> None:
    assert both([both([A, B]), C]) == both([A, both([B, C])]) == And((A, B, C))
    assert either([A]) == A
    assert both([either([A, B]), C]) == And((Or((A, B)), C))
    left = chain(Sum, chain(Sum, A, [(Operator.ADD, B)]), [(Operator.SUB, C)])
    right = chain(Sum, A, [(Operator.ADD, chain(Sum, B, [(Operator.SUB, C)]))])
    assert left == Sum(A, ((Operator.ADD, B), (Operator.SUB, C)))
    assert left != right
    assert isinstance(chain(Product, left, [(Operator.MUL, C)]), Product)


def test_a_sign_becomes_part_of_a_number() -> None:
    assert signed(Operator.SUB, Literal(5)) == Literal(-5)
    assert signed(Operator.ADD, Literal(5.0)) == Literal(5.0)
    assert signed(Operator.SUB, Literal(0.0)) == Literal(-0.0)
    assert static_kind(signed(Operator.SUB, A)) is Kind.NUMBER


@given(conditions(), arithmetic())
def test_kinds_are_known_without_a_message(condition: Expression, number: Expression) -> None:
    assert static_kind(condition) in (None, Kind.BOOL)
    assert static_kind(number) in (None, Kind.NUMBER)


@given(conditions())
def test_no_chain_directly_inside_its_like(tree: Expression) -> None:
    for node in walk(tree):
        if isinstance(node, And | Or):
            assert len(node.terms) >= 2
            assert not any(type(term) is type(node) for term in node.terms)
