import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.capacity import thesis
from tidings.capacity.fitting import Measurement, bootstrap, choose, fit, held_out_errors
from tidings.capacity.processing import MODELS, Fitted, Load
from tidings.errors import UsageError

# The design of section 4.2: replication grades and additional filters.
GRID = [Load(add + r, r) for r in (1, 2, 5, 10, 20, 40) for add in (5, 10, 20, 40, 80, 160)]
# The design of section 4.3.1, with identical filters, and of section 4.4, with components.
RICH = [
    Load(r + add * copies, r, different=add + 1, components=c)
    for r in (1, 5, 20)
    for add in (1, 5, 40, 160)
    for copies in (1, 2, 8)
    for c in (1, 4)
]
QUICK = Fitted.of("log", t_rcv=1.3e-7, t_fltr=8e-9, t_tx=3.3e-8)
WIDE = [Load(n, r) for n in (0, 1, 10, 100, 1000, 10_000, 100_000) for r in (1, 5, 20)]


def measure(server: Fitted, loads: list[Load], noise: float = 0.0, seed: int = 1) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    factors = 1 + noise * rng.standard_normal(len(loads))
    return [
        Measurement(load, server.received(load) * float(factor)) for load, factor in zip(loads, factors, strict=True)
    ]


@given(st.sampled_from(sorted(MODELS)), st.data())
def test_synthetic_parameters_are_recovered(name: str, data: st.DataObject) -> None:
    names = MODELS[name].parameters
    server = Fitted.of(name, **{p: data.draw(st.floats(1e-7, 1e-3), label=p) for p in names})
    found = fit(name, measure(server, RICH))
    for value, load in zip(found.values, server.values, strict=True):
        assert value == pytest.approx(load, rel=1e-5, abs=1e-13)
    assert found.errors is not None
    assert found.errors.max < 1e-6
    assert found.points == len(RICH)


@pytest.mark.parametrize("server", [thesis.FIORANO_PROPERTY, thesis.BEA_PROPERTY, thesis.ACTIVEMQ_PROPERTY])
def test_intervals_contain_the_truth_under_noise(server: Fitted) -> None:
    hits = []
    for seed in range(30):
        found = fit("base", measure(server, GRID, 0.01, seed), level=0.95)
        assert found.intervals is not None
        low, high = found.intervals[-1]
        hits.append(low <= server.t_tx <= high)
    assert sum(hits) >= 24


def test_bootstrap_agrees_with_the_covariance_roughly() -> None:
    measured = measure(thesis.BEA_PROPERTY, GRID, 0.02)
    by_covariance = fit("base", measured)
    by_bootstrap = bootstrap(by_covariance, measured, np.random.default_rng(2))
    assert by_bootstrap.values == by_covariance.values
    assert by_covariance.intervals is not None
    assert by_bootstrap.intervals is not None
    for value, (low, high) in zip(by_bootstrap.values, by_bootstrap.intervals, strict=True):
        assert low <= value <= high
    widths = [
        (b[1] - b[0]) / (a[1] - a[0]) for a, b in zip(by_covariance.intervals, by_bootstrap.intervals, strict=True)
    ]
    assert all(0.2 < width < 3 for width in widths)
    again = bootstrap(by_covariance, measured, np.random.default_rng(2))
    assert again == by_bootstrap


def test_parameters_are_never_negative() -> None:
    # Faster with more filters: plain least squares would make t_fltr negative.
    measured = [Measurement(Load(n, r), 1000 / (1 + r) + n) for n in (1, 10, 100) for r in (1, 2, 5)]
    found = fit("base", measured)
    assert found.parameters["t_fltr"] == 0
    assert found.intervals is not None
    low, high = found.intervals[1]
    assert low == 0 < high


@pytest.mark.parametrize("server", [thesis.ACTIVEMQ_PROPERTY, thesis.FIORANO_PROPERTY, QUICK], ids=lambda one: one.name)
def test_intervals_hold_as_often_as_they_say_when_throughputs_scatter_in_proportion(server: Fitted) -> None:
    """At the grid of the lab's own experiment, where some points take a thousand times as long as others."""
    loads = [Load(r + add, r) for r in (1, 2, 5, 10, 20, 40) for add in (0, 5, 10, 20, 40, 80, 160, 1000, 5000)]
    hits = np.zeros(3)
    for seed in range(200):
        found = fit(server.name, measure(server, loads, 0.03, seed))
        assert found.intervals is not None
        hits += [low <= true <= high for (low, high), true in zip(found.intervals, server.values, strict=True)]
    assert min(hits) >= 200 * 0.86


