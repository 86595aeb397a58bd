import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.capacity.service import (
    Binomial,
    Deterministic,
    Empirical,
    Moments,
    Poisson,
    Replication,
    ScaledBernoulli,
    discrete_moments,
    gamma_moments,
    replication_needed,
    service_moments,
    thinned,
)
from tidings.errors import UsageError

probabilities = st.floats(0.01, 1.0)
grades: st.SearchStrategy[Replication] = st.one_of(
    st.builds(Deterministic, st.integers(0, 50)),
    st.builds(ScaledBernoulli, st.integers(1, 50), probabilities),
    st.builds(Binomial, st.integers(1, 50), probabilities),
    st.builds(Poisson, st.floats(0.1, 20)),
    st.builds(Empirical, st.lists(st.integers(0, 9), min_size=1, max_size=20).filter(any).map(tuple)),
)


def close(found: Moments, expected: Moments, rel: float = 1e-9) -> None:
    assert found.first == pytest.approx(expected.first, rel=rel)
    assert found.second == pytest.approx(expected.second, rel=rel)
    assert found.third == pytest.approx(expected.third, rel=rel)


@given(grades, st.integers(0, 2**32 - 1))
def test_moments_agree_with_sampling(replication: Replication, seed: int) -> None:
    sample = replication.sample(np.random.default_rng(seed), 20_000)
    moments = replication.moments()
    for power, expected in ((1, moments.first), (2, moments.second), (3, moments.third)):
        values = sample**power
        # Six standard errors, with room for heavy tails that a small sample has not seen.
        error = 6 * float(values.std()) / math.sqrt(len(values))
        assert abs(float(values.mean()) - float(expected)) <= error + 0.05 * float(expected) + 1e-9


@given(grades)
def test_generating_function_gives_the_mean(replication: Replication) -> None:
    step = 1e-6
    z = np.array([1.0, 1.0 - step], dtype=np.complex128)
    one, below = replication.generating(z).real
    moments = replication.moments()
    assert one == pytest.approx(1.0)
    assert (one - below) / step == pytest.approx(float(moments.first), rel=1e-3, abs=1e-6)


@given(grades, st.floats(1e-6, 1e-3), st.floats(1e-7, 1e-4), st.integers(0, 2**32 - 1))
def test_service_moments_are_those_of_d_plus_r_ttx(
    replication: Replication, fixed: float, t_tx: float, seed: int
) -> None:
    sample = replication.sample(np.random.default_rng(seed), 500)
    empirical = Moments(float(sample.mean()), float((sample**2).mean()), float((sample**3).mean()))
    busy = fixed + sample * t_tx
    expected = Moments(float(busy.mean()), float((busy**2).mean()), float((busy**3).mean()))
    close(service_moments(fixed, t_tx, empirical), expected)


@given(grades)
def test_moments_satisfy_jensen_and_cauchy_schwarz(replication: Replication) -> None:
    m = replication.moments()
    assert m.second >= m.first**2 * (1 - 1e-12)
    assert m.first * m.third >= m.second**2 * (1 - 1e-12)


@given(st.integers(1, 40), probabilities, st.integers(1, 8))
def test_thinning_a_binomial_is_binomial(filters: int, p: float, servers: int) -> None:
    close(thinned(Binomial(filters, p).moments(), 1 / servers), Binomial(filters, p / servers).moments())


def test_thinning_by_one_changes_nothing() -> None:
    close(thinned(ScaledBernoulli(7, 0.5).moments(), 1.0), ScaledBernoulli(7, 0.5).moments())


@given(st.integers(0, 20))
def test_binomial_with_certain_match_is_deterministic(filters: int) -> None:
    close(Binomial(filters, 1.0).moments(), Deterministic(filters).moments())


def test_empirical_counts() -> None:
    assert Empirical.of([0, 2, 2, 5]) == Empirical((1, 0, 2, 0, 0, 1))
    close(Empirical.of([0, 2, 2, 5]).moments(), Moments(9 / 4, 33 / 4, 141 / 4))
    close(Empirical((0, 0, 0, 9)).moments(), Deterministic(3).moments())


@given(st.floats(0.1, 10), st.floats(0, 4))
def test_gamma_moments(mean: float, c_var: float) -> None:
    moments = gamma_moments(mean, c_var)
    assert moments.c_var == pytest.approx(c_var, abs=1e-6)
    if c_var > 0.01:
        shape, scale = 1 / c_var**2, mean * c_var**2
        close(moments, Moments(mean, shape * (shape + 1) * scale**2, shape * (shape + 1) * (shape + 2) * scale**3))


def test_impossible_distributions_are_refused() -> None:
    for make in (
        lambda: Deterministic(-1),
        lambda: ScaledBernoulli(3, 1.5),
        lambda: Binomial(3, -0.1),
        lambda: Binomial(2.5, 0.1),  # type: ignore[arg-type]
        lambda: Poisson(math.nan),
        lambda: Empirical(()),
        lambda: Empirical((0, 0)),
        lambda: Empirical((1, -1)),
        lambda: Empirical.of([]),
        lambda: Empirical.of([-1]),
        lambda: discrete_moments([1, 2], [0.5]),
        lambda: discrete_moments([1, 2], [0.5, 0.4]),
        lambda: replication_needed(1.0, 0.1, fixed=2.0, t_tx=1.0),
        lambda: thinned(Deterministic(1).moments(), 2.0),
    ):
        with pytest.raises(UsageError):
            make()
