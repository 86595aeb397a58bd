import math

import numpy as np
import pytest
from hardening.queueing import exact
from hardening.queueing.exact import md1_log_tail, md1_quantile, md1_tail, mm1_quantile, mm1_tail
from hypothesis import given
from hypothesis import strategies as st

from tidings.capacity.service import gamma_moments
from tidings.capacity.waiting import waiting_moments
from tidings.errors import UsageError


def alternating(rho: float, tau: float) -> float:
    """The textbook sum, fine for short times only."""
    terms = ((-rho * (tau - k)) ** k / math.factorial(k) * math.exp(rho * (tau - k)) for k in range(int(tau) + 1))
    return 1 - (1 - rho) * math.fsum(terms)


@given(st.floats(0.05, 0.9999), st.floats(0, 4))
def test_md1_is_the_textbook_sum_where_that_is_stable(rho: float, tau: float) -> None:
    assert md1_tail(tau, rho, 1.0) == pytest.approx(alternating(rho, tau), abs=1e-10)


@given(st.floats(0.9, 0.96), st.floats(0, 19.9))
def test_series_and_recursion_agree(rho: float, tau: float) -> None:
    assert exact._by_series(rho, tau) == pytest.approx(exact._by_recursion(rho, tau), rel=1e-9, abs=1e-12)


@given(st.floats(0.8, 0.96), st.floats(20, 2000))
def test_series_and_pole_agree(rho: float, tau: float) -> None:
    assert exact._by_series(rho, tau) == pytest.approx(exact._by_pole(rho, tau), rel=1e-9)


@given(st.floats(0.951, 0.99999), st.floats(19, 20))
def test_recursion_and_pole_agree_where_they_meet(rho: float, tau: float) -> None:
    assert exact._by_recursion(rho, tau) == pytest.approx(exact._by_pole(rho, tau), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("rho", [0.3, 0.8, 0.97])
def test_md1_mean_is_that_of_takacs(rho: float) -> None:
    t = np.linspace(0, 20 / (1 - rho), 401)
    area = float(np.trapezoid(np.asarray(md1_tail(t, rho, 1.0)), t))
    first, _ = waiting_moments(rho, gamma_moments(1.0, 0.0))
    assert area == pytest.approx(float(first), rel=2e-3)


def test_md1_far_tail_keeps_its_precision() -> None:
    # Where the probability is below the smallest float the logarithm still falls at the rate of the pole.
    near, far = float(md1_log_tail(1000.0, 0.5, 1.0)), float(md1_log_tail(1001.0, 0.5, 1.0))
    eta = 1.2564312086261697  # 0.5·(e^η − 1) = η
    assert near - far == pytest.approx(eta, rel=1e-9)
    assert near < -1000
    assert md1_tail(1000.0, 0.5, 1.0) == 0.0


@given(st.floats(0.05, 0.999), st.floats(0.0, 0.999999), st.floats(1e-6, 1e3))
def test_quantiles_are_inverse(rho: float, p: float, service: float) -> None:
    rate = rho / service
    constant, exponential = md1_quantile(p, rate, service), float(mm1_quantile(p, rate, service))
    if p <= 1 - rho:
        assert (constant, exponential) == (0, 0)
    else:
        assert md1_tail(constant, rate, service) == pytest.approx(1 - p, rel=1e-5)
        assert mm1_tail(exponential, rate, service) == pytest.approx(1 - p, rel=1e-5)


def test_the_probability_to_wait_is_the_utilisation() -> None:
    for rho in (0.1, 0.5, 0.95, 0.96, 0.9999):
        assert md1_tail(0.0, rho, 1.0) == pytest.approx(rho)
        assert mm1_tail(0.0, rho, 1.0) == pytest.approx(rho)


def test_shapes_are_kept() -> None:
    t = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert np.asarray(md1_tail(t, 0.5, 1.0)).shape == (2, 2)
    assert np.ndim(md1_tail(1.0, 0.5, 1.0)) == 0


def test_impossible_input_is_refused() -> None:
    for t, rate in ((-1.0, 0.5), (1.0, 1.0), (1.0, 0.0), (math.nan, 0.5)):
        with pytest.raises(UsageError):
            md1_tail(t, rate, 1.0)
    with pytest.raises(UsageError):
        mm1_tail(math.nan, 0.5, 1.0)
    with pytest.raises(UsageError):
        md1_quantile(1.0, 0.5, 1.0)
    with pytest.raises(UsageError):
        mm1_quantile(0.5, 2.0, 1.0)


def test_md1_quantile_where_the_probability_is_that_of_not_waiting() -> None:
    """1 − ρ and the tail at 0 are rounded, each in its own way."""
    for percent in range(1, 100):
        rho = percent / 100
        for p in ((100 - percent) / 100, 1 - rho, np.nextafter(1 - rho, 1)):
            assert 0 <= md1_quantile(float(p), rho, 1.0) < 1e-9


@pytest.mark.parametrize("lack", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
def test_md1_next_to_saturation(lack: float) -> None:
    """Both ways meet at 20 service times, and 1 − P(W > t) is in proportion to 1 − ρ."""
    below, above = (1 - float(md1_tail(tau, 1 - lack, 1.0)) for tau in (20 - 1e-9, 20.0))
    assert 0 < above < 1
    assert above == pytest.approx(below, rel=1e-6, abs=2e-15)
    assert above == pytest.approx(40.66 * lack, rel=0.03, abs=2e-15)
