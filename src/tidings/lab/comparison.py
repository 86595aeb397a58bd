"""Do two times of the same experiments agree within their confidence intervals?

For each point, Welch's 95 % interval for the difference of two means over runs. If nothing has changed, one point in
twenty lies outside of its interval all the same, so all points together are judged by two rules, each of which says
"changed" in error in at most 2.5 % of all cases (hence both together in 5 %):

- *How many* lie outside: no more than the 97.5 % quantile of a binomial distribution with probability 0.05. It is for
  changes of many points, by little.
- *How far* the worst lies outside: no point's p-value is rejected by Holm's procedure. It is for changes of few points,
  by much.

The first rule takes points for independent. Those of one time share their machine and its mood, so a machine that is a
little slower on the second day fails it sooner than 2.5 % says: `shift`, the median of all differences, shows that.

Reference: B. L. Welch, *The generalization of "Student's" problem when several different population variances are
involved* (1947); S. Holm, *A simple sequentially rejective multiple test procedure* (1979).
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidings.capacity.arrays import refuse
from tidings.extras import lazy
from tidings.lab.results import LEVEL, Mean, PointResult

if TYPE_CHECKING:
    from scipy import stats
else:
    stats = lazy("scipy.stats")

RULE_LEVEL = 0.025  # of each of the two rules
DURATIONS = ("registration_s", "subscribe_s", "first_message_s", "waiting_s")


@dataclass(frozen=True, slots=True)
class Compared:
    """One point, both times: received messages a second, or a duration."""

    result: PointResult
    metric: str
    first: Mean
    second: Mean
    allowed: float  # half the width of the interval for the difference, relative to the first mean
    p_value: float  # of a difference as large as this, or larger, if nothing has changed

    @property
    def difference(self) -> float:
        return self.second.mean / self.first.mean - 1

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= self.allowed


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of a set of points."""

    points: Sequence[Compared]

    @property
    def outside(self) -> int:
        return sum(not one.agrees for one in self.points)

    @property
    def outside_expected(self) -> float:
        return (1 - LEVEL) * len(self.points)

    @property
    def outside_max(self) -> int:
        """That many may lie outside of their intervals by chance.

        >>> Agreement([Compared(None, "", Mean.of([1.0, 2.0]), Mean.of([1.0, 2.0]), 1.0, 1.0)] * 400).outside_max
        29
        """
        return int(stats.binom.ppf(1 - RULE_LEVEL, len(self.points), 1 - LEVEL))

    @property
    def rejected(self) -> list[Compared]:
        """The scenarios whose difference is too large even for the largest of this number of comparisons."""
        ordered = sorted(self.points, key=lambda one: one.p_value)
        for rank, one in enumerate(ordered):
            if one.p_value > RULE_LEVEL / (len(ordered) - rank):
                return ordered[:rank]
        return ordered

    @property
    def shift(self) -> float:
        """By how much half of the points differ more, half less."""
        return statistics.median(one.difference for one in self.points)

    @property
    def typical(self) -> float:
        """The median of the differences, whatever their sign."""
        return statistics.median(abs(one.difference) for one in self.points)

    @property
    def worst(self) -> Compared:
        return min(self.points, key=lambda one: one.p_value)

    @property
    def agrees(self) -> bool:
        return self.outside <= self.outside_max and not self.rejected


@dataclass(frozen=True, slots=True)
class ResultComparison:
    all: Agreement
    not_compared: int  # points that only one of them has, or with one run only

    def parts(self) -> Iterator[tuple[str, str, Agreement]]:
        """By experiment and server."""
        keys = dict.fromkeys((one.result.title, one.result.server) for one in self.all.points)
        for title, server in keys:
            of = [one for one in self.all.points if (one.result.title, one.result.server) == (title, server)]
            yield title, server, Agreement(of)


def compared(first: Sequence[PointResult], second: Sequence[PointResult]) -> ResultComparison:
    """Points that were measured both times, at least twice each."""
    before, after = ({key: one for result in results for key, one in _means(result)} for results in (first, second))
    found = []
    for key in before.keys() & after.keys():
        (result, a), (_, b) = before[key], after[key]
        if a.runs > 1 and b.runs > 1 and a.mean > 0:
            allowed, p_value = welch(a, b)
            found.append((key, Compared(result, key[-1], a, b, allowed / a.mean, p_value)))
    if not found:
        reason = "there is no point that was measured both times, with --busy or without, and at least twice each"
        raise refuse(reason, "E_LAB_RESULTS")
    order = {key: number for number, key in enumerate(before)}
    found.sort(key=lambda one: order[one[0]])
    return ResultComparison(Agreement([one for _, one in found]), len(before.keys() | after.keys()) - len(found))


def welch(a: Mean, b: Mean) -> tuple[float, float]:
    """Half the width of the interval for the difference, and the p-value of the difference there is.

    >>> half_width, p_value = welch(Mean.of([9.0, 10.0, 11.0]), Mean.of([10.0, 11.0, 12.0]))
    >>> round(half_width, 3), round(p_value, 3)
    (2.267, 0.288)
    """
    assert a.deviation is not None
    assert b.deviation is not None
    parts = a.deviation**2 / a.runs, b.deviation**2 / b.runs
    error = math.sqrt(sum(parts))
    if not error:
        return 0.0, float(a.mean == b.mean)
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (a.runs - 1) + parts[1] ** 2 / (b.runs - 1))
    p_value = 2 * float(stats.t.sf(abs(b.mean - a.mean) / error, freedom))
    return float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error, p_value


def _means(one: PointResult) -> Iterator[tuple[tuple[str, ...], tuple[PointResult, Mean]]]:
    key = one.title, one.kind, one.server, str(sorted(one.parameters.items()))
    if one.received is not None:
        yield (*key, "received_per_s"), (one, one.received)
    for name in DURATIONS:
        if name in one.seconds:
            yield (*key, name), (one, one.seconds[name])
