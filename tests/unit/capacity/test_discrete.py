import numpy as np
import pytest
from hardening.queueing.discrete import (
    DiscreteSettings,
    DiscreteWaiting,
    Distribution,
    analyse,
    analyse_discrete,
    constant_cdf,
    discretise,
    exponential_cdf,
    gamma_cdf,
)
from hardening.queueing.exact import md1_tail, mm1_tail
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tidings.capacity.waiting import GammaWaiting
from tidings.errors import LimitError, UsageError


def test_table_5_1_defaults() -> None:
    defaults = DiscreteSettings()
    assert (defaults.n_u, defaults.eps_c, defaults.eps_d, defaults.eps_f) == (100, 1e-8, 1e-10, 1e-4)


def test_eq_5_29_5_30_discretisation() -> None:
    found = discretise(exponential_cdf(100.0), 1.0, 1e-4)
    assert found.probabilities[0] == 0
    assert found.probabilities.sum() == pytest.approx(1.0)
    assert found.probabilities[5] == pytest.approx(np.exp(-0.04) - np.exp(-0.05))
    # Section 5.1.3: the discretised distribution has a slightly larger mean, by half a unit.
    assert found.moments().first == pytest.approx(100.5, abs=0.05)
    assert discretise(constant_cdf(90.0), 1.0, 1e-4).moments().first == 90


def test_5_1_3_md1_and_mm1() -> None:
    # The cut makes inter-arrival times half a unit longer, so the error halves with the unit.
    constant, exponential = [], []
    for n_u in (50, 100, 200):
        settings = DiscreteSettings(n_u, eps_c=1e-11, eps_f=1e-9)
        md1 = analyse(exponential_cdf(1.0), constant_cdf(0.7), 1.0, settings)
        mm1 = analyse(exponential_cdf(1.0), exponential_cdf(0.7), 1.0, settings)
        assert md1.at_bound <= settings.eps_d
        constant.append(md1.tail(2.1) / float(md1_tail(2.1, 1.0, 0.7)) - 1)
        exponential.append(mm1.tail(7.0) / float(mm1_tail(7.0, 1.0, 0.7)) - 1)
    for errors in (constant, exponential):
        assert errors[1] / errors[0] == pytest.approx(0.5, abs=0.1)
        assert errors[2] / errors[1] == pytest.approx(0.5, abs=0.1)
    assert abs(constant[2]) < 0.05
    assert abs(exponential[2]) < 0.01


def test_5_1_3_a_looser_stop_is_less_accurate() -> None:
    exact = float(mm1_tail(14.0, 1.0, 0.8))
    queues = [
        analyse(exponential_cdf(1.0), exponential_cdf(0.8), 1.0, DiscreteSettings(eps_f=1e-9, eps_c=eps_c))
        for eps_c in (1e-5, 1e-6, 1e-8)
    ]
    errors = [abs(queue.tail(14.0) / exact - 1) for queue in queues]
    assert errors[0] > errors[1] > errors[2]
    assert queues[0].iterations < queues[1].iterations < queues[2].iterations


@pytest.mark.parametrize("c_var", [0.2, 0.4, 1.0, 2.0])
def test_5_1_4_gamma_approximation_with_discretised_moments(c_var: float) -> None:
    queue = analyse(exponential_cdf(1.0), gamma_cdf(0.7, c_var), 1.0)
    waiting = GammaWaiting.of(1 / float(queue.interarrival.moments().first), queue.service.moments())
    assert queue.rho == pytest.approx(waiting.rho)
    for p in (0.9, 0.99, 0.9999):
        assert queue.quantile(p) == pytest.approx(float(waiting.quantile(p)), rel=0.06)


