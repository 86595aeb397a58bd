"""Brokers that take time: with slow ones less arrives in time, with free ones everything does."""

from dataclasses import replace
from pathlib import Path

import pytest

from tidings.lab import large_network
from tidings.lab.broker_costs import Costs, meter
from tidings.lab.large_network import SERIES, Terms, run
from tidings.lab.scale_out import ScaleOut, Setup

SMALL = Setup(brokers=4, clients=20, subscriptions=10)


def test_slow_brokers_fall_behind() -> None:
    free = ScaleOut(SMALL, "graded", service=meter(Costs(0, 0, 0, 0))).run(200, 1)
    slow = ScaleOut(SMALL, "graded", service=meter(Costs(40_000, 40_000, 0, 0))).run(200, 1)
    assert free.delivered == free.expected == slow.expected
    assert slow.delivered < 0.8 * slow.expected


def test_more_constraints_match_less() -> None:
    simple = ScaleOut(SMALL, "graded").run(100, 1)
    complex = ScaleOut(Setup(4, 20, 10, constraints_max=3), "graded").run(100, 1)
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
