"""Encoding is a necessary condition: whatever matches a predicate contains one of its sets, and one of its vectors."""

from random import Random

import pytest
from hardening.contracts.codec import random_message, random_predicate
from hardening.contracts.reference_matrix import as_numbers
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.kernel.codec import MessageBatch, encode_messages
from tidings.kernel.encoder import MessageEncoder
from tidings.matching.categories import Demand, Grade, PlainGrade, canonical, equals, exists
from tidings.matching.encoding import MESSAGE_ELEMENTS_MAX, Encoding, choose, minimal_sets, uncovered
from tidings.matching.graded import GradedGrade
from tidings.model.constraint import TEXT_OPS, Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Conjunction, Predicate
from tidings.model.values import Kind, Untyped, Value, equal

GRADES: list[Grade] = [PlainGrade(), GradedGrade(), GradedGrade(pieces_max=1), GradedGrade(pieces_max=40)]
NAMES = ["n", "s", "@topic", "JMSPriority", "JMSType"]
EDGES = [0, 1, 37, 63, 64, 65, 100, 511, 512, 2**20, 2**21 + 5, 2**53, 2**53 + 1, 2**62, 2**63 - 1]
numbers = st.one_of(
    st.integers(-130, 130),
    st.sampled_from([sign * edge for edge in EDGES for sign in (1, -1)] + [-(2**63)]),
    st.floats(allow_nan=False),
    st.floats(-130, 130),
    st.integers(-130, 130).map(float),
)
texts = st.text("ab.é", max_size=12)
values: st.SearchStrategy[Value] = st.one_of(numbers, texts, st.booleans(), st.binary(max_size=3))
patterns = st.text("ab.%_é", max_size=8)
topic_patterns = st.lists(st.sampled_from(["a", "b", "ab", "*"]), min_size=1, max_size=5).flatmap(
    lambda levels: st.sampled_from([levels, [*levels, ">"]]).map(".".join)
)
grades = st.sampled_from(GRADES)


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    name, op = draw(st.sampled_from(NAMES)), draw(st.sampled_from(list(Op)))
    if op in (Op.EXISTS, Op.MISSING):
        return Constraint(name, op)
    negated = draw(st.booleans()) and draw(st.booleans())
    if op is Op.IN:
        return Constraint(name, op, tuple(draw(st.lists(values, min_size=1, max_size=20))), negated)
    if op is Op.TOPIC:
        return Constraint(name, op, draw(topic_patterns), negated)
    operand: Value = draw(patterns if op is Op.LIKE else texts if op in TEXT_OPS else values)
    return Constraint(name, op, operand, negated)


untyped = st.one_of(texts, numbers.map(str), st.sampled_from(["true", "FALSE", "1e999"])).map(Untyped)
attributes = st.dictionaries(st.sampled_from(NAMES), values | untyped, max_size=5)


def assert_necessary(encoding: Encoding, predicate: Predicate, message: dict[str, Value]) -> None:
    elements, vector = encoding.message_elements(message), encoding.message_vector(message)
    assert any(one <= elements for one in encoding.predicate_elements(predicate))
    assert any(one & ~vector == 0 for one in encoding.predicate_vectors(predicate))


@given(grades, attributes, st.lists(constraints(), max_size=12), st.integers(1, 40))
def test_what_holds_is_contained(
    grade: Grade, message: dict[str, Value], some: list[Constraint], alternatives_max: int
) -> None:
    true = [constraint for constraint in some if constraint.holds(message.get(constraint.name))]
    encoding = Encoding(grade=grade, alternatives_max=alternatives_max)
    assert_necessary(encoding, Predicate([true]), message)
    assert_necessary(encoding, Predicate([[one] for one in true] or [[]]), message)