def test_there_are_no_intervals_without_a_measurement_to_spare() -> None:
    three = [Load(0, 1), Load(100, 1), Load(10, 20)]
    found = fit("base", measure(thesis.FIORANO_PROPERTY, three, 0.2))
    assert found.intervals is None
    assert '"intervals": null' in found.to_json()
    assert Fitted.from_json(found.to_json()) == found
    alone = [*[Load(0, r) for r in (1, 2, 5, 10, 20)], Load(100, 1)]  # one point decides what a filter costs
    assert fit("base", measure(thesis.FIORANO_PROPERTY, alone, 0.2)).intervals is None


def test_models_that_all_predict_no_time_at_all_are_refused() -> None:
    nothing = [Measurement(Load(0, r), 1 / (1e-5 * r**1.3 + 1e-8)) for r in (0, 1, 2, 5, 10, 20)]
    with pytest.raises(UsageError, match="E_LAB_CHOICE"):
        choose(nothing)


def test_a_sure_measurement_counts_more() -> None:
    truth = thesis.FIORANO_PROPERTY
    good = [Measurement(load, truth.received(load), truth.received(load) * 1e-4) for load in GRID]
    bad = [Measurement(load, truth.received(load) * 1.5, truth.received(load) * 0.5) for load in GRID]
    found = fit("base", good + bad)
    for value, true in zip(found.values, truth.values, strict=True):
        assert value == pytest.approx(true, rel=0.01)


@pytest.mark.parametrize("name", ["base", "superlinear", "sqrt", "log", "constant"])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_cross_validation_finds_the_law_that_made_the_data(name: str, noise: float) -> None:
    filtering = {} if name == "constant" else {"t_fltr": {"superlinear": 1e-9}.get(name, 2e-7)}
    server = Fitted.of(name, t_rcv=1e-5, t_tx=3e-6, **filtering)
    choice = choose(measure(server, WIDE, noise))
    assert choice.best.name == name
    assert [score.model for score in choice.scores] == list(MODELS)


def test_identical_and_complex_filters_are_found_when_the_design_varies_them() -> None:
    assert choose(measure(thesis.SUNMQ_PROPERTY, RICH, 0.005)).best.name == "identical"
    assert choose(measure(thesis.ACTIVEMQ_OR, RICH, 0.005)).best.name == "complex"


def test_models_that_the_design_cannot_support_are_scored_as_such() -> None:
    choice = choose(measure(thesis.BEA_PROPERTY, GRID))
    by_name = {score.model: score for score in choice.scores}
    assert by_name["identical"].fitted is None  # all filters differ: n and n_diff are the same column
    assert choice.best.name == "base"


def test_held_out_errors_exceed_those_of_the_fit() -> None:
    measured = measure(thesis.BEA_PROPERTY, GRID, 0.05)
    held = held_out_errors("base", measured)
    fitted = fit("base", measured)
    assert fitted.errors is not None
    assert float(np.sqrt(np.mean(held**2))) > fitted.errors.rms
    assert len(held_out_errors("base", measured, folds=4)) == len(measured)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_the_choice_survives_any_order_of_measurements(seed: int) -> None:
    measured = measure(thesis.FIORANO_PROPERTY, GRID)
    order = np.random.default_rng(seed).permutation(len(measured)).tolist()
    assert choose([measured[i] for i in order]).best.name == "base"


def test_what_cannot_be_fitted_is_refused() -> None:
    same = [Measurement(Load(10, 1), 100.0)] * 5
    for call in (lambda: fit("base", same), lambda: choose(same)):
        with pytest.raises(UsageError, match="determine") as caught:
            call()
        assert caught.value.code == "E_LAB_RANK"
    with pytest.raises(UsageError):
        fit("base", same[:2])
    with pytest.raises(UsageError):
        fit("base", [Measurement(load, 1.0, 0.1 if load.filters > 20 else None) for load in GRID])
    with pytest.raises(UsageError):
        Measurement(Load(1), 0.0)
    with pytest.raises(UsageError):
        Measurement(Load(1), 1.0, 0.0)
    with pytest.raises(UsageError):
        held_out_errors("base", measure(thesis.BEA_PROPERTY, GRID), folds=1)


def test_the_chosen_model_keeps_its_held_out_error() -> None:
    choice = choose(measure(thesis.FIORANO_PROPERTY, GRID, noise=0.05))
    [score] = [score for score in choice.scores if score.model == choice.best.name]
    assert choice.best.held_out == score.held_out
    assert choice.best.held_out != choice.best.errors
    assert Fitted.from_json(choice.best.to_json()) == choice.best


def test_three_measurements_are_enough_for_models_of_two_or_three_terms() -> None:
    choice = choose(measure(thesis.FIORANO_PROPERTY, [Load(0, 1), Load(100, 1), Load(10, 20)]))
    assert {score.model: score.fitted is not None for score in choice.scores} == {
        name: len(model.terms) <= 3 for name, model in MODELS.items()
    }
    with pytest.raises(UsageError, match="E_LAB_RANK"):
        choose([])
