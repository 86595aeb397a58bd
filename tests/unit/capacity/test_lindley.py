import numpy as np
import pytest
from hardening.queueing.exact import md1_tail, mm1_quantile, mm1_tail
from hardening.queueing.lindley import simulate
from hypothesis import given
from hypothesis import strategies as st

from tidings.capacity.arrays import Array
from tidings.errors import UsageError


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 2.0))
def test_it_is_the_recursion(seed: int, rate: float) -> None:
    run = simulate(np.random.default_rng(seed), rate, lambda rng, size: rng.exponential(1.0, size), messages=50)
    rng = np.random.default_rng(seed)
    busy, gaps = rng.exponential(1.0, 50), rng.exponential(1 / rate, 50)
    waiting = [0.0]
    for i in range(1, 50):
        waiting.append(max(waiting[-1] + busy[i - 1] - gaps[i], 0.0))
    assert run.waiting == pytest.approx(np.array(waiting), abs=1e-9)


@pytest.mark.parametrize("rate", [0.3, 0.8])
def test_it_meets_the_exact_distributions(rate: float) -> None:
    rng = np.random.default_rng(3)
    constant = simulate(rng, rate, lambda _, size: np.ones(size), messages=300_000, warm_up=5000)
    varying = simulate(rng, rate, exponential, messages=300_000, warm_up=5000)
    for t in (0.5, 2.0, 4.0):
        assert constant.tail(t) == pytest.approx(float(md1_tail(t, rate, 1.0)), abs=5 * constant.tail_error(t) + 1e-5)
        assert varying.tail(t) == pytest.approx(float(mm1_tail(t, rate, 1.0)), abs=5 * varying.tail_error(t))
    assert constant.mean == pytest.approx(rate / (2 * (1 - rate)), abs=5 * constant.mean_error)
    assert varying.utilisation == pytest.approx(rate, rel=0.02)
    assert varying.quantile(0.9) == pytest.approx(np.log(rate / 0.1) / (1 - rate), abs=5 * varying.quantile_error(0.9))


def test_standard_errors_are_those_found_over_many_runs() -> None:
    # Heavy traffic and a high quantile: exceedances come in clusters, and batches of their own would not tell.
    exact = float(mm1_quantile(0.999, 0.9, 1.0))
    runs = [simulate(np.random.default_rng(seed), 0.9, exponential, 200_000, 5000) for seed in range(40)]
    for values, errors in (
        ([run.quantile(0.999) for run in runs], [run.quantile_error(0.999) for run in runs]),
        ([run.tail(exact) for run in runs], [run.tail_error(exact) for run in runs]),
        ([run.mean for run in runs], [run.mean_error for run in runs]),
    ):
        assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(values), rel=0.4)


def exponential(rng: np.random.Generator, size: int) -> Array:
    return rng.exponential(1.0, size)


def test_a_seed_repeats_a_run() -> None:
    one, other = (simulate(np.random.default_rng(9), 0.5, lambda r, n: r.random(n), 100) for _ in range(2))
    assert np.array_equal(one.waiting, other.waiting)


def test_impossible_input_is_refused() -> None:
    rng = np.random.default_rng(1)
    for rate, sign, extra, messages in ((0.0, 1, 0, 100), (0.5, 1, 0, 1), (0.5, -1, 0, 100), (0.5, 1, 1, 100)):
        with pytest.raises(UsageError):
            simulate(rng, rate, lambda _, n, sign=sign, extra=extra: sign * np.ones(n + extra), messages)  # type: ignore[misc]
