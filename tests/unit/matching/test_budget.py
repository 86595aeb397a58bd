"""A message's budget: what costs much is given up and told, what costs little never is, and nothing is remembered."""

from random import Random

import pytest
from hardening.contracts.matcher import check_matcher, random_message, random_predicate
from hardening.contracts.reference_matcher import ReferenceMatcher

from tidings.kernel.codec import MessageBatch, encode_messages
from tidings.kernel.matcher import FILTER_STEPS, MESSAGE_STEPS
from tidings.matching.indexed import IndexedMatcher
from tidings.matching.matcher import per_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.selector import Selector
from tidings.model.values import Value

PIECE = 1 << 17  # the most steps between two looks at a budget


def batch(**properties: Value) -> MessageBatch:
    return MessageBatch.from_messages(encode_messages([Message(Destination("t"), properties)]))


def matcher_of(*selectors: str, steps: int = MESSAGE_STEPS, in_doubt: bool = False) -> IndexedMatcher:
    matcher = IndexedMatcher(steps=steps, in_doubt=in_doubt)
    for number, selector in enumerate(selectors):
        matcher.add(number, Selector(selector).predicate)
    return matcher


def found(matcher: IndexedMatcher, message: MessageBatch) -> list[int]:
    [ids] = per_message(matcher.match(message))
    return ids


def given_up(matcher: IndexedMatcher) -> list[int]:
    return [number for number, _ in matcher.take_overruns()]


def test_the_pattern_that_froze_the_broker() -> None:
    """A pattern of 4006 characters and a text of a megabyte: 4 thousand million comparisons before."""
    pattern = "%" + "a_" * 2000 + "_b_b%"
    matcher = matcher_of(f"a LIKE '{pattern[:4006]}'")
    found(matcher, batch(a="a" * 1_000_000 + "b"))
    assert matcher.steps <= 3 * MESSAGE_STEPS + PIECE


EXPENSIVE = {
    "listed": "a LIKE '%" + "a_" * 500 + "b%'",
    "keyless": "a LIKE '%" + "_" * 4000 + "%' AND b = 1",
    "long substring": "a LIKE '%" + "a" * 12 + "bb%'",
    "negated": "b = 1 AND NOT (a LIKE '%" + "a_" * 500 + "bc%')",
    "two long texts": "a = c",
    "program": "a LIKE '%" + "a_" * 500 + "b%' OR b + 1 = 2",
    "many instructions": " + ".join(["b"] * 600) + " = 600",
}


@pytest.mark.parametrize("selector", EXPENSIVE.values(), ids=EXPENSIVE)
def test_what_is_given_up_is_told_once_and_not_remembered(selector: str) -> None:
    text = "a" * 40_000 + "bb"
    message = batch(a=text, b=1, c=text)
    matcher = matcher_of(selector, "b = 1", steps=0)
    assert found(matcher, message) == [1]
    times = matcher.overruns
    assert times > 0
    assert matcher.take_overruns() == [(0, 1)]
    assert given_up(matcher) == []
    assert found(matcher, message) == [1]  # asked again with the next message, and given up again
    assert found(matcher, message) == [1]
    assert (matcher.overruns, matcher.take_overruns()) == (3 * times, [(0, 2)])
    doubtful = matcher_of(selector, "b = 1", steps=0, in_doubt=True)
    assert found(doubtful, message) == [0, 1]
    assert given_up(doubtful) == [0]
    assert found(matcher_of(selector, "b = 1"), message) == [0, 1]  # within the usual budget


def test_a_value_that_was_too_much_is_decided_when_there_is_room() -> None:
    """The answer of one message must not be that of the next, in which others take less."""
    long = "a" * 3000 + "b"
    expensive = "a LIKE '%" + "a_" * 100 + "b%' AND b = 1"
    greedy = [f"c LIKE '%{'a_' * 500}{number}%'" for number in range(4)]
    matcher = matcher_of(expensive, *greedy, steps=30_000)
    assert found(matcher, batch(c=long, a=long, b=1)) == []
    assert 0 in given_up(matcher)
    assert found(matcher, batch(a=long, b=1)) == [0]


def test_what_costs_little_is_evaluated_whatever_others_cost() -> None:
    text = "a" * 200 + "b"
    cheap = ["a LIKE '%a_b'", "a LIKE '%aaaaaaaaab%'", "NOT (a LIKE '%c_%')", "a LIKE '%a_a%b'", "b + 1 = 2"]
    expensive = [f"c LIKE '%{'a_' * 500}{number}%'" for number in range(20)]
    matcher = matcher_of(*expensive, *cheap, steps=1000)
    assert found(matcher, batch(a=text, b=1, c="a" * 50_000)) == list(range(20, 25))
    assert given_up(matcher) == list(range(20))


