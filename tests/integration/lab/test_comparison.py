"""Two times of the same experiments: each point by Welch's interval, all of them by a joint rule."""

from random import Random

import pytest

from tidings.cli.lab.compare import verdict
from tidings.errors import UsageError
from tidings.lab.comparison import Agreement, ResultComparison, compared, welch
from tidings.lab.results import Mean, PointResult


def measured(point: int, *rates: float) -> PointResult:
    mean = Mean.of(list(rates))
    return PointResult("grid", "tidings", "filters", {"matching": point}, None, mean, mean, {}, ())


def lasted(*seconds: float) -> PointResult:
    found = {"registration_s": Mean.of(list(seconds)), "published_messages": Mean.of([1.0, 9.0])}
    return PointResult("registration", "activemq", "registration", {}, None, None, None, found, ())


def simulated(rng: Random, *, points: int = 300, factor: float = 1.0, changed: int = 0) -> ResultComparison:
    """Both times three runs with 3 % deviation; the second time `changed` points are faster by `factor`."""

    def runs(point: int, by: float = 1.0) -> PointResult:
        return measured(point, *(rng.gauss(1000.0 * (1 + point) * by, 30.0 * (1 + point)) for _ in range(3)))

    first = [runs(point) for point in range(points)]
    return compared(first, [runs(point, factor if point < changed else 1.0) for point in range(points)])


def test_a_point_agrees_if_the_difference_is_within_its_interval() -> None:
    [same] = compared([measured(1, 99, 100, 101)], [measured(1, 98, 101, 102)]).all.points
    assert same.agrees
    assert same.difference == pytest.approx(1 / 300)
    [other] = compared([measured(1, 99, 100, 101)], [measured(1, 119, 120, 121)]).all.points
    assert not other.agrees
    assert other.p_value < 0.001


def test_durations_are_compared_but_not_what_else_a_run_has_counted() -> None:
    [one] = compared([lasted(1.0, 1.1)], [lasted(1.05, 1.1)]).all.points
    assert one.metric == "registration_s"
    assert one.agrees


def test_what_cannot_be_compared_is_counted() -> None:
    first = [measured(1, 99, 100), measured(2, 99, 100), measured(3, 100)]
    found = compared(first, [measured(1, 99, 101), measured(3, 99, 101)])
    assert len(found.all.points) == 1
    assert found.not_compared == 2
    with pytest.raises(UsageError, match="no point"):
        compared([measured(1, 99, 100)], [])
    with pytest.raises(UsageError, match="at least twice"):
        compared([measured(1, 100)], [measured(1, 99, 100)])


def test_without_any_deviation_only_equal_means_agree() -> None:
    assert welch(Mean.of([5.0, 5.0]), Mean.of([5.0, 5.0])) == (0.0, 1.0)
    assert welch(Mean.of([5.0, 5.0]), Mean.of([6.0, 6.0])) == (0.0, 0.0)


def test_if_nothing_changed_the_joint_rule_seldom_says_so() -> None:
    rng = Random(3)
    found = [simulated(rng).all for _ in range(60)]
    assert sum(not one.agrees for one in found) <= 8  # 3 are expected at most; more than 8 has a chance of 0.3 %
    assert sum(one.outside for one in found) == pytest.approx(60 * 300 * 0.05, rel=0.3)


def test_many_small_changes_are_found_by_their_number() -> None:
    found = simulated(Random(5), factor=1.06, changed=300).all
    assert found.outside > found.outside_max
    assert not found.agrees
    assert found.shift == pytest.approx(0.06, abs=0.01)


def test_a_few_large_changes_are_found_by_their_size() -> None:
    found = simulated(Random(5), factor=5.0, changed=2).all
    assert found.outside <= found.outside_max
    assert {one.result.parameters["matching"] for one in found.rejected} <= {0, 1}
    assert found.rejected
    assert not found.agrees


def test_the_verdict_tells_numbers_and_reasons() -> None:
    same = simulated(Random(6)).all
    assert verdict(same, 0)[-1] == "the two times agree"
    lines = verdict(simulated(Random(5), factor=5.0, changed=2).all, 7)
    assert "(Holm): grid tidings matching" in lines[1]
    assert lines[2].startswith("7 points are not compared")
    assert lines[-1] == "the two times do not agree"


def test_parts_are_experiments_and_servers() -> None:
    found = compared([measured(1, 9, 10), lasted(1.0, 2.0)], [measured(1, 9, 10), lasted(1.0, 2.0)])
    parts = [(experiment, server, len(part.points)) for experiment, server, part in found.parts()]
    assert parts == [("grid", "tidings", 1), ("registration", "activemq", 1)]
    assert isinstance(found.all, Agreement)
