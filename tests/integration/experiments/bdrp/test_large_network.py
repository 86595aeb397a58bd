"""Brokers that take time: with slow ones less arrives in time, with free ones everything does."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tidings.errors import UsageError
from tidings.experiments.bdrp import large_network
from tidings.experiments.bdrp.broker_costs import Costs, meter
from tidings.experiments.bdrp.large_network import SERIES, Terms, run
from tidings.experiments.bdrp.scale_out import ScaleOut, ScaleOutSetup

SMALL = ScaleOutSetup(brokers=4, clients=20, subscriptions=10)


def test_slow_brokers_fall_behind() -> None:
    free = ScaleOut(SMALL, "graded", service=meter(Costs(0, 0, 0, 0))).run(200, 1)
    slow = ScaleOut(SMALL, "graded", service=meter(Costs(40_000, 40_000, 0, 0))).run(200, 1)
    assert free.delivered == free.expected == slow.expected
    assert slow.delivered < 0.8 * slow.expected


def test_more_constraints_match_less() -> None:
    simple = ScaleOut(SMALL, "graded").run(100, 1)
    complex = ScaleOut(ScaleOutSetup(4, 20, 10, constraints_max=3), "graded").run(100, 1)
    assert simple.delivered == simple.expected
    assert complex.delivered == complex.expected < simple.expected


def test_a_series_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SERIES, "clients", [SMALL, replace(SMALL, clients=10)])
    terms = Terms(100, 0.2, Costs())
    first = next(run("clients", "graded", terms, tmp_path))
    points = list(run("clients", "graded", terms, tmp_path))
    assert points[0] == first
    assert [point.value for point in points] == [20, 10]
    monkeypatch.setattr(large_network, "ScaleOut", None)  # nothing is simulated again
    assert list(run("clients", "graded", terms, tmp_path)) == points


def test_costs_are_read_as_they_were_written() -> None:
    costs = Costs(1.5, 2, 3, 0)
    assert Costs.from_json(json.dumps(asdict(costs)), "costs.json") == costs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "{}",
        "[1]",
        "[" * 200_000,
        '{"received": 1, "arrived": 1, "copies": 1}',
        '{"received": 1, "arrived": 1, "copies": 1, "delivered": 1, "lost": 1}',
        '{"received": 1, "arrived": 1, "copies": 1, "delivered": "x"}',
        '{"received": 1, "arrived": 1, "copies": 1, "delivered": NaN}',
        '{"received": 1, "arrived": 1, "copies": 1, "delivered": -1}',
    ],
)
def test_costs_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"E_COSTS: costs\.json"):
        Costs.from_json(text, "costs.json")
