from collections import Counter

from hardening.support.strategies_model import attributes_near, predicates
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.model.values import Value
from tidings.routing.covering.merge_group import PIECE_MAX, VAIN_DEPTH
from tidings.routing.covering.merged_subscriptions import MergedInterests

TOPIC = Constraint("side", Op.EQ, "buy")


class Told:
    """What other brokers have been told, as the changes come."""

    def __init__(self, in_vain_max: float = 0.0) -> None:
        self.local, self.filters = MergedInterests(in_vain_max), Counter[Predicate]()
        self.changed = 0

    def take(self) -> None:
        fresh, gone = self.local.changes()
        self.filters.update(fresh)
        self.filters.subtract(gone)
        assert min(self.filters.values(), default=0) >= 0
        self.filters = +self.filters
        self.changed += len(fresh) + len(gone)

    def asks(self, attributes: dict[str, Value]) -> bool:
        return any(one.matches(attributes) for one in self.filters)


def between(low: float, high: float) -> Predicate:
    return Predicate.of(TOPIC, Constraint("x", Op.GE, low), Constraint("x", Op.LE, high))


def equal(number: int) -> Predicate:
    return Predicate.of(TOPIC, Constraint("acct", Op.EQ, number))


@given(st.lists(predicates, min_size=1, max_size=6), st.sampled_from([0.0, 0.1]), st.data())
@settings(max_examples=200)
def test_what_is_told_asks_for_the_union(some: list[Predicate], in_vain_max: float, data: st.DataObject) -> None:
    told = Told(in_vain_max)
    present: list[Predicate] = []
    for one in data.draw(st.lists(st.sampled_from(some), max_size=12)):
        if one in present and data.draw(st.booleans()):
            present.remove(one)
            told.local.remove(one)
        else:
            present.append(one)
            told.local.add(one)
        if data.draw(st.booleans()):
            told.take()
    told.take()
    plain = [one for one in present if one.residual is None]
    near = data.draw(attributes_near(*(row for one in some for row in one.conjunctions)))
    wanted, asked = any(one.matches(near) for one in plain), told.asks(near)
    assert asked or not wanted
    if not in_vain_max and len(plain) == len(present):
        assert asked == wanted
    assert present or not told.filters


def test_thousands_of_equalities_are_few_filters_and_one_more_changes_one() -> None:
    told = Told()
    for number in range(0, 20_000, 2):
        told.local.add(equal(number * 7_919 % 20_000))
    told.take()
    assert len(told.filters) <= 2 * 10_000 / PIECE_MAX
    before = told.changed
    told.local.add(equal(4_711))
    told.take()
    assert told.changed - before <= 2
    assert told.asks({"side": "buy", "acct": 4_711})
    assert not told.asks({"side": "buy", "acct": 4_713})
    assert not told.asks({"side": "sell", "acct": 4_711})


def test_ranges_with_gaps_are_merged_only_within_the_bound() -> None:
    exact, loose = Told(), Told(0.2)
    for told in (exact, loose):
        for low in range(0, 160, 10):
            told.local.add(between(low, low + 8))
        told.take()
    assert (len(exact.filters), len(loose.filters)) == (16, 1)
    assert loose.asks({"side": "buy", "x": 9})
    assert not exact.asks({"side": "buy", "x": 9})


def test_a_merger_that_brings_too_much_in_vain_is_cut_until_it_is_exact() -> None:
    told = Told(0.2)
    for low in range(0, 160, 10):
        told.local.add(between(low, low + 8))
    told.take()
    attributes: dict[str, Value] = {"side": "buy", "x": 9}
    brought = 0
    while told.asks(attributes):
        brought += 1
        for one in [one for one in told.filters if one.matches(attributes)]:
            told.local.arrived(one, attributes)
        told.take()
    assert told.local.in_vain == brought
    assert brought <= 5 * (VAIN_DEPTH / 0.8 + 1)  # once for each cut on the way to this gap
    assert 1 < len(told.filters) < 16  # the rest stays merged


def test_of_many_publications_the_share_in_vain_is_at_most_the_bound() -> None:
    told = Told(0.2)
    for low in range(0, 160, 10):
        told.local.add(between(low, low + 8))
    told.take()
    brought = 0
    for number in range(4000):
        attributes: dict[str, Value] = {"side": "buy", "x": number * 37 % 1600 / 10}
        matched = [one for one in told.filters if one.matches(attributes)]
        brought += bool(matched)
        for one in matched:
            told.local.arrived(one, attributes)
        told.take()
    assert brought >= 3500  # what is wanted comes
    assert told.local.in_vain <= 0.2 * brought + 16 * VAIN_DEPTH
