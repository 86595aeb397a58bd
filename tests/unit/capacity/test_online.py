import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.capacity import thesis
from tidings.capacity.online import Estimator, Interval
from tidings.capacity.processing import MODELS, Fitted, Load
from tidings.capacity.service import Binomial, service_moments
from tidings.capacity.waiting import GammaWaiting
from tidings.errors import UsageError

LOADS = [(10, 1), (200, 1), (10, 8), (200, 8), (1000, 3)]


def interval(server: Fitted, filters: int, grade: int, received: int = 1000, noise: float = 1.0) -> Interval:
    busy = received * server.processing_time(Load(filters, grade)) * noise
    return Interval(1.0, received, received * grade, filters, busy)


@given(st.sampled_from(["base", "superlinear", "sqrt", "log", "constant"]), st.data())
def test_parameters_are_found_without_noise(name: str, data: st.DataObject) -> None:
    server = Fitted.of(name, **{p: data.draw(st.floats(1e-7, 1e-5), label=p) for p in MODELS[name].parameters})
    estimator = Estimator(name, memory_s=60.0)
    for second, (filters, grade) in enumerate(LOADS * 6):
        estimator.observe(float(second), interval(server, filters, grade))
    for filters, grade in LOADS:
        load = Load(filters, grade)
        assert estimator.fitted().processing_time(load) == pytest.approx(server.processing_time(load), rel=0.02)


def test_noise_averages_out() -> None:
    rng = np.random.default_rng(4)
    estimator = Estimator("base", memory_s=1000.0)
    server = thesis.BEA_PROPERTY
    for second in range(600):
        filters, grade = LOADS[second % len(LOADS)]
        estimator.observe(float(second), interval(server, filters, grade, noise=1 + 0.05 * rng.standard_normal()))
    for value, true in zip(estimator.fitted().values, server.values, strict=True):
        assert value == pytest.approx(true, rel=0.05)


def test_it_follows_a_change() -> None:
    before, after = thesis.BEA_PROPERTY, thesis.FIORANO_PROPERTY
    estimator = Estimator("base", memory_s=20.0)
    for second in range(200):
        server = before if second < 100 else after
        estimator.observe(float(second), interval(server, *LOADS[second % len(LOADS)]))
    load = Load(100, 4)
    assert estimator.fitted().received(load) == pytest.approx(after.received(load), rel=0.02)


def test_a_constant_load_does_not_make_parameters_drift() -> None:
    rng = np.random.default_rng(4)
    server = thesis.BEA_PROPERTY
    estimator = Estimator("base", memory_s=10.0)
    for second in range(50):
        estimator.observe(float(second), interval(server, *LOADS[second % len(LOADS)]))
    for second in range(50, 2000):
        noise = 1 + 0.02 * rng.standard_normal()
        estimator.observe(float(second), interval(server, 100, 2, noise=noise))
    present, other = Load(100, 2), Load(1000, 10)
    assert estimator.fitted().received(present) == pytest.approx(server.received(present), rel=0.02)
    assert estimator.fitted().received(other) == pytest.approx(server.received(other), rel=0.25)


def test_a_prior_fills_in_what_was_not_seen() -> None:
    server = thesis.ACTIVEMQ_PROPERTY
    estimator = Estimator("base", prior=server)
    assert estimator.fitted() == server
    for second in range(100):
        estimator.observe(float(second), interval(server, 100, 2))
    for value, true in zip(estimator.fitted().values, server.values, strict=True):
        assert value == pytest.approx(true, rel=0.01)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 20), st.integers(0, 500), st.floats(0, 2)), min_size=1))
def test_parameters_are_never_negative_nor_wild(reports: list[tuple[int, int, int, float]]) -> None:
    estimator = Estimator("log")
    for second, (received, grade, filters, busy) in enumerate(reports):
        estimator.observe(float(second), Interval(1.0, received, received * grade, filters, busy))
    if any(received for received, *_ in reports):
        assert all(0 <= value < 1e3 for value in estimator.fitted().values)
    else:
        with pytest.raises(UsageError):
            estimator.fitted()


