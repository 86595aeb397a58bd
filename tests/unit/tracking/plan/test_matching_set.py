"""The bound of matching sets and the judgement of configurations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.tracking.plan.matching_set import fill_ms, judge, lifetime_ms, matching_set_max
from tidings.tracking.recording.history import BloomSettings, Mode


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 10_000))
def test_w_is_the_least_that_satisfies_the_condition(skew: int, jitter: int, life: int) -> None:
    w = matching_set_max(skew, jitter, life) - 1
    assert 2 * skew + jitter <= w * life
    assert w == 0 or 2 * skew + jitter > (w - 1) * life


def test_perfect_clocks_need_one_filter() -> None:
    assert matching_set_max(0, 0, 1) == 1


def test_lifetimes() -> None:
    assert fill_ms(2521, 5000) == pytest.approx(504.2)
    rotate, retain = (BloomSettings(mode=mode) for mode in (Mode.ROTATE, Mode.RETAIN))
    assert lifetime_ms(rotate, 5000, 100) == 100
    assert lifetime_ms(rotate, 5000, 1000) == lifetime_ms(retain, 5000, 100) == pytest.approx(504.2)


def test_a_configuration_that_holds_and_three_that_do_not() -> None:
    good = judge(BloomSettings(skew_ms=250), 5000, 1000, 1e-5).demand()
    assert (good.matching_set_max, good.problem) == (2, "")
    assert good.efpp == pytest.approx(7.93e-6, rel=1e-3)
    for settings, persist, remedy in (
        (BloomSettings(skew_ms=600), 1000, "less skew"),
        (BloomSettings(skew_ms=250, mode=Mode.ROTATE), 100, "less skew"),
        (BloomSettings(capacity=5000, skew_ms=250), 1000, "more bits"),
    ):
        bad = judge(settings, 5000, persist, 1e-5)
        assert remedy in bad.problem
        with pytest.raises(UsageError, match="E_TRACKING_ACCURACY"):
            bad.demand()


def test_where_messages_are_published_nothing_jitters() -> None:
    settings = BloomSettings(skew_ms=250, jitter_ms=5000)
    assert judge(settings, 5000, 1000, 1e-5, publishing=True).matching_set_max == 2
    assert judge(settings, 5000, 1000, 1e-3).matching_set_max == 12


@pytest.mark.parametrize(
    ("rate", "persist", "efpp"), [(0, 1, 0.1), (float("nan"), 1, 0.1), (1, 0, 0.1), (1, 1, 0), (1, 1, 1)]
)
def test_nonsense_is_refused(rate: float, persist: float, efpp: float) -> None:
    with pytest.raises(UsageError, match="E_TRACKING"):
        judge(BloomSettings(), rate, persist, efpp)
    with pytest.raises(UsageError, match="E_TRACKING_TIME"):
        matching_set_max(1, 1, 0)
