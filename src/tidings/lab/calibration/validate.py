"""Predictions of a calibrated model against measurements of scenarios that it has not seen.

Each scenario is measured twice: with its messages in flight all the time (messages per second of CPU time, and of wall
time), and with Poisson arrivals at a part of what saturates it (mean and 99 % of the waiting time in sockets, from the
broker's own histogram). Waiting times of a broker that publishes none are not compared.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from tidings.capacity.cost_file import CalibratedModel
from tidings.capacity.cost_fit import CostPoint
from tidings.capacity.cost_model import BrokerCosts
from tidings.errors import UsageError
from tidings.lab.calibration.load import LoadPoint, connected_load
from tidings.lab.calibration.meters import MeasuredStretch, MeterOverhead
from tidings.lab.calibration.target import CalibrationTarget

WARM_S = 0.3
LOAD = 0.5  # of what saturates it, for waiting times
RATE_MAX = 20_000.0  # that one generator can pace
THROUGHPUT, MEAN, QUANTILE = 0.10, 0.15, 0.25  # errors that count as right
P = 0.99


@dataclass(frozen=True, slots=True)
class ScenarioCheck:
    """One scenario. Rates in messages a second, times in seconds; NaN: not measured."""

    load: LoadPoint
    outside: tuple[str, ...]  # of what the model was calibrated with
    throughput: float  # of CPU time
    throughput_predicted: float
    wall_throughput: float
    counted_predicted: float = nan  # throughput predicted from the reads and writes that the broker counted
    rate: float = nan  # at which waiting was measured
    mean: float = nan
    mean_predicted: float = nan
    quantile: float = nan
    quantile_predicted: float = nan
    failed: str = ""

    @property
    def throughput_error(self) -> float:
        return self.throughput_predicted / self.throughput - 1

    @property
    def counted_error(self) -> float:
        """Of costs alone, whatever the sizes of turns were: also on a machine with other work."""
        return self.counted_predicted / self.throughput - 1

    @property
    def mean_error(self) -> float:
        return self.mean_predicted / self.mean - 1

    @property
    def quantile_error(self) -> float:
        return self.quantile_predicted / self.quantile - 1


def validated(
    model: CalibratedModel, targets: Mapping[str, CalibrationTarget], loads: Sequence[LoadPoint], *, seconds: float
) -> Iterator[ScenarioCheck]:
    """`targets`: by protocol; scenarios of others are left out, and so are those that the model has no costs for."""
    overheads = {name: MeterOverhead.of(target.meter) for name, target in targets.items()}
    for number, load in enumerate(loads):
        if load.protocol not in targets or load.protocol not in model.protocols:
            continue
        costs = model.costs(load.protocol)
        try:
            yield _checked(costs, targets[load.protocol], overheads[load.protocol], load, number, seconds)
        except UsageError as error:
            if error.code != "E_LAB_STUCK":
                raise
            yield ScenarioCheck(load, costs.outside(load.traffic), nan, nan, nan, failed=error.reason)


def right(checks: Sequence[ScenarioCheck]) -> dict[str, tuple[int, int]]:
    """By figure: how many predictions are within its bound, of how many that were measured."""
    found = {}
    for name, bound in (("throughput", THROUGHPUT), ("counted", THROUGHPUT), ("mean", MEAN), ("quantile", QUANTILE)):
        measured = "counted_predicted" if name == "counted" else name
        errors = [getattr(one, f"{name}_error") for one in checks if getattr(one, measured) > 0]
        found[name] = sum(abs(error) <= bound for error in errors), len(errors)
    return found


def _checked(
    costs: BrokerCosts,
    target: CalibrationTarget,
    overhead: MeterOverhead,
    load: LoadPoint,
    number: int,
    seconds: float,
) -> ScenarioCheck:
    predicted = 1 / costs.cost(load.traffic)
    closed = _stretch(target, overhead, load, f"{number}-closed", seconds)
    if closed.cpu_s <= 0:
        raise UsageError("E_LAB_STUCK", "the broker used no CPU time")
    found = ScenarioCheck(
        load,
        costs.outside(load.traffic),
        closed.messages / closed.cpu_s,
        predicted,
        closed.messages / closed.seconds,
        _counted(costs, load, closed),
    )
    wanted = min(LOAD * found.throughput, LOAD * found.wall_throughput, RATE_MAX)
    paced = _stretch(target, overhead, replace(load, rate=wanted), f"{number}-paced", seconds)
    if paced.waits is None or paced.waits.mean is None:
        return found
    rate = paced.messages / paced.seconds
    try:
        queue = costs.queue(load.traffic, rate)
        mean, quantile = queue.waiting_mean, queue.quantile(P)
    except UsageError:  # by the model more than the broker carries
        mean = quantile = float("inf")
    return replace(
        found,
        rate=rate,
        mean=paced.waits.mean,
        mean_predicted=mean,
        quantile=paced.waits.quantile(P) or nan,
        quantile_predicted=quantile,
    )


def _counted(costs: BrokerCosts, load: LoadPoint, closed: MeasuredStretch) -> float:
    if closed.reads is None or closed.writes is None:
        return nan
    each = (closed.reads / closed.messages, closed.writes / closed.messages)
    point = CostPoint(load.traffic, closed.cpu_s / closed.messages, "", *each)
    return 1 / float(point.row(costs.share) @ np.array(costs.values))


def _stretch(
    target: CalibrationTarget, overhead: MeterOverhead, load: LoadPoint, name: str, seconds: float
) -> MeasuredStretch:
    topic = f"tidings.lab.validate.{os.getpid()}.{name}"
    with connected_load(target.address, load, target.client, topic, tls=target.tls) as connections:
        connections.run(WARM_S)
        return connections.measure(target.meter, overhead, seconds)