@given(grades, numbers, numbers, st.sampled_from([Op.LT, Op.LE, Op.GT, Op.GE, Op.NE, Op.EQ]))
@example(GradedGrade(), 2**53, 2**53 + 1, Op.LT)
@example(GradedGrade(), -(2**53), -(2**53) - 1, Op.GT)
@example(GradedGrade(), -0.0, 0, Op.GE)
@example(GradedGrade(), 37, 37.5, Op.LT)
def test_comparisons_of_any_two_numbers(grade: Grade, number: Value, bound: Value, op: Op) -> None:
    constraint = Constraint("n", op, bound)
    if not constraint.holds(number):
        constraint = constraint.negate()
    assert_necessary(Encoding(grade=grade), Predicate([[constraint]]), {"n": number})


@given(grades, numbers, numbers, numbers)
def test_intervals(grade: Grade, a: float, b: float, c: float) -> None:
    low, number, high = sorted((a, b, c))
    interval = [Constraint("n", Op.GE, low), Constraint("n", Op.LE, high)]
    assert_necessary(Encoding(grade=grade), Predicate([interval]), {"n": number})


@given(grades, texts, st.integers(0, 12), st.integers(0, 12), texts)
def test_parts_of_a_text(grade: Grade, text: str, start: int, end: int, other: str) -> None:
    part = text[start:end]
    some = [
        Constraint("s", Op.PREFIX, text[:end]),
        Constraint("s", Op.SUFFIX, text[start:]),
        Constraint("s", Op.CONTAINS, part),
        Constraint("s", Op.LIKE, text[:start] + "%" + text[start + 1 :] if start < len(text) else text + "%"),
        Constraint("s", Op.LIKE, "".join("_" if character in other else character for character in text)),
    ]
    assert all(constraint.holds(text) for constraint in some)
    assert_necessary(Encoding(grade=grade), Predicate([some]), {"s": text})


@given(st.integers(0, 2**32))
def test_random_predicates_of_random_messages(seed: int) -> None:
    rng = Random(seed)
    message, predicate = random_message(rng).attributes(), random_predicate(rng)
    for grade in GRADES[:2]:
        if predicate.matches(message):
            assert_necessary(Encoding(grade=grade), predicate, message)
        else:
            assert Encoding(grade=grade).predicate_vectors(predicate) is not None


@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([(256, 7), (64, 1), (2048, 10), (192, 64)]))
def test_kernel_and_reference_agree_bit_for_bit(seed: int, graded: bool, shape: tuple[int, int]) -> None:
    rng = Random(seed)
    messages = [random_message(rng) for _ in range(4)]
    key = rng.getrandbits(64)
    batch = MessageBatch.from_messages(encode_messages(messages))
    kernel = MessageEncoder(*shape, key, graded=graded)
    reference = Encoding(*shape, key, GradedGrade() if graded else PlainGrade())
    assert as_numbers(kernel.vectors(batch)) == [reference.message_vector(one.attributes()) for one in messages]
    offsets, elements = kernel.elements(batch)
    for i, message in enumerate(messages):
        found = elements[int(offsets[i]) : int(offsets[i + 1])].tolist()
        assert found == sorted(reference.message_elements(message.attributes()))


@given(numbers, numbers)
def test_equal_numbers_have_equal_bytes_and_others_do_not(a: Value, b: Value) -> None:
    assert (canonical(a) == canonical(b)) == equal(a, b)


def test_graded_is_finer_than_plain() -> None:
    far: dict[str, Value] = {"n": 90, "s": "zebra"}
    for constraint in (
        Constraint("n", Op.LT, 37),
        Constraint("s", Op.PREFIX, "ab"),
        Constraint("s", Op.CONTAINS, "xy"),
    ):
        for grade, excluded in ((PlainGrade(), False), (GradedGrade(), True)):
            encoding = Encoding(grade=grade)
            elements = encoding.message_elements(far)
            sets = encoding.predicate_elements(Predicate([[constraint]]))
            assert all(not one <= elements for one in sets) == excluded


