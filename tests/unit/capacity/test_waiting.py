import numpy as np
import pytest
from hardening.queueing.exact import md1_tail, mm1_tail
from hardening.queueing.inversion import (
    gamma_transform,
    pollaczek_khintchine,
    quantile_by_inversion,
    service_transform,
    tail_by_inversion,
    takacs,
)
from hardening.queueing.lindley import simulate
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from tidings.capacity.service import Binomial, gamma_moments, service_moments
from tidings.capacity.waiting import ExponentialWaiting, GammaWaiting, quantiles, waiting_moments
from tidings.errors import UsageError

rhos = st.floats(0.01, 0.99)
c_vars = st.floats(0, 4)


@given(rhos, c_vars, st.floats(1e-6, 10))
def test_the_gamma_distribution_has_both_first_moments(rho: float, c_var: float, mean: float) -> None:
    service = gamma_moments(mean, c_var)
    waiting = GammaWaiting.of(rho / mean, service)
    first, second = waiting_moments(rho / mean, service)
    assert waiting.mean == pytest.approx(first)
    assert waiting.rho * waiting.alpha * (waiting.alpha + 1) * waiting.beta**2 == pytest.approx(second)


@pytest.mark.parametrize("rate", [1e-9, 1e-200, 1e-320])
def test_a_rate_next_to_nothing_is_a_rate(rate: float) -> None:
    waiting = GammaWaiting.of(rate, gamma_moments(1e-6, 0.0))
    assert waiting.alpha == pytest.approx(3.0)  # the rest of a constant service: mean 1/2, variance 1/12 of it
    assert waiting.quantile(0.9999) == 0.0


@given(rhos, c_vars, st.floats(0.0, 0.999999))
def test_quantile_is_the_inverse_of_the_distribution(rho: float, c_var: float, p: float) -> None:
    waiting = GammaWaiting.of(rho, gamma_moments(1.0, c_var))
    t = float(waiting.quantile(p))
    if p <= 1 - rho:
        assert t == 0
        assert waiting.cdf(0.0) >= p - 1e-12
    else:
        assert waiting.cdf(t) == pytest.approx(p, abs=1e-9)
        assert waiting.tail(t) == pytest.approx(1 - p, rel=1e-6)


@given(rhos, rhos, c_vars)
def test_more_load_waits_longer(one: float, other: float, c_var: float) -> None:
    service = gamma_moments(1.0, c_var)
    low, high = (GammaWaiting.of(rho, service) for rho in sorted((one, other)))
    assert low.mean <= high.mean
    assert low.quantile(0.9999) <= high.quantile(0.9999) + 1e-9


@given(rhos, c_vars, c_vars)
def test_more_variation_waits_longer(rho: float, one: float, other: float) -> None:
    low, high = (GammaWaiting.of(rho, gamma_moments(1.0, c)) for c in sorted((one, other)))
    assert low.mean <= high.mean
    assert low.quantile(0.9999) <= high.quantile(0.9999) * (1 + 1e-9)


@given(st.lists(st.tuples(rhos, c_vars), min_size=1, max_size=8))
def test_arrays_give_what_single_numbers_give(queues: list[tuple[float, float]]) -> None:
    rho, c_var = np.array(queues).T
    together = quantiles(rho, gamma_moments(np.ones_like(rho), c_var), 0.9999)
    alone = [float(GammaWaiting.of(r, gamma_moments(1.0, c)).quantile(0.9999)) for r, c in queues]
    assert together == pytest.approx(np.array(alone))


@given(st.floats(0.05, 0.95), c_vars)
def test_pollaczek_khintchine_has_the_moments_of_takacs(rho: float, c_var: float) -> None:
    s = np.array([0.0 + 1e-4j, 0.0 + 2e-4j], dtype=np.complex128)
    # −Im W*(iω)/ω → E[W]; two steps cancel the cubic term.
    small, large = -pollaczek_khintchine(s, rho, 1.0, gamma_transform(1.0, c_var)).imag / s.imag
    first, _ = waiting_moments(rho, gamma_moments(1.0, c_var))
    assert (4 * small - large) / 3 == pytest.approx(first, rel=0.05)


def test_inversion_meets_the_exact_distributions() -> None:
    t = np.array([0.5, 2.0, 10.0, 50.0])
    exact = mm1_tail(t, 0.9, 1.0)
    assert tail_by_inversion(t, 0.9, 1.0, gamma_transform(1.0, 1.0)) == pytest.approx(exact, abs=1e-7)
    t = np.array([5.5, 10.0, 40.0])  # smooth enough beyond the first kinks
    exact = md1_tail(t, 0.9, 1.0)
    assert tail_by_inversion(t, 0.9, 1.0, gamma_transform(1.0, 0.0)) == pytest.approx(exact, abs=1e-6)