def test_cheaper_patterns_and_older_ones_come_first() -> None:
    text = "a" * 20_000 + "b"
    dear, old, young = "a LIKE '%" + "a_" * 500 + "b%'", "a LIKE '%" + "a" * 10 + "b%'", "a LIKE '%" + "a" * 11 + "b%'"
    matcher = matcher_of(dear, old, young, steps=200_000)
    assert found(matcher, batch(a=text)) == [1, 2]
    matcher = matcher_of(dear, old, young, steps=120_000)
    assert found(matcher, batch(a=text)) == [1]


def test_a_search_for_pieces_that_is_given_up_leaves_the_ends() -> None:
    text = "".join(Random(1).choices("abcdefgh", k=100_000))
    inside, ends = (
        [f"a LIKE '%{text[i : i + 6]}%'" for i in range(0, 600, 6)],
        [f"a LIKE '{text[:5]}%'", f"a LIKE '%{text[-5:]}'"],
    )
    short = "a LIKE '%h_%'"
    matcher = matcher_of(*inside, *ends, short, steps=250_000)
    early = found(matcher, batch(a=text))
    assert early[-3:] == [100, 101, 102]  # shorter pieces are looked for first
    assert given_up(matcher) == list(range(100))
    late = matcher_of(f"a LIKE '%{text[-6:]}%'", *ends, steps=100_000)
    assert found(late, batch(a=text)) == [1, 2]
    assert given_up(late) == [0]
    assert found(matcher_of(*inside, *ends, steps=100_000, in_doubt=True), batch(a=text)) == list(range(102))


def test_who_left_is_not_told_of() -> None:
    matcher = matcher_of(EXPENSIVE["listed"], EXPENSIVE["program"], steps=0)
    assert found(matcher, batch(a="a" * 40_000, b=5)) == []
    matcher.remove(0)
    matcher.remove(1)
    matcher.add(2, Selector("b = 1").predicate)
    assert given_up(matcher) == []


@pytest.mark.parametrize("seed", range(30))
def test_beyond_the_budget_an_answer_is_missing_only_where_it_is_told(seed: int) -> None:
    """Random predicates over random long texts: some of the truth with a small budget, more than it in doubt."""
    rng = Random(seed)
    steps = rng.choice((0, 2000, 20_000))
    exact, doubtful, reference = (
        IndexedMatcher(steps=steps),
        IndexedMatcher(steps=steps, in_doubt=True),
        ReferenceMatcher(),
    )
    for number in range(60):
        if rng.random() < 0.6:
            pattern = "".join(rng.choices(["a", "b", "_", "%", "aaaaaaaaaa", "ab_"], k=rng.randrange(1, 40)))
            negation = rng.choice(("", "NOT "))
            predicate = Selector(f"{rng.choice('ab')} {negation}LIKE '{pattern}'").predicate
        else:
            predicate = random_predicate(rng)
        for matcher in (exact, doubtful, reference):
            matcher.add(number, predicate)
    for _ in range(4):
        properties: dict[str, Value] = dict(random_message(rng).properties)
        properties |= {name: "".join(rng.choices("aaaab", k=rng.choice((5, 500, 4000)))) for name in "ab"}
        message = batch(**properties)
        [truth] = per_message(reference.match(message))
        some, more = set(found(exact, message)), set(found(doubtful, message))
        assert some <= set(truth) <= more
        assert set(truth) - some <= set(given_up(exact))
        assert more - set(truth) <= set(given_up(doubtful))


@pytest.mark.parametrize("seed", range(5))
def test_ordinary_messages_need_no_pool(seed: int) -> None:
    """What each filter may take anyway is enough for values of ordinary length."""
    check_matcher(lambda: IndexedMatcher(steps=0), Random(seed), rounds=20)


def test_keys_inside_come_and_go() -> None:
    """The sieve of the pieces is made anew as it fills, and forgets nobody."""
    rng = Random(3)
    matcher, reference, live = IndexedMatcher(), ReferenceMatcher(), set[int]()
    for number in range(3000):
        predicate = Selector(f"a LIKE '%{''.join(rng.choices('abcd', k=rng.randrange(1, 10)))}_%'").predicate
        for one in (matcher, reference):
            one.add(number, predicate)
        live.add(number)
        if len(live) > 200:
            gone = rng.choice(sorted(live))
            live.discard(gone)
            matcher.remove(gone)
            reference.remove(gone)
        if number % 100 == 0:
            message = batch(a="".join(rng.choices("abcd", k=rng.choice((3, 8, 50, 400)))))
            assert per_message(matcher.match(message)) == per_message(reference.match(message))


def test_the_budget_of_a_filter_is_what_an_ordinary_text_needs() -> None:
    assert FILTER_STEPS >= 4 * 200