def test_small_ints_are_told_apart_with_four_pieces() -> None:
    encoding = Encoding(grade=GradedGrade())
    carried = [encoding.message_elements({"n": n}) for n in range(101)]
    for bound in range(1, 101):
        for op in (Op.LT, Op.GT):
            constraint = Constraint("n", op, bound)
            sets = encoding.predicate_elements(Predicate([[constraint]]))
            assert len(sets) <= 4
            found = {n for n in range(101) if any(one <= carried[n] for one in sets)}
            true = {n for n in range(101) if constraint.holds(n)}
            assert true <= found
            assert len(found - true) <= max(2, bound / 8)


def test_alternatives_are_limited_by_making_them_vaguer() -> None:
    several = Demand((tuple((equals("a", n),) for n in range(5)), ((exists("a", Kind.NUMBER),),), ((),)))
    assert len(choose([several], 16)) == 5
    assert len(choose([several, several], 16)) == 5
    assert len(choose([several, several], 25)) == 25
    assert choose([several], 4) == [(exists("a", Kind.NUMBER),)]
    assert choose([], 16) == [()]


def test_covered_and_impossible_conjunctions_are_not_encoded() -> None:
    wide, narrow = Conjunction([Constraint("n", Op.GT, 1)]), Conjunction([Constraint("n", Op.GT, 5)])
    never = Conjunction([Constraint("n", Op.EQ, 1), Constraint("n", Op.EQ, 2)])
    assert uncovered([narrow, never, wide]) == [wide]
    assert Encoding().predicate_vectors(Predicate([never])) == set()
    assert Encoding().predicate_vectors(Predicate([()])) == {0}


@given(st.sets(st.frozensets(st.integers(0, 6), max_size=4)))
def test_minimal_sets(sets: set[frozenset[int]]) -> None:
    assert minimal_sets(sets) == {one for one in sets if not any(other < one for other in sets)}


def test_wrong_settings() -> None:
    for wrong in ({"bits": 100}, {"hashes": 0}, {"hashes": 65}, {"key": -1}, {"key": 2**64}, {"alternatives_max": 0}):
        with pytest.raises(UsageError, match=r"E_ENCODING|E_MATRIX_BITS"):
            Encoding(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="E_ENCODING_SHAPE"):
        MessageEncoder(bits=100)


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("beyond", [0, 1])
def test_a_message_that_carries_too_much_may_match_anything(graded: bool, beyond: int) -> None:
    """The same message is the first beyond the limit for kernel and reference."""
    encoding = Encoding(grade=GradedGrade() if graded else PlainGrade())
    batch, reference = crowded(graded, beyond)
    encoder = MessageEncoder(encoding.bits, encoding.hashes, graded=graded)
    assert as_numbers(encoder.vectors(batch)) == [encoding.message_vector(reference)]
    if beyond:
        assert encoding.message_vector(reference) == 2**encoding.bits - 1
        with pytest.raises(UsageError, match="E_ENCODING_LIMIT"):
            encoding.message_elements(reference)
        with pytest.raises(UsageError, match="E_ENCODING_LIMIT"):
            encoder.elements(batch)
    else:
        assert set(encoder.elements(batch)[1].tolist()) == encoding.message_elements(reference)


def crowded(graded: bool, beyond: int) -> tuple[MessageBatch, dict[str, Value]]:
    """A message that carries exactly as many categories as may be, or one more or two."""
    grade: Grade = GradedGrade() if graded else PlainGrade()
    left = MESSAGE_ELEMENTS_MAX - len(list(grade.carried("@topic", "t")))
    properties: dict[str, Value] = {}
    if graded:
        size = (left - len(list(grade.carried("s", "")))) // 2 - 8
        properties["s"] = "ab" * (size // 2)
    else:
        properties |= {f"p{i}": i for i in range(left // 2 - 1)}
    while left - sum(len(list(grade.carried(name, value))) for name, value in properties.items()) >= 2:
        properties[f"b{len(properties)}"] = True  # two
    if beyond:
        properties["last"] = True
    message = Message(Destination("t"), properties)
    return MessageBatch.from_messages(encode_messages([message])), properties | {"@topic": "t"}
