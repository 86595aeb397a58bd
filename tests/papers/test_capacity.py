"""Henjes, Performance Evaluation of Publish/Subscribe Middleware Architectures: every number we rely on."""

import numpy as np
import pytest
from hardening.queueing.exact import md1_tail, mm1_quantile
from hardening.queueing.inversion import takacs

from tidings.capacity import thesis
from tidings.capacity.forecast import CapacityScenario, filters_within, forecast
from tidings.capacity.processing import Fitted, Load, filters_pay_off, match_probability_break_even
from tidings.capacity.replication import break_even_publishers, publisher_side, subscriber_side
from tidings.capacity.service import (
    Binomial,
    Deterministic,
    Moments,
    ScaledBernoulli,
    discrete_moments,
    gamma_moments,
    replication_needed,
    service_moments,
)
from tidings.capacity.waiting import GammaWaiting, waiting_moments

SYMMETRIC = discrete_moments([10, 100, 190], [40 / 81, 1 / 81, 40 / 81])
ASYMMETRIC = discrete_moments([90, 900], [80 / 81, 1 / 81])


@pytest.mark.parametrize(
    ("server", "different", "replication", "received"),
    [
        (thesis.FIORANO_PROPERTY, 100, 1, 676),
        (thesis.FIORANO_PROPERTY, 10, 10, 615),
        (thesis.BEA_PROPERTY, 100, 1, 6629),
        (thesis.BEA_PROPERTY, 10, 10, 3260),
        (thesis.ACTIVEMQ_PROPERTY, 100, 1, 12416),
        (thesis.ACTIVEMQ_PROPERTY, 10, 10, 4549),
        (thesis.SUNMQ_PROPERTY, 100, 1, 1817),
        (thesis.SUNMQ_PROPERTY, 10, 1, 2566),
        (thesis.SUNMQ_PROPERTY, 1, 1, 2676),
        (thesis.SUNMQ_PROPERTY, 10, 10, 1333),
        (thesis.WEBSPHERE_PROPERTY, 100, 1, 85),
        (thesis.WEBSPHERE_PROPERTY, 10, 10, 85),
    ],
)
def test_table_4_7_received_throughput_with_100_filters(
    server: Fitted, different: int, replication: int, received: float
) -> None:
    load = Load(100, replication, different)
    assert server.received(load) == pytest.approx(received, rel=0.015)
    assert server.overall(load) == pytest.approx((replication + 1) * server.received(load))


def test_erratum_table_4_5_does_not_give_the_85_messages_of_table_4_7() -> None:
    load = Load(100, 1)
    assert thesis.WEBSPHERE_TABLE_4_5.received(load) == pytest.approx(91.7, abs=0.1)
    assert thesis.WEBSPHERE_PROPERTY.received(load) == pytest.approx(85.4, abs=0.1)


def test_table_4_6_simple_filters_are_the_base_model_of_table_4_3() -> None:
    load = Load(80, 5)
    base, simple = thesis.ACTIVEMQ_PROPERTY, thesis.ACTIVEMQ_SIMPLE
    assert simple.received(load) == pytest.approx(base.received(load))
    eight = Load(80, 5, components=8)
    assert thesis.ACTIVEMQ_OR.processing_time(eight) == pytest.approx(4.79e-5 + 8 * 80 * 1.96e-7 + 5 * 1.69e-5)
    assert thesis.ACTIVEMQ_AND.processing_time(eight) == pytest.approx(5.19e-5 + 8 * 80 * 1.86e-7 + 5 * 1.71e-5)


def test_5_2_1_eq_5_31_capacity() -> None:
    load = Load(100, 1)
    assert thesis.FIORANO_PROPERTY.capacity(load, 0.9) == pytest.approx(0.9 * 675.5, rel=1e-3)


@pytest.mark.parametrize(
    ("server", "filters", "break_even"),
    [
        (thesis.FIORANO_CORRELATION_ID, 1, 0.587),
        (thesis.FIORANO_CORRELATION_ID, 2, 0.174),
        (thesis.FIORANO_CORRELATION_ID, 3, 0.0),
        (thesis.FIORANO_PROPERTY, 1, 0.099),
        (thesis.FIORANO_PROPERTY, 2, 0.0),
    ],
)
def test_5_2_1_eq_5_32_break_even_match_probability(server: Fitted, filters: int, break_even: float) -> None:
    t_fltr, t_tx = server.parameters["t_fltr"], server.t_tx
    found = match_probability_break_even(filters, t_fltr, t_tx)
    assert found == pytest.approx(break_even, abs=5e-4)
    assert filters_pay_off(filters, max(found - 0.001, 0.0), t_fltr, t_tx) == (found > 0)
    assert not filters_pay_off(filters, found + 0.001, t_fltr, t_tx)


