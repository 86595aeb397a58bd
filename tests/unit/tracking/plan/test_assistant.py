"""Plans hold what was wished for, and refusals name wishes that can be held."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.tracking.plan import limits
from tidings.tracking.plan.assistant import (
    FIXED_BYTES,
    MATCHING_SET_LIMIT,
    TrackingPlan,
    Wishes,
    best_shape,
    capacity,
    fpp_allowed,
    propose,
)
from tidings.tracking.plan.matching_set import TICK_MS, judge, matching_set_max
from tidings.tracking.recording.history import Mode

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


def plan_or_refusal(wish: Wishes) -> TrackingPlan | UsageError:
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


def test_a_skew_on_the_edge_of_the_matching_set_is_no_bug() -> None:
    """A product and a quotient of the same numbers may be rounded to different sides of a whole number."""
    refused = plan_or_refusal(Wishes(0.07950430125161576, 1e6, 2688, jitter_ms=108, skew_ms=296))
    assert isinstance(refused, UsageError)
    assert refused.code == "E_PLAN_IMPOSSIBLE"


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
    assert propose(Wishes(1e-9, float(rate[1].replace(",", "")), 1000, skew_ms=100)).efpp <= 1e-9


ADVICE: dict[str, tuple[str, Callable[[str], object]]] = {
    "memory_bytes": (r"memory of ([\d,]+) bytes", lambda text: int(text.replace(",", ""))),
    "rate_per_s": (r"peak rate of (\S+) messages", lambda text: float(text.replace(",", ""))),
    "efpp": (r"an efpp of ([^ ,]+)", float),
    "persist_ms": (r"T_p of (\d+) ms", int),
    "skew_ms": (r"skew of (\d+) ms", int),
    "jitter_ms": (r"jitter of (\d+) ms", int),
    "mode": (r"the mode (\w+)", Mode),
}


def advice(wishes: Wishes) -> dict[str, object]:
    with pytest.raises(UsageError, match="E_PLAN_IMPOSSIBLE") as refused:
        propose(wishes)
    told = refused.value.reason.partition("; it would need ")[2]
    found = {name: (re.search(pattern, told), read) for name, (pattern, read) in ADVICE.items()}
    return {name: read(match[1]) for name, (match, read) in found.items() if match is not None}


@pytest.mark.parametrize(
    "wishes",
    [
        Wishes(1.6e-5, 200_000, 277, skew_ms=1000),
        Wishes(6e-12, 66_000, 2204, skew_ms=1000),
        Wishes(1.6e-5, 3800, 416, skew_ms=1000),
        Wishes(7.5e-12, 880_000, 704),
        Wishes(7.8e-7, 1_305_548, 37_568, skew_ms=250, mode=Mode.ROTATE),
    ],
)
def test_advice_that_is_followed_is_not_refused_in_turn(wishes: Wishes) -> None:
    found = advice(wishes)
    assert {"memory_bytes", "rate_per_s"} <= set(found)
    for name, value in found.items():
        propose(replace(wishes, **{name: value}))  # type: ignore[arg-type]


def test_advice_names_whatever_wish_is_the_obstacle() -> None:
    """Filters that rotate every 100 ms cannot bridge a skew of 5 s, whatever their accuracy, size or rate."""
    wishes = Wishes(1e-3, 1000, 1_000_000, skew_ms=5000, persist_ms=100, mode=Mode.ROTATE)
    found = advice(wishes)
    assert set(found) == {"persist_ms", "skew_ms", "mode"}
    for name, value in found.items():
        propose(replace(wishes, **{name: value}))  # type: ignore[arg-type]
    with_jitter = advice(replace(wishes, skew_ms=3000, jitter_ms=1000))
    assert "jitter_ms" in with_jitter


def test_more_hashes_are_taken_if_fewer_would_not_hold_the_wish() -> None:
    """Within 2 % of the most ids is not enough for a wish that needs nearly all of them."""
    bits = 8 * (1000 - FIXED_BYTES) // 64 * 64
    allowed = fpp_allowed(1e-5, MATCHING_SET_LIMIT)
    few, most = best_shape(bits, allowed)[0], best_shape(bits, allowed, 1.0)[0]
    assert few < most
    rate = 1000 * (MATCHING_SET_LIMIT - 1) * (few + 0.9) / (2000 + TICK_MS)  # needs one id more than fewer hashes allow
    assert propose(Wishes(1e-5, rate, 1000, skew_ms=1000)).settings.capacity > few


@pytest.mark.parametrize(("rate", "persist_ms"), [(50_000, 100), (0.5, 3_600_000)])
def test_what_a_broker_would_not_take_is_not_proposed(rate: float, persist_ms: int) -> None:
    plan = propose(Wishes(1e-5, rate, 10_000))
    assert plan.persist_ms == persist_ms
    assert plan.settings.skew_ms <= limits.BETWEEN_BROKERS_MS


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"efpp": 1e-300}, "efpp must be 1e-15 to 0.5, not 1e-300"),
        ({"efpp": 0.9}, "efpp must be"),
        ({"rate_per_s": 1e-4}, "the peak rate must be"),
        ({"persist_ms": 68}, "T_p must be at least 100 ms, not 68 ms"),
        ({"skew_ms": 4_000_000}, "jitter and skew together must be at most"),
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
