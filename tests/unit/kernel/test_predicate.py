"""Constraints in the kernel hold exactly where the model's do; predicates are refused alike (also: test_codec.py)."""

from random import Random

import pytest
from hardening.contracts.codec import mutated, outcome, random_attribute, random_constraint, random_predicate
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError, UsageError
from tidings.kernel import codec
from tidings.model import codec as model
from tidings.model.constraint import Constraint, Op
from tidings.model.values import Untyped, reading

words = st.text(st.sampled_from("ab.ä€😀%_\\"), max_size=12)
patterns = st.text(st.sampled_from("abä€😀%%__\\"), max_size=10)
topics = st.lists(st.sampled_from(["a", "b", "", "*", ">", "ab"]), max_size=5).map(".".join)


def assert_same(constraint: Constraint, value: bool | int | float | str | bytes | None) -> None:
    assert codec.holds(constraint, value) == constraint.holds(value), (constraint, value)


@given(st.randoms(use_true_random=False))
def test_predicates_are_decoded_as_the_model_decodes_them(rng: Random) -> None:
    encoded = model.encode_predicate(random_predicate(rng))
    decoded, expected = codec.decode_predicate(encoded), model.decode_predicate(encoded)
    assert decoded == expected
    assert repr(decoded) == repr(expected)
    assert model.encode_predicate(decoded) == encoded
    for one, other in zip(decoded.conjunctions, expected.conjunctions, strict=True):
        assert [(each.key, hash(each)) for each in one] == [(each.key, hash(each)) for each in other]
    broken = mutated(rng, encoded)
    assert outcome(codec.decode_predicate, broken) == outcome(model.decode_predicate, broken)


@given(st.randoms(use_true_random=False))
def test_any_constraint_on_any_value(rng: Random) -> None:
    constraint = random_constraint(rng)
    operands = constraint.value if isinstance(constraint.value, tuple) else (constraint.value,)
    for value in (None, random_attribute(rng), random_attribute(rng), *operands):
        assert_same(constraint, value)
    for operand in operands:
        if operand is not None and not isinstance(operand, bytes):
            assert_same(constraint, Untyped(operand))


@given(st.text("0123456789+-.eEtrufalsinx ", max_size=12) | st.floats().map(str) | st.integers().map(str))
def test_what_text_reads_as(text: str) -> None:
    for operand in (0, 1e300, -1e300, True, False):
        for op in (Op.EQ, Op.LE, Op.GE):
            assert_same(Constraint("a", op, operand), Untyped(text))
    read = reading(text)
    if read is not None:
        assert codec.holds(Constraint("a", Op.EQ, read), Untyped(text))


@given(patterns, words)
def test_like(pattern: str, text: str) -> None:
    assert_same(Constraint("a", Op.LIKE, pattern), text)


@given(st.randoms(use_true_random=False), st.integers(60, 300))
def test_like_patterns_of_several_machine_words(rng: Random, length: int) -> None:
    middle = [rng.choice("ab_") for _ in range(length)]
    text = "".join(rng.choice("abä") if one == "_" else one for one in middle)
    noise = "".join(rng.choice("ab") for _ in range(40))
    constraint = Constraint("a", Op.LIKE, "%_" + "".join(middle) + "%b_%")
    for end in ("", "bb", "aba", "a"):
        assert_same(constraint, noise + text + end)
    assert codec.holds(constraint, noise + text + "bb") is True


@given(topics, topics)
def test_topics(pattern: str, topic: str) -> None:
    assert_same(Constraint("@topic", Op.TOPIC, pattern), topic)


@given(words, words)
def test_parts_of_text(part: str, text: str) -> None:
    for op in (Op.PREFIX, Op.SUFFIX, Op.CONTAINS):
        assert_same(Constraint("a", op, part), text)
        assert_same(Constraint("a", op, part), text + part)


def test_long_patterns_take_time_in_proportion() -> None:
    """Patterns that make a backtracking matcher run for ever."""
    assert codec.holds(Constraint("a", Op.LIKE, "%a" * 1000 + "%b"), "a" * 100_000) is False
    assert codec.holds(Constraint("a", Op.LIKE, "%" + "a_" * 500 + "b%"), "a" * 20_000) is False
    assert codec.holds(Constraint("a", Op.CONTAINS, "a" * 5000 + "b"), "a" * 200_000) is False


def test_a_value_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(UsageError, match="E_VALUE_TYPE"):
        codec.holds(Constraint("a", Op.EXISTS), object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "code", "position"),
    [
        (b"", "E_CODEC_TRUNCATED", 0),
        (b"\x01\x01\x00\x01a\x01\x00", "E_CODEC_OPERATOR", 2),
        (b"\x01\x01\x8d\x01a\x00", "E_CODEC_OPERATOR", 2),
        (b"\x01\x01\x01\x01a\x06\x00\x00", "E_CODEC_TYPE", 5),
        (b"\x01\x01\x07\x01a\x02\x00\x00", "E_CODEC_TYPE", 5),
        (b"\x01\x01\x07\x01a\x06\x02\x02\x00\x02\x00\x00", "E_CODEC_ORDER", 9),
        (b"\x01\x01\x07\x01a\x06\x01\x06\x00\x00", "E_CODEC_TYPE", 7),
        (b"\x02\x01\x0d\x01b\x01\x0d\x01a\x00", "E_CODEC_ORDER", 5),
        (b"\x01\x01\x01\x01a\x03\x00\x00\x00\x00\x00\x00\xf0\x3f\x00", "E_CODEC_CANONICAL", 6),
        (b"\x00\x81\x80\x04", "E_CODEC_LIMIT", 1),
        (b"\x00\x00\x00", "E_CODEC_TRAILING", 2),
    ],
)
def test_what_is_refused(data: bytes, code: str, position: int) -> None:
    with pytest.raises(CodecError) as caught:
        codec.check_predicate(data)
    assert (caught.value.code, caught.value.position) == (code, position)