@pytest.mark.parametrize(("replication", "filters"), [(10, 22), (100, 240)])
def test_5_2_1_replication_without_filters_costs_as_much_as_filters(replication: int, filters: int) -> None:
    server = thesis.FIORANO_CORRELATION_ID
    copies = server.processing_time(Load(0, replication))
    equal = filters_within(server, copies, replication=1)
    assert abs(equal - filters) <= 1
    assert server.processing_time(Load(filters, 1)) == pytest.approx(copies, rel=0.01)


@pytest.mark.parametrize(
    ("server", "filters"), [(thesis.FIORANO_PROPERTY, 1369), (thesis.FIORANO_CORRELATION_ID, 2845)]
)
def test_5_2_3_filters_within_a_service_time_of_20_ms(server: Fitted, filters: int) -> None:
    # With the printed, rounded parameters the counts are 1368 and 2846.
    assert filters_within(server, 0.020, replication=1) == pytest.approx(filters, abs=1)


def test_5_2_3_at_90_percent_the_9999_quantile_is_below_50_service_times_and_1_s() -> None:
    scenario = CapacityScenario(thesis.FIORANO_PROPERTY, 1368, Deterministic(1))
    plan = forecast(scenario, utilisation=0.9, probability=0.9999)
    assert plan.rate == pytest.approx(45, abs=0.1)
    assert plan.waiting_quantile < 50 * plan.service_mean
    assert plan.waiting_quantile < 1.0


@pytest.mark.parametrize(
    ("rho", "mean", "alpha", "beta", "q99", "q9999", "q99999"),
    [
        (0.5, 0.5, 1.5, 0.6667, 3.279, 6.552, 8.154),
        (0.7, 1.1667, 1.25, 1.3333, 6.377, 12.72, 15.858),
        (0.9, 4.5, 1.0714, 4.6667, 21.746, 43.44, 54.253),
        (0.95, 9.5, 1.0345, 9.6667, 44.776, 89.495, 111.822),
    ],
)
def test_5_1_2_gamma_approximation_of_md1(
    rho: float, mean: float, alpha: float, beta: float, q99: float, q9999: float, q99999: float
) -> None:
    waiting = GammaWaiting.of(rho, gamma_moments(1.0, 0.0))
    assert waiting.mean == pytest.approx(mean, abs=5e-5)
    assert waiting.alpha == pytest.approx(alpha, abs=5e-5)
    assert waiting.beta == pytest.approx(beta, abs=5e-5)
    found = waiting.quantile(np.array([0.99, 0.9999, 0.99999]))
    assert found == pytest.approx(np.array([q99, q9999, q99999]), abs=6e-4)


@pytest.mark.parametrize(
    ("c_var", "mean", "alpha", "q9999"),
    [(0.2, 4.68, 1.0656, 45.345), (0.4, 5.22, 1.0507, 51.06), (1.0, 9.0, 1.0, 91.05)],
)
def test_5_2_3_gamma_distributed_service_at_90_percent(c_var: float, mean: float, alpha: float, q9999: float) -> None:
    waiting = GammaWaiting.of(0.9, gamma_moments(1.0, c_var))
    assert waiting.mean == pytest.approx(mean, abs=1e-9)
    assert waiting.alpha == pytest.approx(alpha, abs=5e-5)
    assert waiting.quantile(0.9999) == pytest.approx(q9999, abs=6e-4)


def test_5_1_2_is_exact_for_exponential_service() -> None:
    waiting = GammaWaiting.of(0.9, gamma_moments(1.0, 1.0))
    probabilities = np.array([0.5, 0.99, 0.9999, 0.99999])
    assert waiting.quantile(probabilities) == pytest.approx(mm1_quantile(probabilities, 0.9, 1.0), rel=1e-9)


def test_eq_5_9_exact_md1_at_90_percent() -> None:
    found = md1_tail(np.array([1.0, 5.0, 10.0, 20.0, 40.0]), 0.9, 1.0)
    assert found == pytest.approx(np.array([0.75404, 0.331291, 0.117597, 0.014817, 0.000235]), abs=5e-7, rel=1e-5)


def test_table_5_2_moments_and_erratum_of_the_third() -> None:
    for moments in (SYMMETRIC, ASYMMETRIC):
        assert moments.first == pytest.approx(100)
        assert moments.second == pytest.approx(18000)
    assert SYMMETRIC.third == pytest.approx(3.4e6)  # printed: 3.6e6
    assert ASYMMETRIC.third == pytest.approx(9.72e6)


@pytest.mark.parametrize(("service", "alpha"), [(SYMMETRIC, 1.0639), (ASYMMETRIC, 0.8333)])
def test_table_5_2_waiting_at_90_percent(service: Moments, alpha: float) -> None:
    waiting = GammaWaiting.of(0.009, service)
    assert waiting.mean == pytest.approx(810)
    assert waiting.alpha == pytest.approx(alpha, abs=5e-5)


