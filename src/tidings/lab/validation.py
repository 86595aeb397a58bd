"""Prediction against measurement: is the model of the batching broker right about loads it has not seen?

Some mixes of filters and receivers are for *calibration*, others are *held out*; all are measured in turn under the
same conditions, at several rates and saturated. Costs of batches are fitted to the calibration mixes alone. From them
follow for the others how busy the broker is at a rate, the rate at which it is so busy, the waiting time, and the
throughput at saturation, to be compared with what was measured. Everything is in the folder's segments, so a validation
that was broken off goes on where it stopped.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from statistics import fmean

import numpy as np

from tidings.capacity.arrays import refuse
from tidings.capacity.batch_costs import BatchCosts, BatchReceivers, BatchScenario, Work, fit_costs, work_of
from tidings.capacity.service import gamma_moments
from tidings.capacity.waiting import waiting_moments
from tidings.errors import UsageError
from tidings.lab.execution import Execution, ExecutionStep
from tidings.lab.experiment import Experiment
from tidings.lab.results import Mean, PointResult, read_results
from tidings.lab.workloads import MIX_TYPES, Parameter

UTILISATIONS = (0.3, 0.5, 0.7, 0.8, 0.9)
GUESS = BatchCosts(t_batch=30e-6, t_write=5e-6, t_rcv=3e-7, t_fltr=0.0, t_tx=5e-8)  # only to choose rates
SECONDS, RUNS = 2, 3


@dataclass(frozen=True, slots=True)
class Mix:
    """Subscribers that each get a share of the messages, beside a probe that gets all and filters that match none."""

    subscribers: int
    match_percent: int
    others: int

    @property
    def name(self) -> str:
        return f"m{self.subscribers}-p{self.match_percent}-n{self.others}"

    @property
    def parameters(self) -> dict[str, int]:
        return {"subscribers": self.subscribers, "match_percent": self.match_percent, "others": self.others}

    def scenario(self, costs: BatchCosts) -> BatchScenario:
        share = MIX_TYPES * self.match_percent // 100 / MIX_TYPES
        return BatchScenario(
            costs, self.others + self.subscribers + 1, BatchReceivers(self.subscribers, share, always=1)
        )


CALIBRATION = (Mix(20, 100, 0), Mix(50, 100, 500), Mix(80, 50, 0), Mix(120, 10, 2000), Mix(30, 25, 10_000))
HELD_OUT = (Mix(60, 100, 100), Mix(100, 20, 1000), Mix(40, 50, 5000))


@dataclass(frozen=True, slots=True)
class PredictionCheck:
    """One held-out load. Times in seconds, rates in messages a second."""

    mix: Mix
    rate: float
    busy: Mean  # measured
    busy_predicted: float
    rate_predicted: float  # at the measured utilisation
    waiting: Mean
    waiting_predicted: float
    wake: Mean  # measured: what a message waits that meets an idle broker
    waiting_mg1: float | None  # if every message cost what one alone does; None: overload

    @property
    def rate_error(self) -> float:
        return self.rate_predicted / self.rate - 1

    @property
    def waiting_error(self) -> float:
        return self.waiting_predicted / self.waiting.mean - 1


@dataclass(frozen=True, slots=True)
class Saturated:
    """Messages a second of CPU time: all of it is used, and who else may run on the machine does not count."""

    mix: Mix
    rate: Mean
    rate_predicted: float

    @property
    def rate_error(self) -> float:
        return self.rate_predicted / self.rate.mean - 1


class Validation:
    def __init__(self, folder: Path, *, runs: int = RUNS, seconds: int = SECONDS) -> None:
        self._folder, self._runs, self._seconds = folder, runs, seconds
        self.given_up: dict[str, str] = {}

    def steps(self) -> Iterator[ExecutionStep]:
        """Measure what is missing: all once, in turn, then all again, so that the machine's moods come to all alike."""
        calibration = [("calibration", mix) for mix in CALIBRATION]
        held_out = [("held-out", mix) for mix in HELD_OUT]
        turns = [one for pair in zip_longest(calibration, held_out) for one in pair if one is not None]
        execution = Execution([self._experiment(kind, mix) for kind, mix in turns], self._folder)
        yield from execution.steps()
        self.given_up = execution.given_up

    def costs(self) -> BatchCosts:
        """Fitted to the calibration mixes alone."""
        points = [(mix, one) for mix in CALIBRATION for one in self._results("calibration", mix)]
        if not points:
            raise refuse(f"no runs in {self._folder}; measure with: tidings lab validate", "E_LAB_RESULTS")
        waking = [one.seconds["wake_s"].mean for _, one in points if "wake_s" in one.seconds]
        return replace(fit_costs([_work(mix, one) for mix, one in points]), t_wake=fmean(waking))

    def comparisons(self) -> list[PredictionCheck]:
        costs = self.costs()
        return [
            _compared(mix, costs, one)
            for mix in HELD_OUT
            for one in self._results("held-out", mix)
            if one.parameters["rate"]
        ]

    def saturated(self) -> list[Saturated]:
        costs = self.costs()
        return [
            Saturated(mix, _ratio(one, "received", "cpu_s"), mix.scenario(costs).capacity)
            for mix in HELD_OUT
            for one in self._results("held-out", mix)
            if not one.parameters["rate"]
        ]

    def _results(self, kind: str, mix: Mix) -> list[PointResult]:
        """By rate; those at 0 were saturated."""
        try:
            found = [one for one in read_results(self._folder, f"{kind}-{mix.name}") if one.seconds]
        except UsageError as error:
            if error.code != "E_LAB_RESULTS":
                raise
            return []
        return sorted(found, key=lambda one: float(one.parameters["rate"]))

    def _experiment(self, kind: str, mix: Mix) -> Experiment:
        scenario = mix.scenario(GUESS)
        rates: list[Parameter] = [*(_rounded(scenario.rate_at(aim)) for aim in UTILISATIONS), 0]
        fixed = {**mix.parameters, "seconds": self._seconds}
        name = f"{kind}-{mix.name}"
        return Experiment(name, "waiting", {"rate": rates}, fixed, "", ("tidings",), self._runs)