def test_inversion_with_a_replication_grade_meets_simulation() -> None:
    fixed, t_tx, grade = 0.5, 0.1, Binomial(10, 0.5)
    service = service_moments(fixed, t_tx, grade.moments())
    rate = 0.8 / float(service.first)
    rng = np.random.default_rng(5)
    run = simulate(rng, rate, lambda r, n: fixed + t_tx * grade.sample(r, n), messages=400_000, warm_up=10_000)
    transform = service_transform(fixed, t_tx, grade)
    for t in (1.0, 5.0, 10.0):
        exact = float(tail_by_inversion(t, rate, float(service.first), transform))
        assert run.tail(t) == pytest.approx(exact, abs=5 * run.tail_error(t))
    median = quantile_by_inversion(0.9, rate, float(service.first), transform)
    assert tail_by_inversion(median, rate, float(service.first), transform) == pytest.approx(0.1, abs=1e-6)
    assert quantile_by_inversion(0.1, rate, float(service.first), transform) == 0


@pytest.mark.parametrize("c_var", [0.0, 0.4, 1.5])
def test_gamma_approximation_meets_simulation(c_var: float) -> None:
    rng = np.random.default_rng(11)
    shape = np.inf if c_var == 0 else 1 / c_var**2

    def service(r: np.random.Generator, size: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.ones(size) if c_var == 0 else r.gamma(shape, 1 / shape, size)

    run = simulate(rng, 0.8, service, messages=400_000, warm_up=10_000)
    waiting = GammaWaiting.of(0.8, gamma_moments(1.0, c_var))
    assert run.mean == pytest.approx(waiting.mean, abs=5 * run.mean_error)
    assert run.quantile(0.99) == pytest.approx(waiting.quantile(0.99), abs=5 * run.quantile_error(0.99))


@pytest.mark.parametrize("rho", [0.3, 0.9])
def test_the_exponential_approximation_is_exact_for_exponential_service(rho: float) -> None:
    found = ExponentialWaiting.of(rho / 2e-3, gamma_moments(2e-3, 1.0))
    assert found.alpha == pytest.approx(rho)
    for t in (0.0, 1e-3, 2e-2):
        assert found.tail(t) == pytest.approx(mm1_tail(t, rate=rho / 2e-3, service=2e-3))


@pytest.mark.parametrize("c_var", [0.3, 0.5, 2.0, 4.0])
def test_the_tail_of_a_busy_server_falls_as_the_exponential_approximation_says(c_var: float) -> None:
    """The exact rate is the root of λ(E[e^(ηB)] − 1) = η; printed as in the thesis, (5.12) would be 4 to 6 % off."""
    rho, square = 0.9, c_var**2

    def excess(eta: float) -> float:
        return float(rho * ((1 - square * eta) ** (-1 / square) - 1) - eta)

    exact = optimize.brentq(excess, 1e-3, min(0.999999 / square, 3.0))
    assert ExponentialWaiting.of(rho, gamma_moments(1.0, c_var)).eta == pytest.approx(exact, rel=0.003)


def test_the_exponential_approximation_meets_constant_service_under_load() -> None:
    service = gamma_moments(1.0, 0.0)
    found = ExponentialWaiting.of(0.9, service)
    assert found.mean == pytest.approx(float(waiting_moments(0.9, service)[0]))
    for t in (5.0, 10.0, 20.0):
        assert found.tail(t) == pytest.approx(float(md1_tail(t, rate=0.9, service=1.0)), rel=0.02)


def test_the_bound_of_the_thesis_at_nine_tenths_holds_for_little_variation_only() -> None:
    waits = [float(GammaWaiting.of(0.9, gamma_moments(1.0, c_var)).quantile(0.9999)) for c_var in (0.37, 0.38, 0.4)]
    assert waits[0] < 50 < waits[1]
    assert waits[2] == pytest.approx(51.06, abs=0.005)


def test_impossible_queues_are_refused() -> None:
    service = gamma_moments(1.0, 0.5)
    for rate in (1.0, 2.0):
        with pytest.raises(UsageError) as caught:
            GammaWaiting.of(rate, service)
        assert caught.value.code == "E_LAB_OVERLOAD"
    waiting = GammaWaiting.of(0.5, service)
    for call in (
        lambda: GammaWaiting.of(-1.0, service),
        lambda: GammaWaiting.of(0.0, service),
        lambda: waiting.quantile(1.0),
        lambda: waiting.quantile(-0.1),
        lambda: waiting.tail(-1.0),
        lambda: waiting.tail(float("nan")),
        lambda: takacs(0.5, [1.0, 2.0], order=2),
        lambda: quantile_by_inversion(1.0, 0.5, 1.0, gamma_transform(1.0, 1.0)),
    ):
        with pytest.raises(UsageError):
            call()
