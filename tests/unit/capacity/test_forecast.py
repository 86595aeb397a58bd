import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.capacity import thesis
from tidings.capacity.forecast import (
    FILTERS_MAX,
    Allowed,
    CapacityRefused,
    CapacityScenario,
    allow,
    filters_within,
    forecast,
    forecast_at,
    utilisation_allowed,
)
from tidings.capacity.processing import Fitted
from tidings.capacity.service import Binomial, Deterministic, Poisson, ScaledBernoulli, gamma_moments
from tidings.capacity.waiting import GammaWaiting
from tidings.errors import UsageError

scenarios = st.builds(
    CapacityScenario,
    server=st.sampled_from(sorted(thesis.SERVERS)).map(thesis.SERVERS.__getitem__),
    filters=st.integers(1, 1000),
    replication=st.one_of(
        st.builds(Deterministic, st.integers(0, 20)),
        st.builds(Binomial, st.integers(1, 100), st.floats(0.01, 1)),
        st.builds(ScaledBernoulli, st.integers(1, 100), st.floats(0.01, 1)),
        st.builds(Poisson, st.floats(0, 20)),
    ),
)


@given(scenarios, st.floats(0.05, 0.98), st.floats(0.9, 0.99999))
def test_round_trip(scenario: CapacityScenario, utilisation: float, probability: float) -> None:
    plan = forecast(scenario, utilisation, probability)
    assert plan.utilisation == pytest.approx(utilisation)
    answer = allow(scenario, plan.rate, plan.waiting_quantile * (1 + 1e-9), probability)
    assert isinstance(answer, Allowed)
    # Below 1 − p nobody waits at that level, whatever the utilisation.
    expected = max(utilisation, 1 - probability)
    assert answer.utilisation_max == pytest.approx(expected, rel=1e-4)
    assert answer.rate_max == pytest.approx(expected / plan.service_mean, rel=1e-4)
    assert answer.filters_max >= scenario.filters


@given(scenarios, st.floats(0.1, 0.95), st.floats(1.02, 3))
def test_more_than_allowed_is_refused_and_the_servers_named_suffice(
    scenario: CapacityScenario, utilisation: float, factor: float
) -> None:
    plan = forecast(scenario, utilisation)
    answer = allow(scenario, plan.rate * factor, plan.waiting_quantile)
    assert isinstance(answer, CapacityRefused)
    assert answer.utilisation_needed > answer.utilisation_max
    assert answer.publisher_side is not None
    share = forecast_at(scenario, plan.rate * factor / answer.publisher_side)
    assert share.waiting_quantile <= plan.waiting_quantile
    if answer.publisher_side > 2:
        with_fewer = allow(scenario, plan.rate * factor / (answer.publisher_side - 1), plan.waiting_quantile)
        assert isinstance(with_fewer, CapacityRefused)
    if answer.subscriber_side is not None:
        service = scenario.service(answer.subscriber_side)
        waiting = GammaWaiting.of(plan.rate * factor, service)
        assert waiting.quantile(0.9999) <= plan.waiting_quantile


def test_filters_max_is_where_it_ends() -> None:
    scenario = CapacityScenario(thesis.FIORANO_PROPERTY, 100, Binomial(100, 0.01))
    answer = allow(scenario, 500, 0.030)
    assert isinstance(answer, Allowed)
    at = CapacityScenario(thesis.FIORANO_PROPERTY, answer.filters_max, scenario.replication)
    beyond = CapacityScenario(thesis.FIORANO_PROPERTY, answer.filters_max + 1, scenario.replication)
    assert forecast_at(at, 500).waiting_quantile <= 0.030 < forecast_at(beyond, 500).waiting_quantile


def test_no_number_of_subscriber_side_servers_helps_against_receiving() -> None:
    scenario = CapacityScenario(Fitted.of("base", t_rcv=1.0, t_fltr=0.1, t_tx=0.1), 10, Deterministic(1))
    answer = allow(scenario, 2.0, 1.0)
    assert isinstance(answer, CapacityRefused)
    assert answer.subscriber_side is None
    assert answer.publisher_side is not None
    assert "2 messages a second need" in answer.reason


def test_filters_that_cost_nothing_are_unlimited() -> None:
    scenario = CapacityScenario(Fitted.of("constant", t_rcv=1e-5, t_tx=1e-5), 10, Deterministic(1))
    answer = allow(scenario, 100, 1.0)
    assert isinstance(answer, Allowed)
    assert answer.filters_max == FILTERS_MAX


@given(st.floats(0, 4), st.floats(0.01, 1000), st.floats(0.01, 1000))
def test_a_longer_wait_allows_more(c_var: float, one: float, other: float) -> None:
    low, high = (utilisation_allowed(gamma_moments(1.0, c_var), bound) for bound in sorted((one, other)))
    assert 0 < low <= high + 1e-9 < 1


def test_no_waiting_at_all_allows_what_nobody_notices() -> None:
    assert utilisation_allowed(gamma_moments(1.0, 1.0), 0.0, 0.99) == pytest.approx(0.01)


def test_impossible_questions_are_refused() -> None:
    scenario = CapacityScenario(thesis.FIORANO_PROPERTY, 100, Deterministic(1))
    for call in (
        lambda: forecast(scenario, 1.0),
        lambda: forecast(scenario, 0.0),
        lambda: forecast(scenario, 0.9, 1.0),
        lambda: forecast_at(scenario, 1e9),
        lambda: allow(scenario, 0.0, 1.0),
        lambda: allow(scenario, 1.0, -1.0),
        lambda: filters_within(thesis.FIORANO_PROPERTY, 1e-9),
    ):
        with pytest.raises(UsageError):
            call()
