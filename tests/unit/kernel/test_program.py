"""The kernel's stack machine against the one in Python."""

from random import Random

import pytest
from hardening.contracts.program import check_program
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.kernel.codec import MessageBatch, Program, encode_messages
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.reader import value_of
from tidings.model.selector.operations import add, divide, divide_whole, multiply, remainder, subtract
from tidings.model.selector.parser import parse
from tidings.model.selector.program import Code, assemble
from tidings.model.selector.program import SelectorProgram as Reference
from tidings.model.values import INT_MAX, INT_MIN, Value

numbers = st.one_of(
    st.integers(INT_MIN, INT_MAX),
    st.integers(-9, 9),
    st.sampled_from([INT_MIN, INT_MIN + 1, INT_MAX, 2**53, 2**53 + 1, -(2**53) - 1]),
    st.floats(allow_nan=False),
)


def evaluate(code: bytes, **properties: Value) -> bool | None:
    batch = MessageBatch.from_messages(encode_messages([Message(Destination("t"), properties)]))
    (answer,) = Program(code).evaluate(batch)
    return answer


@given(st.randoms(use_true_random=False))
def test_same_answers_and_refusals(rng: Random) -> None:
    check_program(Program, rng)


def test_same_answers_in_the_long_run() -> None:
    check_program(Program, Random(20260102), rounds=800)


@given(numbers, numbers, numbers, st.sampled_from(["+", "-", "*", "/", "%"]), st.sampled_from(["=", "<>", "<", "<="]))
def test_arithmetic_is_exact_where_it_is_in_python(a: Value, b: Value, c: Value, operation: str, relation: str) -> None:
    code = assemble(parse(f"a {operation} b {relation} c"))
    assert evaluate(code, a=a, b=b, c=c) == Reference(code).run({"a": a, "b": b, "c": c})


ARITHMETIC = {
    Code.ADD: add,
    Code.SUB: subtract,
    Code.MUL: multiply,
    Code.DIV: divide_whole,
    Code.QUOT: divide,
    Code.REM: remainder,
}


@given(numbers, numbers)
def test_every_result_of_arithmetic_equals_the_references(a: Value, b: Value) -> None:
    for operation, apply in ARITHMETIC.items():
        result = apply(a, b)
        check = bytes((Code.ISNULL,)) if result is None else b"\x01" + value_of(result) + bytes((Code.EQ,))
        assert evaluate(b"\x02\x01a\x02\x01b" + bytes((operation,)) + check, a=a, b=b) is True


def test_selectors_through_the_kernel() -> None:
    code = assemble(parse("price > 2 * cost AND name LIKE 'x_\\%%' ESCAPE '\\' OR NOT urgent IS NULL"))
    assert evaluate(code, price=7, cost=3, name="xy%z") is True
    assert evaluate(code, price=7, cost=3, name="xyz") is False
    assert evaluate(code, price=7, cost=3) is None
    assert evaluate(code, urgent=False) is True


def test_a_value_that_is_no_boolean_counts_as_false() -> None:
    assert evaluate(b"\x01\x02\x02") is False
    assert evaluate(b"\x01\x02\x02\x11") is True


def test_entries_without_a_message_are_false() -> None:
    batch = MessageBatch.from_frames(
        b"\x00\x00\x00\x00\x20\x00\x00\x00" + b"\x04\x00\x00\x00\x10\x00\x00\x00" + bytes(4)
    )
    assert Program(b"\x01\x01").evaluate(batch) == [False, False]


@pytest.mark.parametrize(
    ("code", "error", "position"),
    [
        (b"", "E_CODEC_PROGRAM", 0),
        (b"\x01\x01" * 2, "E_CODEC_PROGRAM", 4),
        (b"\x01\x01" * 65, "E_CODEC_PROGRAM", 128),
        (b"\x01\x01\x16", "E_CODEC_PROGRAM", 2),
        (b"\x01\x01\x12", "E_CODEC_PROGRAM", 2),
        (b"\x01\x06\x00", "E_CODEC_TYPE", 1),
        (b"\x01\x01\x0f\x02\x02", "E_CODEC_TYPE", 3),
        (b"\x02\x00", "E_CODEC_NAME", 1),
        (b"\x01\x05\x85\x80\x04" + bytes(65541), "E_CODEC_LIMIT", 0),
    ],
)
def test_unsound_programs_are_refused_at_load(code: bytes, error: str, position: int) -> None:
    for load in (Program, Reference):
        with pytest.raises(CodecError) as caught:
            load(code)
        assert (caught.value.code, caught.value.position) == (error, position)
