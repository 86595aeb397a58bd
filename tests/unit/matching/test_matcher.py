"""Every matcher against the scan: random predicates of all operators, random changes in any order."""

from collections.abc import Callable, Mapping
from random import Random

import numpy as np
import pytest
from hardening.contracts.matcher import change, check_matcher, random_message
from hardening.contracts.reference_matcher import ReferenceMatcher
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidings.errors import CodecError, UsageError
from tidings.kernel.codec import MessageBatch, encode_messages
from tidings.matching import IndexedMatcher, LinearMatcher, Matcher, per_message
from tidings.matching.workload import Workload
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.model.values import Value

MATCHERS = [ReferenceMatcher, LinearMatcher, IndexedMatcher]


def batch_of(*properties: Mapping[str, Value]) -> MessageBatch:
    return MessageBatch.from_messages(encode_messages(Message(Destination("a"), one) for one in properties))


@pytest.mark.parametrize("make", MATCHERS)
@given(rng=st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_same_answers_as_the_scan(make: Callable[[], Matcher], rng: Random) -> None:
    check_matcher(make, rng, rounds=8)


@pytest.mark.parametrize("make", [LinearMatcher, IndexedMatcher])
def test_same_answers_in_the_long_run(make: Callable[[], Matcher]) -> None:
    check_matcher(make, Random(20260101), rounds=250)


class Changes(RuleBasedStateMachine):
    """Hypothesis chooses what happens next; after every step the index answers as the scan does."""

    def __init__(self) -> None:
        super().__init__()
        self.matcher, self.reference = IndexedMatcher(), ReferenceMatcher()
        self.known: set[int] = set()

    @rule(rng=st.randoms(use_true_random=False), times=st.integers(1, 10))
    def change(self, rng: Random, times: int) -> None:
        for _ in range(times):
            change(self.matcher, self.reference, self.known, rng)

    @rule(rng=st.randoms(use_true_random=False))
    def match(self, rng: Random) -> None:
        batch = MessageBatch.from_messages(encode_messages(random_message(rng) for _ in range(3)))
        assert per_message(self.matcher.match(batch)) == per_message(self.reference.match(batch))

    @rule()
    def remove_all(self) -> None:
        for id in self.known:
            self.matcher.remove(id)
            self.reference.remove(id)
        self.known.clear()

    @invariant()
    def same_size(self) -> None:
        assert len(self.matcher) == len(self.known)


Changes.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
TestChanges = Changes.TestCase


@pytest.mark.parametrize("make", MATCHERS)
def test_ids_are_added_once_and_removed_once(make: Callable[[], Matcher]) -> None:
    matcher = make()
    matcher.add(1, Predicate.always())
    with pytest.raises(UsageError, match="E_MATCHER_ID"):
        matcher.add(1, Predicate.never())
    with pytest.raises(UsageError, match="E_MATCHER_ID"):
        matcher.remove(2)
    for id in (-1, 2**32):
        with pytest.raises(UsageError, match="E_MATCHER_ID"):
            matcher.add(id, Predicate.always())
    assert per_message(matcher.match(batch_of({}, {}))) == [[1], [1]]


@pytest.mark.parametrize("make", [LinearMatcher, IndexedMatcher])
def test_a_refused_predicate_leaves_no_trace(make: type[IndexedMatcher]) -> None:
    matcher = make()
    blob = encode_predicate(Predicate.of(Constraint("JMSPriority", Op.EQ, 4)))
    with pytest.raises(CodecError):
        matcher.add_encoded(1, blob[:-2])
    with pytest.raises(CodecError):
        matcher.add_encoded(1, encode_predicate(Predicate([()], b"\x12")))
    assert (len(matcher), matcher.conjunctions, matcher.derived_mask) == (0, 0, 0)


def test_equal_predicates_are_stored_once() -> None:
    matcher = IndexedMatcher()
    predicate = Predicate.of(Constraint("a", Op.EQ, 1), Constraint("b", Op.EQ, 2), Constraint("c", Op.LT, 3))
    for id in range(1000):
        matcher.add(id, predicate)
    once = matcher.memory_bytes
    for id in range(1000, 2000):
        matcher.add(id, predicate)
    assert matcher.memory_bytes - once < 1000 * 80
    assert per_message(matcher.match(batch_of({"a": 1, "b": 2.0, "c": 0}))) == [list(range(2000))]


def test_endless_new_values_take_bounded_memory() -> None:
    matcher = IndexedMatcher()
    matcher.add(1, Predicate.of(Constraint("a", Op.CONTAINS, "7777")))
    data = [f"{'x' * 2000}{i}" for i in range(40_000)]
    matched = 0
    for start in range(0, len(data), 4000):
        _, ids = matcher.match(batch_of(*({"a": text} for text in data[start : start + 4000])))
        matched += len(ids)
    assert matched == sum("7777" in text for text in data)
    assert matcher.memory_bytes < 48 << 20


def test_entries_that_are_no_messages_match_nobody() -> None:
    matcher = IndexedMatcher()
    matcher.add(1, Predicate.always())
    good = encode_messages([Message(Destination("a"))])
    batch = MessageBatch.from_messages(good + b"\x03\x00\x00\x00abc" + good)
    assert per_message(matcher.match(batch)) == [[1], [], [1]]


def test_a_changed_list_reaches_remembered_values() -> None:
    """Lists grow from copied to referred-to and back while their value's block lives."""
    matcher = IndexedMatcher()
    batch = batch_of({"a": "xyz"})
    for op, operand in ((Op.EQ, "xyz"), (Op.PREFIX, "xy"), (Op.LIKE, "x_z")):
        for id in range(100):
            matcher.add(id, Predicate.of(Constraint("a", op, operand)))
            assert per_message(matcher.match(batch)) == [list(range(id + 1))]
        for id in range(100):
            matcher.remove(id)
            assert per_message(matcher.match(batch)) == [list(range(id + 1, 100))]


def test_equal_numbers_of_different_types_match_alike() -> None:
    """5 and 5.0 are remembered apart, and every change must reach both."""
    matcher, reference = IndexedMatcher(), ReferenceMatcher()
    batch = batch_of({"a": 5}, {"a": 5.0}, {"a": 6.0}, {"a": True}, {"a": "5"}, {"a": 2**53 + 1}, {"a": 2.0**53})
    constraints = [Constraint("a", op, value) for op in (Op.EQ, Op.NE, Op.LE, Op.GT) for value in (5, 5.0, 5.5, 2**53)]
    constraints += [
        Constraint("a", Op.IN, (5.0, 6)),
        Constraint("a", Op.IN, (5, "5", True)),
        Constraint("a", Op.EXISTS),
    ]
    for id, constraint in enumerate(constraints):
        for one in (matcher, reference):
            one.add(id, Predicate.of(constraint))
        assert per_message(matcher.match(batch)) == per_message(reference.match(batch))
    for id in range(len(constraints)):
        for one in (matcher, reference):
            one.remove(id)
        first, second, *_ = answer = per_message(matcher.match(batch))
        assert first == second
        assert answer == per_message(reference.match(batch))


@given(rng=st.randoms(use_true_random=False))
@settings(max_examples=12, deadline=None)
def test_lone_bounds_come_and_go_while_values_are_remembered(rng: Random) -> None:
    """Few bounds on a line are copied into what is remembered of a value, many are not; both ways, again and again."""
    matcher, reference = IndexedMatcher(), ReferenceMatcher()
    values: tuple[Value, ...] = (0, 1, 1.0, 2.5, -1, 7, 7.0, 0.1, 2**53, 2**53 + 1, "a", "abcdx", "abcdy", True)
    batch = batch_of(*({"a": value, "b": rng.choice(values)} for value in values), {"b": 1}, {})
    known: list[int] = []
    fresh = 0
    for _ in range(10):
        for _ in range(rng.choice((1, 2, 20, 150))):
            bound = Constraint(rng.choice("aaab"), rng.choice((Op.LT, Op.LE, Op.GT, Op.GE)), rng.choice(values))
            rows = [[bound], [Constraint("b", Op.EQ, 1)]] if rng.random() < 0.3 else [[bound]]
            for one in (matcher, reference):
                one.add(fresh, Predicate(rows))
            known.append(fresh)
            fresh += 1
        assert per_message(matcher.match(batch)) == per_message(reference.match(batch))
        rng.shuffle(known)
        for _ in range(rng.choice((0, 1, len(known) // 2, len(known)))):
            id = known.pop()
            matcher.remove(id)
            reference.remove(id)
        assert per_message(matcher.match(batch)) == per_message(reference.match(batch))


def test_names_and_texts_of_every_length() -> None:
    """What is compared of a name and of a text is their end, with what lies before it cut away."""
    sizes = (*range(1, 20), 31, 32, 33)
    names = [f"{'n' * (size - 1)}{letter}" for size in sizes for letter in "xy"]
    texts = [
        "",
        *(f"{'t' * (size - 1)}{letter}" for size in sizes for letter in "xy"),
        *(f"u{'t' * 17}{c}" for c in "xy"),
    ]
    matcher, reference = IndexedMatcher(), ReferenceMatcher()
    for id, text in enumerate(texts):
        for one in (matcher, reference):
            one.add(id, Predicate.of(Constraint(names[id % len(names)], Op.EQ, text)))
    batch = batch_of(*({name: text} for name in names for text in texts))
    assert per_message(matcher.match(batch)) == per_message(reference.match(batch))
    assert per_message(matcher.match(batch_of({names[0]: texts[0]}))) == [[0]]  # at the very start of what was read


def test_add_many_is_add_in_order() -> None:
    one, many = IndexedMatcher(), IndexedMatcher()
    blobs = [encode_predicate(Predicate.of(Constraint("a", Op.EQ, i % 3))) for i in range(10)]
    for id, blob in enumerate(blobs):
        one.add_encoded(id, blob)
    many.add_many(np.arange(10, dtype=np.uint32), b"".join(blobs), np.cumsum([len(b) for b in blobs], dtype=np.uint64))
    batch = batch_of({"a": 1}, {"a": 2.0})
    assert per_message(one.match(batch)) == per_message(many.match(batch)) == [[1, 4, 7], [2, 5, 8]]
    with pytest.raises(UsageError, match="E_MATCHER_ARRAYS"):
        many.add_many(np.array([11], np.uint32), b"", np.array([5], np.uint64))


@pytest.mark.parametrize(
    "workload",
    [
        Workload(5, conjunctions=2),
        Workload(6, conjunctions=2, zipf=1.2),
        Workload(7, conjunctions=1, ranges_only=True),
        Workload(8, conjunctions=1, constraints_max=1, zipf=1.0),
        Workload(9, conjunctions=2, terms=20_000, int_max=100_000),
    ],
)
def test_same_answers_with_thousands_of_subscribers(workload: Workload) -> None:
    """Enough for tables to split and lists to grow beyond one chunk, and all of it to shrink again."""
    count = 8000
    index, scan = IndexedMatcher(), LinearMatcher()
    blobs, ends = workload.encoded_predicates(0, count)
    for matcher in (index, scan):
        matcher.add_many(np.arange(count, dtype=np.uint32), blobs, ends)
    batch = MessageBatch.from_messages(workload.encoded_messages(0, 40))
    assert per_message(index.match(batch)) == per_message(scan.match(batch))
    for id in range(0, count, 3):
        index.remove(id)
        scan.remove(id)
    assert per_message(index.match(batch)) == per_message(scan.match(batch))
    for id in range(count):
        if id % 3:
            index.remove(id)
    assert (len(index), index.conjunctions, len(index.match(batch)[1])) == (0, 0, 0)