def test_erratum_5_1_takacs_recursion_in_moments_of_the_waiting_time() -> None:
    # M/M/1: E[W^k] = ρ·k!/(μ − λ)^k. The printed form, with E[B^(k−i)], gives something else from k = 2 on.
    rate = 0.8
    exact = [1.0] + [rate * factorial / (1 - rate) ** k for k, factorial in ((1, 1), (2, 2), (3, 6), (4, 24))]
    assert takacs(rate, [1, 2, 6, 24, 120], order=4) == pytest.approx(exact)


def test_erratum_5_2_mean_waiting_time_scales_with_the_unit_of_time() -> None:
    # Twice the service time at half the rate: everything twice as slow. The printed form is not even a time.
    first, second = waiting_moments(0.9, gamma_moments(1.0, 0.5))
    slow_first, slow_second = waiting_moments(0.45, gamma_moments(2.0, 0.5))
    assert slow_first == pytest.approx(2 * first)
    assert slow_second == pytest.approx(4 * second)
    assert waiting_moments(0.9, gamma_moments(1.0, 0.0))[0] == pytest.approx(4.5)


def test_eq_5_3_is_the_second_step_of_5_1() -> None:
    service = gamma_moments(1.0, 0.7)
    raw = [float(service.first), float(service.second), float(service.third)]
    assert takacs(0.6, raw, order=2)[1:] == pytest.approx(list(waiting_moments(0.6, service)))


def test_erratum_5_34_second_moment_of_the_service_time() -> None:
    # Constant R: B is constant, so E[B²] = E[B]². Without the factor 2 it would be less, a negative variance.
    moments = service_moments(3.0, 2.0, Deterministic(5).moments())
    assert moments.second == pytest.approx(13.0**2)
    assert moments.third == pytest.approx(13.0**3)
    assert moments.c_var == pytest.approx(0.0)


def test_erratum_5_43_5_44_binomial_raw_moments() -> None:
    n, p = 7, 0.3
    moments = Binomial(n, p).moments()
    weights = [(1 - p) ** n]
    for k in range(n):
        weights.append(weights[-1] * (n - k) / (k + 1) * p / (1 - p))
    grades = np.arange(n + 1.0)
    for found, power in ((moments.first, 1), (moments.second, 2), (moments.third, 3)):
        assert found == pytest.approx(float(np.array(weights) @ grades**power))
    assert moments.variance == pytest.approx(n * p * (1 - p))  # what (5.43) prints as E[R²]


def test_eq_5_39_to_5_41_scaled_bernoulli() -> None:
    moments = ScaledBernoulli(40, 0.25).moments()
    assert (moments.first, moments.second) == (10, 400)
    assert moments.third == pytest.approx(moments.second**2 / moments.first)
    assert ScaledBernoulli.from_moments(10, 400) == ScaledBernoulli(40, 0.25)


def test_5_2_2_scaled_bernoulli_never_varies_more_than_065() -> None:
    for server in (thesis.FIORANO_CORRELATION_ID, thesis.FIORANO_PROPERTY):
        for filters in (1, 10, 100, 1000, 10_000):
            fixed = server.fixed(Load(filters))
            for p in np.linspace(0.01, 1.0, 34):
                moments = service_moments(fixed, server.t_tx, ScaledBernoulli(filters, float(p)).moments())
                assert moments.c_var <= 0.655


def test_5_2_2_replication_from_mean_and_variation_of_the_service_time() -> None:
    first, second = replication_needed(mean=10.0, c_var=0.4, fixed=4.0, t_tx=2.0)
    moments = service_moments(4.0, 2.0, ScaledBernoulli.from_moments(first, second).moments())
    assert moments.first == pytest.approx(10.0)
    assert moments.c_var == pytest.approx(0.4)


def test_erratum_before_5_46_alpha_is_the_inverse_square_of_c_var() -> None:
    service = gamma_moments(1.0, 0.0)
    first, second = waiting_moments(0.5, service)
    waiting_first, waiting_second = first / 0.5, second / 0.5  # (5.45)
    square = (waiting_second - waiting_first**2) / waiting_first**2
    waiting = GammaWaiting.of(0.5, service)
    assert waiting.alpha == pytest.approx(1 / square)
    assert waiting.alpha != pytest.approx(1 / square**0.5, rel=0.05)


def test_erratum_5_3_3_publisher_side_server_with_10000_subscribers() -> None:
    one = publisher_side(thesis.FIORANO_CORRELATION_ID, 1, 10_000, 10, 1, utilisation=0.9)
    assert one == pytest.approx(1.28, abs=0.005)  # printed: 7


def test_5_3_3_eq_5_50_break_even_is_where_both_carry_the_same() -> None:
    server = thesis.FIORANO_CORRELATION_ID
    for subscribers in (1, 10, 100, 10_000):
        even = break_even_publishers(server, subscribers, 10, 1)
        per_publisher = publisher_side(server, 1, subscribers, 10, 1)
        assert even * per_publisher == pytest.approx(subscriber_side(server, 10, 1))
    more = publisher_side(server, 80, 100, 10, 1)
    less = publisher_side(server, 79, 100, 10, 1)
    assert less < subscriber_side(server, 10, 1) < more
