"""Known costs are found again from points of the design, with noise, and with another regime beyond a break."""

from dataclasses import replace

import numpy as np
import pytest

from tidings.capacity.cost_fit import CostPoint, errors_of, find_break, fit_broker
from tidings.capacity.cost_model import BrokerCosts
from tidings.capacity.traffic import client_row, row
from tidings.errors import UsageError
from tidings.lab.calibration.design import designed

TRUE = BrokerCosts.of(
    {
        "turn": 15e-6, "read": 4e-6, "write": 3e-6, "commit": 9e-5, "message": 1.2e-6, "body": 2e-10, "property": 9e-8,
        "filter": 6e-8, "component": 2e-8, "copy": 2.5e-7, "copy_body": 1.5e-10, "copy_property": 2e-8,
        "stored": 9e-6, "stored_body": 1e-9, "acknowledged": 2e-6,
    },
    share=0.3,
)  # fmt: skip


def measured(noise: float, seed: int = 1, combined: int = 60) -> list[CostPoint]:
    rng = np.random.default_rng(seed)
    points = designed("native", persistent=True, seed=seed, combined=combined)
    return [
        CostPoint(one.load.traffic, TRUE.cost(one.load.traffic) * float(np.exp(rng.normal(0, noise))), one.name)
        for one in points
        if not one.held_out
    ]


def test_costs_are_found_again() -> None:
    found = fit_broker(measured(0.0))
    assert found.share == TRUE.share
    assert found.excluded == ()
    for name, value in TRUE.parameters.items():
        assert found.parameters[name] == pytest.approx(value, rel=0.01, abs=1e-12), name
    assert found.held_out is not None
    assert found.held_out.max < 0.01


def test_noise_widens_the_interval_and_the_interval_holds() -> None:
    found = fit_broker(measured(0.08))
    fresh = [one.load.traffic for one in designed("native", persistent=True, seed=9)]
    inside = [one for one in fresh if not found.outside(one)]
    assert len(inside) > 20
    within = [abs(found.cost(one) / TRUE.cost(one) - 1) <= found.error(one) for one in inside]
    assert np.mean(within) >= 0.9
    assert errors_of(found, [CostPoint(one, TRUE.cost(one)) for one in inside]).rms < 0.08
    assert found.held_out is not None
    assert 0.05 < found.held_out.rms < 0.2


def test_counted_reads_and_writes_tell_costs_though_turns_were_of_any_size() -> None:
    """Other work of the machine makes turns larger and smaller; a broker that counts its reads shows by how much."""
    rng, points = np.random.default_rng(4), []
    for one in designed("native", persistent=False, seed=4, combined=60):
        traffic = one.load.traffic
        k = float(np.clip(traffic.turn_size(TRUE.share) * np.exp(rng.normal(0, 1)), 1, traffic.in_flight))
        each = np.array([k])
        counted = (float(traffic.reads(each)[0]) / k, float(traffic.writes(each)[0]) / k)
        points.append(CostPoint(traffic, float(row(traffic, k) @ np.array(TRUE.values)), one.name, *counted))
    found, blind = fit_broker(points), fit_broker([replace(one, reads=None, writes=None) for one in points])
    wrong = {}
    for what, costs in (("counted", found), ("blind", blind)):
        ratios = [costs.parameters[name] / TRUE.parameters[name] for name in ("read", "write", "message", "copy")]
        wrong[what] = max(abs(ratio - 1) for ratio in ratios)
    assert wrong["counted"] < 0.2
    assert wrong["counted"] < wrong["blind"] / 2


def test_costs_of_clients_are_found_and_what_they_slow_down_is_predicted() -> None:
    true = replace(TRUE, share=1.0, client=(3e-6, 2e-6, 2.5e-6, 1e-10, 1e-10))
    points = []
    for one in designed("native", persistent=False, seed=4, combined=60):
        traffic, k = one.load.traffic, true.turn(one.load.traffic)
        each = np.array([k])
        counted = (float(traffic.reads(each)[0]) / k, float(traffic.writes(each)[0]) / k)
        client_s = float(client_row(traffic, k) @ np.array(true.client))
        points.append(CostPoint(traffic, true.cost(traffic), one.name, *counted, client_s))
    found = fit_broker(points)
    assert found.share == 1.0
    assert found.client == pytest.approx(true.client, rel=0.1)
    errors = [found.cost(one.traffic) / one.seconds - 1 for one in points]
    assert np.max(np.abs(errors)) < 0.1


def test_a_few_points_that_were_disturbed_spoil_nothing() -> None:
    points = measured(0.02)
    rng = np.random.default_rng(3)
    spoiled = [replace(one, seconds=one.seconds * (4 if rng.random() < 0.08 else 1)) for one in points]
    found = fit_broker(spoiled)
    assert errors_of(found, points).rms < 0.12


def test_another_regime_is_told_apart_and_left_out() -> None:
    points = measured(0.03)
    slow = [replace(one, seconds=one.seconds * (2.5 if one.traffic.receivers >= 20 else 1)) for one in points]
    assert find_break(points) is None
    found = find_break(slow)
    assert found is not None
    assert found.variable == "receivers"
    costs = fit_broker(slow)
    assert costs.domain["receivers"][1] < 20
    assert costs.excluded
    assert all("another regime, receivers from" in one for one in costs.excluded)
    below = [one for one in points if one.traffic.receivers < 20]
    assert errors_of(costs, below).rms < 0.1


def test_points_are_excluded_on_request() -> None:
    points = measured(0.02)
    spoiled = [replace(one, seconds=one.seconds * 5) if one.name == "base" else one for one in points]
    costs = fit_broker(spoiled, excluded=["base"])
    assert costs.excluded == ("base: by request",)
    assert costs.points == len(points) - 1
    assert costs.errors is not None
    assert costs.errors.max < 0.2


def test_too_few_points_are_refused() -> None:
    for points in ([], measured(0.0)[:5]):
        with pytest.raises(UsageError, match="E_LAB_RANK"):
            fit_broker(points)
