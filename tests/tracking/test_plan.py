"""Plans hold what was wished for, and refusals name wishes that can be held."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.tracking import limits
from tidings.tracking.bound import TICK_MS, judge, matching_set_max
from tidings.tracking.history import Mode
from tidings.tracking.plan import Plan, Wishes, best_shape, capacity, fpp_allowed, propose

wishes = st.builds(
    Wishes,
    efpp=st.floats(-9, -0.5).map(lambda exponent: 10**exponent),
    rate_per_s=st.floats(-2.9, 8.9).map(lambda exponent: 10**exponent),
    memory_bytes=st.integers(1, 300_000),
    jitter_ms=st.integers(0, 500),
    skew_ms=st.integers(0, 500),
    persist_ms=st.none() | st.integers(limits.PERSIST_MS_MIN, 5_000_000),
    mode=st.sampled_from(Mode),
)


def plan_or_refusal(wish: Wishes) -> Plan | UsageError:
    try:
        return propose(wish)
    except UsageError as error:
        return error


@settings(max_examples=60)
@given(wishes)
def test_a_plan_holds_its_wishes(wish: Wishes) -> None:
    plan = plan_or_refusal(wish)
    if isinstance(plan, UsageError):
        assert plan.code == "E_PLAN_IMPOSSIBLE"
        assert "it would need" in plan.reason or "no single wish" in plan.reason
        return
    judgement = judge(plan.settings, wish.rate_per_s, plan.persist_ms, wish.efpp).demand()
    assert judgement.efpp <= plan.efpp <= wish.efpp
    assert judgement.lifetime_ms == pytest.approx(plan.lifetime_ms)
    assert matching_set_max(plan.settings.skew_ms, wish.jitter_ms + TICK_MS, plan.lifetime_ms) <= plan.matching_set_max
    assert plan.settings.skew_ms >= wish.skew_ms
    assert plan.settings.bits // 8 <= wish.memory_bytes
    assert wish.persist_ms is None or plan.persist_ms <= wish.persist_ms
    assert plan.as_row()["bits"] == plan.settings.bits
    assert limits.PERSIST_MS_MIN <= plan.persist_ms <= limits.TIME_MS_MAX
    assert limits.SKEW_MS_MIN <= plan.settings.skew_ms <= limits.TIME_MS_MAX


@pytest.mark.parametrize(("n", "bits", "k", "allowed"), [(2521, 65536, 16, 4e-6), (5461, 65536, 8, 3.15e-3)])
def test_capacity_is_the_most_that_the_formula_allows(n: int, bits: int, k: int, allowed: float) -> None:
    assert capacity(bits, k, allowed) == pytest.approx(n, rel=2e-3)
    assert best_shape(bits, allowed)[0] >= 0.98 * capacity(bits, k, allowed)


def test_more_skew_than_two_filters_allow_costs_accuracy_and_capacity() -> None:
    two = propose(Wishes(1e-5, 5000, 10_000))
    more = propose(Wishes(1e-5, 5000, 10_000, skew_ms=900))
    assert (two.matching_set_max, more.matching_set_max) == (2, 5)
    assert more.settings.capacity < two.settings.capacity
    assert more.settings.skew_ms >= 900


def test_a_refusal_says_what_would_be_enough() -> None:
    wish = Wishes(1e-9, 500_000, 1000, skew_ms=100)
    with pytest.raises(UsageError, match="E_PLAN_IMPOSSIBLE") as refused:
        propose(wish)
    memory = re.search(r"memory of ([\d,]+) bytes", refused.value.reason)
    rate = re.search(r"peak rate of ([\d.e+,]+)", refused.value.reason)
    assert memory is not None
    assert rate is not None
    assert propose(Wishes(1e-9, 500_000, int(memory[1].replace(",", "")), skew_ms=100)).efpp <= 1e-9
    assert propose(Wishes(1e-9, 0.99 * float(rate[1].replace(",", "")), 1000, skew_ms=100)).efpp <= 1e-9


@pytest.mark.parametrize(("rate", "persist_ms"), [(50_000, 100), (0.5, 3_600_000)])
def test_what_a_broker_would_not_take_is_not_proposed(rate: float, persist_ms: int) -> None:
    plan = propose(Wishes(1e-5, rate, 10_000))
    assert plan.persist_ms == persist_ms
    assert plan.settings.skew_ms <= limits.BETWEEN_BROKERS_MS


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"efpp": 1e-300}, "efpp is from 1e-15 to 0.5, not 1e-300"),
        ({"efpp": 0.9}, "efpp is from"),
        ({"rate_per_s": 1e-4}, "the peak rate is from"),
        ({"persist_ms": 68}, "every 100 ms at most, not every 68 ms"),
        ({"skew_ms": 4_000_000}, "jitter and skew are at most"),
    ],
)
def test_wishes_that_no_configuration_allows(change: dict[str, float], reason: str) -> None:
    with pytest.raises(UsageError, match="E_PLAN_IMPOSSIBLE") as refused:
        Wishes(**{"efpp": 1e-5, "rate_per_s": 5000, "memory_bytes": 10_000} | change)  # type: ignore[arg-type]
    assert reason in refused.value.reason


def test_fpp_of_one_filter() -> None:
    assert fpp_allowed(1e-5, 2) == pytest.approx(5e-6, rel=1e-4)


@pytest.mark.parametrize(
    "change",
    [{"efpp": 0.0}, {"efpp": 1.5}, {"rate_per_s": -1}, {"memory_bytes": 0}, {"skew_ms": -1}, {"persist_ms": 0}],
)
def test_nonsense_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Wishes(**{"efpp": 1e-5, "rate_per_s": 5000, "memory_bytes": 10_000} | change)  # type: ignore[arg-type]
