"""When a run has warmed up and when it has seen enough, by counters that are made up."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tidings.lab.durations import Durations, expected_s
from tidings.lab.experiment import Experiment, Measure, parse, preset, thesis
from tidings.lab.run_verdict import CounterSample, RunRules, judge, of_rows, to_rows
from tidings.lab.stopping_rule import StoppingRule
from tidings.lab.window import FLIGHT_S, SendWindow

MEASURE = Measure(seconds=2.0, seconds_min=0.4, precision=0.02, warm_s=0.2, warm_s_max=1.5, steady=0.05, cool_s=0.1)


def carried_out(rate: Callable[[int], float], measure: Measure = MEASURE) -> tuple[StoppingRule, list[CounterSample]]:
    """A run in which the server does `rate(i)` messages a second in the i-th interval."""
    course, received, step = StoppingRule(measure), 0.0, measure.interval_s
    samples = [CounterSample(0.0, 0, 0, 0, 0, 1e6)]
    while not course.over(samples):
        number = len(samples)
        received += rate(number) * step
        samples.append(CounterSample(number * step, received, received, number * step, 0.0, 1e6))
        assert number < 1000
    return course, samples


def test_a_steady_server_is_measured_for_the_least_time() -> None:
    course, samples = carried_out(lambda _: 1000.0)
    assert course.warm_s == pytest.approx(0.2, abs=0.01)
    assert samples[-1].at_s == pytest.approx(0.2 + 0.4 + 0.1, abs=0.06)


def test_a_server_that_gets_faster_is_waited_for_but_not_for_ever() -> None:
    course, _ = carried_out(lambda i: 1000.0 * min(i, 16))
    assert 0.8 < course.warm_s < 1.5
    course, _ = carried_out(lambda i: 1.2**i)
    assert course.warm_s == pytest.approx(1.5, abs=0.06)


def test_a_rate_that_varies_is_measured_longer_but_not_for_ever() -> None:
    _, calm = carried_out(lambda i: 1000.0 + 10 * (-1) ** (i // 2))
    _, wild = carried_out(lambda i: 1000.0 + 400 * (-1) ** (i // 2))
    assert calm[-1].at_s < 1.0
    assert wild[-1].at_s > 2.0


def test_a_length_that_was_asked_for_is_kept() -> None:
    course, samples = carried_out(lambda _: 1000.0, replace(MEASURE.lasting(1.0), steady=0.0))
    assert course.warm_s == pytest.approx(0.2, abs=0.01)
    assert samples[-1].at_s == pytest.approx(0.2 + 1.0 + 0.1, abs=0.06)


def test_what_was_cut_off_is_cut_off_again_by_who_reads_the_samples() -> None:
    """Slow while it warms up: none of that may be in the rate, also not after times were rounded to milliseconds."""
    course, samples = carried_out(lambda i: min(1000.0, 10.0 * 2**i))
    rules = replace(MEASURE, warm_s=course.warm_s).rules
    assert judge(samples, rules).received_per_s == pytest.approx(1000.0)
    stored = of_rows(to_rows("r", "g", samples, 1_700_000_000_000))
    assert judge(stored, rules).received_per_s == pytest.approx(1000.0)
    assert judge(stored, RunRules(0.0, 0.1)).received_per_s < 900


@pytest.mark.parametrize(("rate", "least", "most"), [(1e6, 4000, 4000), (4000.0, 300, 1600), (100.0, 20, 40)])
def test_the_window_holds_what_a_server_does_in_a_moment(rate: float, least: int, most: int) -> None:
    window, now, sent, done = SendWindow(4000, 20), 0.0, 0, 0.0
    for _ in range(20_000):
        sent = max(sent, int(done) + window.size)
        window.update(now, sent, int(done))
        now += 0.001
        done = min(sent, done + rate * 0.001)
    assert least <= window.size <= most
    assert window.size >= min(4000, rate * FLIGHT_S / 2)  # never without work


def test_seen_runs_are_believed_and_correct_the_guess_of_others() -> None:
    experiment = Experiment("a", "filters", {"matching": [1, 2]}, {}, "", ("tidings",))
    first, second = experiment.points()
    durations = Durations([experiment])
    guessed = durations.of(second)
    for _ in range(100):
        durations.learn(first, 10 * guessed)
    assert durations.of(first) == pytest.approx(10 * guessed)
    assert durations.of(second) > 3 * guessed
    assert durations.runs(second, 3) == 3
    assert durations.runs(first, 3) == 2  # it takes long
    assert durations.runs(first, 1) == 1


def test_the_grid_of_the_thesis_is_expected_to_fit_into_half_an_hour() -> None:
    grid = [parse(preset(name)) for name in thesis()]
    assert sum(len(list(one.points())) for one in grid) == 414
    assert 600 < expected_s(grid) < 1800
    assert all(one.runs >= 3 for one in grid)