def _rounded(rate: float) -> int:
    """To three digits."""
    return round(float(f"{rate:.3g}"))


def _work(mix: Mix, one: PointResult) -> Work:
    return work_of({name: mean.mean for name, mean in one.seconds.items()}, mix.others + mix.subscribers + 1)


def _ratio(one: PointResult, above: str, below: str) -> Mean:
    """Of two means over the same runs, of which the second hardly varies."""
    a, b = one.seconds[above], one.seconds[below].mean
    deviation, half = (None if value is None else value / b for value in (a.deviation, a.half_width))
    return Mean(a.mean / b, deviation, half, a.runs)


def _compared(mix: Mix, costs: BatchCosts, one: PointResult) -> PredictionCheck:
    scenario = mix.scenario(costs)
    busy, rate = _ratio(one, "cpu_s", "seconds"), _ratio(one, "received", "seconds").mean
    queue = scenario.queue(rate)
    return PredictionCheck(
        mix=mix,
        rate=rate,
        busy=busy,
        busy_predicted=queue.busy,
        rate_predicted=scenario.rate_at(min(busy.mean, 0.99)),
        waiting=one.seconds["waiting_s"],
        waiting_predicted=queue.waiting_mean,
        wake=one.seconds["wake_s"],
        waiting_mg1=_mg1(scenario, rate),
    )


def _mg1(scenario: BatchScenario, rate: float) -> float | None:
    alone = float(scenario.mean(np.array([1.0]))[0]) + scenario.costs.t_cold
    if rate * alone >= 1:
        return None
    return float(waiting_moments(rate, gamma_moments(alone, 0.0))[0])
