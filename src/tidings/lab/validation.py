"""Prediction against measurement: is the model of the batching broker right about loads it has not seen?

Costs of batches are fitted to *calibration* mixes of filters and receivers under several loads, and saturated. From
them follow, for other mixes that are *held out*, the rates at which the broker is busy for a given share of the time,
the waiting times there, and the throughput at saturation. Then those are measured. Everything is in the folder's
segments, so a validation that was broken off goes on where it stopped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scipy.optimize import minimize_scalar

from tidings.errors import UsageError
from tidings.lab.batch_costs import BatchCosts, BatchScenario, Receivers, Work, fit_costs, work_of
from tidings.lab.execution import Execution, Step
from tidings.lab.experiment import Experiment, Measure
from tidings.lab.results import Mean, Result, read_results
from tidings.lab.service import gamma_moments
from tidings.lab.setups import MIX_TYPES, Parameter
from tidings.lab.waiting import waiting_moments

UTILISATIONS = (0.3, 0.5, 0.7, 0.8, 0.9)
GUESS = BatchCosts(t_batch=30e-6, t_write=5e-6, t_rcv=3e-7, t_fltr=0.0, t_tx=5e-8)  # only to choose rates to begin with
WAKE_S_MAX = 200e-6
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
        return BatchScenario(costs, self.others + self.subscribers + 1, Receivers(self.subscribers, share, always=1))


CALIBRATION = (Mix(20, 100, 0), Mix(50, 100, 500), Mix(80, 50, 0), Mix(120, 10, 2000), Mix(30, 25, 10_000))
HELD_OUT = (Mix(60, 100, 100), Mix(100, 20, 1000), Mix(40, 50, 5000))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One held-out load. Times in seconds, rates in messages a second."""

    mix: Mix
    utilisation: float  # aimed at
    rate: float
    busy: Mean  # measured
    rate_predicted: float  # at the measured utilisation
    waiting: Mean
    waiting_predicted: float
    waiting_mg1: float | None  # if every message cost what one alone does; None: overload

    @property
    def rate_error(self) -> float:
        return self.rate_predicted / self.rate - 1

    @property
    def waiting_error(self) -> float:
        return self.waiting_predicted / self.waiting.mean - 1


@dataclass(frozen=True, slots=True)
class Saturated:
    mix: Mix
    rate: Mean
    rate_predicted: float

    @property
    def rate_error(self) -> float:
        return self.rate_predicted / self.rate.mean - 1