def test_5_1_4_table_5_2_the_third_moment_matters() -> None:
    arrivals = discretise(exponential_cdf(100 / 0.8), 1.0, 1e-6)
    symmetric, asymmetric = np.zeros(191), np.zeros(901)
    symmetric[[10, 100, 190]] = [40 / 81, 1 / 81, 40 / 81]
    asymmetric[[90, 900]] = [80 / 81, 1 / 81]
    tails = []
    for service in (symmetric, asymmetric):
        queue = analyse_discrete(arrivals, Distribution(service, 1.0), DiscreteSettings(eps_d=1e-8))
        waiting = GammaWaiting.of(1 / float(arrivals.moments().first), queue.service.moments())
        assert queue.tail(2000.0) == pytest.approx(float(waiting.tail(2000.0)), rel=0.15)
        tails.append(queue.tail(2000.0))
    assert tails[1] > 1.3 * tails[0]


def by_enumeration(a: list[float], b: list[float], bound: int) -> list[float]:
    """The stationary unfinished work before an arrival, from the transition matrix."""
    matrix = np.zeros((bound + 1, bound + 1))
    for work in range(bound + 1):
        for i, p_b in enumerate(b):
            for j, p_a in enumerate(a):
                matrix[work, max(min(work + i, bound) - j, 0)] += p_a * p_b
    stationary = np.linalg.matrix_power(matrix, 4096)[0]
    return list(stationary / stationary.sum())


@examples(max_examples=20)
@given(st.floats(0.4, 0.6), st.floats(0.1, 0.3))
def test_eq_5_26_5_27_against_the_transition_matrix(long_gap: float, long_service: float) -> None:
    a, b = [0.0, 0.5 - long_gap / 2, 0.5 - long_gap / 2, long_gap], [0.0, 1 - long_service, 0.0, long_service]
    queue = analyse_discrete(
        Distribution(np.array(a), 1.0), Distribution(np.array(b), 1.0), DiscreteSettings(eps_c=1e-13, eps_d=1e-9)
    )
    expected = by_enumeration(a, b, 60)
    assert queue.waiting.probabilities[:30] == pytest.approx(np.array(expected[:30]), abs=1e-7)


@given(st.floats(0, 1))
def test_quantile_is_the_generalised_inverse(p: float) -> None:
    t = QUEUE.quantile(p)
    assert 1 - QUEUE.tail(t) >= p - 1e-9
    if t > 0:
        assert 1 - QUEUE.tail(t - QUEUE.waiting.unit) < p + 1e-9


def _queue() -> DiscreteWaiting:
    return analyse(exponential_cdf(1.0), constant_cdf(0.5), 1.0, DiscreteSettings(n_u=10))


QUEUE = _queue()


def test_what_cannot_be_analysed_is_refused() -> None:
    with pytest.raises(UsageError) as overload:
        analyse(exponential_cdf(1.0), constant_cdf(1.2), 1.0)
    assert overload.value.code == "E_LAB_OVERLOAD"
    with pytest.raises(LimitError) as slow:
        analyse(exponential_cdf(1.0), exponential_cdf(0.95), 1.0, DiscreteSettings(iterations_max=10))
    assert slow.value.code == "E_LAB_ITERATIONS"
    with pytest.raises(LimitError) as endless:
        discretise(lambda t: np.zeros_like(t), 1.0, 1e-4)
    assert endless.value.code == "E_LAB_UNITS"
    with pytest.raises(UsageError):
        discretise(lambda t: np.ones_like(t), 1.0, 1e-4)
    with pytest.raises(UsageError):
        DiscreteSettings(eps_c=0.0)
    unit = Distribution(np.array([0.0, 1.0]), 1.0)
    with pytest.raises(UsageError):
        analyse_discrete(unit, Distribution(np.array([0.0, 1.0]), 2.0))
    assert QUEUE.tail(1e9) == 0


@pytest.mark.parametrize("units", [5, 100])
def test_a_discretised_exponential_time_varies_less(units: int) -> None:
    moments = discretise(exponential_cdf(1.0), 1.0 / units, 1e-12).moments()
    assert float(moments.c_var) == pytest.approx(np.exp(-1 / (2 * units)), rel=1e-6)