def test_memory_does_not_grow() -> None:
    estimator = Estimator("base")
    sizes = set()
    for second in range(300):
        estimator.observe(float(second), interval(thesis.BEA_PROPERTY, *LOADS[second % len(LOADS)]))
        if second > 10:
            sizes.add(sum(value.nbytes for value in vars(estimator).values() if isinstance(value, np.ndarray)))
    assert len(sizes) == 1


def test_snapshot_is_what_the_formulas_say() -> None:
    server, filters, grade = thesis.BEA_PROPERTY, 100, Binomial(100, 0.04)
    moments = grade.moments()
    estimator = Estimator("base", prior=server)
    for second in range(50):
        busy = 3000 * server.processing_time(Load(filters, float(moments.first)))
        estimator.observe(
            float(second),
            Interval(
                1.0,
                received=3000,
                sent=round(3000 * float(moments.first)),
                filters=filters,
                busy_s=busy,
                sent_squares=3000 * float(moments.second),
                sent_cubes=3000 * float(moments.third),
            ),
        )
    found = estimator.snapshot(probabilities=(0.99, 0.9999), utilisation_max=0.8)
    service = service_moments(server.fixed(Load(filters)), server.t_tx, moments)
    waiting = GammaWaiting.of(3000, service)
    assert found.now == 49.0
    assert found.rate == pytest.approx(3000)
    assert found.replication == pytest.approx(4.0)
    assert found.utilisation == pytest.approx(3000 * float(service.first))
    assert found.service_mean == pytest.approx(float(service.first), rel=1e-3)
    assert found.capacity == pytest.approx(0.8 / float(service.first), rel=1e-3)
    assert found.waiting_mean == pytest.approx(float(waiting.mean), rel=0.01)
    assert found.waiting_quantiles is not None
    assert [p for p, _ in found.waiting_quantiles] == [0.99, 0.9999]
    assert found.waiting_quantiles[1][1] == pytest.approx(float(waiting.quantile(0.9999)), rel=0.01)


def test_a_saturated_or_idle_broker_has_no_waiting_time() -> None:
    estimator = Estimator("constant")
    for second in range(5):
        estimator.observe(float(second), Interval(1.0, 1000, 1000, 5, busy_s=1.5))
    found = estimator.snapshot()
    assert found.utilisation == pytest.approx(1.5)
    assert found.waiting_mean is None
    assert found.waiting_quantiles is None


def test_silence_keeps_what_is_known() -> None:
    estimator = Estimator("base", memory_s=10.0)
    for second in range(50):
        estimator.observe(float(second), interval(thesis.BEA_PROPERTY, *LOADS[second % len(LOADS)]))
    known = estimator.fitted()
    for second in range(50, 60):
        estimator.observe(float(second), Interval(1.0, 0, 0, 10, 0.0))
    assert estimator.fitted() == known
    assert estimator.snapshot().rate < 1000
    estimator.observe(1e6, Interval(1.0, 0, 0, 10, 0.0))
    assert estimator.snapshot().waiting_mean is None
    assert estimator.snapshot().capacity > 0


def test_impossible_reports_are_refused() -> None:
    estimator = Estimator("base", prior=thesis.BEA_PROPERTY)
    with pytest.raises(UsageError) as nothing:
        estimator.snapshot()
    assert nothing.value.code == "E_LAB_NOTHING_SEEN"
    estimator.observe(5.0, interval(thesis.BEA_PROPERTY, 10, 1))
    for call in (
        lambda: estimator.observe(4.0, interval(thesis.BEA_PROPERTY, 10, 1)),
        lambda: estimator.observe(float("nan"), interval(thesis.BEA_PROPERTY, 10, 1)),
        lambda: Interval(0.0, 1, 1, 1, 1.0),
        lambda: Interval(1.0, -1, 1, 1, 1.0),
        lambda: Interval(1.0, 1, 1, 1, float("inf")),
        lambda: Estimator("log", prior=thesis.BEA_PROPERTY),
        lambda: Estimator("none"),
        lambda: Estimator("base", memory_s=0.0),
    ):
        with pytest.raises(UsageError):
            call()