class Validation:
    def __init__(
        self,
        folder: Path,
        *,
        calibration: Sequence[Mix] = CALIBRATION,
        held_out: Sequence[Mix] = HELD_OUT,
        utilisations: Sequence[float] = UTILISATIONS,
        runs: int = RUNS,
        seconds: int = SECONDS,
    ) -> None:
        self._folder, self._runs, self._seconds = folder, runs, seconds
        self._calibration, self._held_out, self._utilisations = calibration, held_out, utilisations
        self.given_up: dict[str, str] = {}

    def steps(self) -> Iterator[Step]:
        """Measure what is missing: first what the costs are fitted to, then what they predict."""
        for mix in self._calibration:
            yield from self._measured(self._paced("calibration", mix, mix.scenario(GUESS)))
            yield from self._measured(self._saturated("calibration", mix))
        costs = self.costs()
        for mix in self._held_out:
            yield from self._measured(self._paced("held-out", mix, mix.scenario(costs)))
            yield from self._measured(self._saturated("held-out", mix))

    def costs(self) -> BatchCosts:
        """Fitted to the calibration mixes alone."""
        points = [(mix, one) for mix in self._calibration for one in self._results("calibration", mix)]
        work = [_work(mix, one) for mix, one in points]
        fitted = fit_costs(work)
        paced = [(mix, one) for mix, one in points if "rate" in one.parameters]

        def misfit(wake: float) -> float:
            costs = replace(fitted, t_wake=wake)
            errors = [
                _waiting(mix, costs, one.parameters["rate"]) / one.seconds["waiting_s"].mean - 1 for mix, one in paced
            ]
            return sum(error**2 for error in errors)

        found = minimize_scalar(misfit, bounds=(0.0, WAKE_S_MAX), method="bounded", options={"xatol": 1e-7})
        return replace(fitted, t_wake=float(found.x))

    def comparisons(self, kind: str = "held-out") -> list[Comparison]:
        costs = self.costs()
        mixes = self._held_out if kind == "held-out" else self._calibration
        return [
            _compared(mix, costs, aim, one)
            for mix in mixes
            for aim, one in zip(self._utilisations, self._of(kind, mix, "rate"), strict=False)
        ]

    def saturated(self) -> list[Saturated]:
        costs = self.costs()
        found = []
        for mix in self._held_out:
            for one in self._of("held-out", mix, ""):
                rate = Mean.of([one.seconds["received"].mean / one.seconds["seconds"].mean])
                found.append(Saturated(mix, rate, mix.scenario(costs).capacity))
        return found

    def _of(self, kind: str, mix: Mix, parameter: str) -> list[Result]:
        """Those with a rate, rising; or those without."""
        found = [one for one in self._results(kind, mix) if ("rate" in one.parameters) == bool(parameter)]
        return sorted(found, key=lambda one: one.parameters.get("rate", 0))

    def _results(self, kind: str, mix: Mix) -> list[Result]:
        found = []
        for name in (f"{kind}-{mix.name}", f"{kind}-{mix.name}-saturated"):
            try:
                found += [one for one in read_results(self._folder, name) if one.seconds]
            except UsageError as error:
                if error.code != "E_LAB_RESULTS":
                    raise
        return found

    def _paced(self, kind: str, mix: Mix, scenario: BatchScenario) -> Experiment:
        rates: list[Parameter] = [_rounded(scenario.rate_at(utilisation)) for utilisation in self._utilisations]
        fixed = {**mix.parameters, "seconds": self._seconds}
        return self._experiment(f"{kind}-{mix.name}", "waiting", {"rate": rates}, fixed)

    def _saturated(self, kind: str, mix: Mix) -> Experiment:
        return self._experiment(f"{kind}-{mix.name}-saturated", "saturated", {}, mix.parameters)

    def _experiment(self, name: str, kind: str, vary: dict[str, list[Parameter]], fixed: dict[str, int]) -> Experiment:
        return Experiment(name, kind, vary, fixed, "", ("tidings",), self._runs, Measure(seconds=1.0))

    def _measured(self, experiment: Experiment) -> Iterator[Step]:
        execution = Execution(experiment, self._folder)
        yield from execution.steps()
        self.given_up |= execution.given_up


def _rounded(rate: float) -> int:
    """To three digits: a fit that comes out a little different after an interruption asks for the same."""
    return round(float(f"{rate:.3g}"))


def _work(mix: Mix, one: Result) -> Work:
    return work_of({name: mean.mean for name, mean in one.seconds.items()}, mix.others + mix.subscribers + 1)


def _waiting(mix: Mix, costs: BatchCosts, rate: float) -> float:
    """As it is measured: beyond what a message suffers that meets a sleeping broker."""
    return mix.scenario(costs).queue(rate).waiting_mean - costs.t_wake


def _compared(mix: Mix, costs: BatchCosts, aim: float, one: Result) -> Comparison:
    scenario = mix.scenario(costs)
    busy, rate = one.seconds["cpu_s"], float(one.parameters["rate"])
    seconds = one.seconds["seconds"].mean
    share = Mean(
        busy.mean / seconds,
        None if busy.deviation is None else busy.deviation / seconds,
        None if busy.half_width is None else busy.half_width / seconds,
        busy.runs,
    )
    rate = one.seconds["received"].mean / seconds
    return Comparison(
        mix=mix,
        utilisation=aim,
        rate=rate,
        busy=share,
        rate_predicted=scenario.rate_at(min(share.mean, 0.99)),
        waiting=one.seconds["waiting_s"],
        waiting_predicted=_waiting(mix, costs, rate),
        waiting_mg1=_mg1(scenario, rate),
    )


def _mg1(scenario: BatchScenario, rate: float) -> float | None:
    alone = float(scenario.queue(1.0).per_batch(scenario.mean)) + scenario.costs.t_cold
    if rate * alone >= 1:
        return None
    return float(waiting_moments(rate, gamma_moments(alone, 0.0))[0])
