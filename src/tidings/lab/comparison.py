"""Do two times of the same experiments agree? Welch's interval for the difference of two means over runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import t as student

from tidings.lab.arrays import refuse
from tidings.lab.results import LEVEL, Mean, Result


@dataclass(frozen=True, slots=True)
class Compared:
    """One point, received messages a second both times."""

    first: Result
    means: tuple[float, float]
    allowed: float  # half the width of the interval for the difference, relative to the first mean

    @property
    def difference(self) -> float:
        return self.means[1] / self.means[0] - 1

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= self.allowed


def compared(first: Sequence[Result], second: Sequence[Result]) -> list[Compared]:
    """Points that were measured both times, at least twice each."""
    others = {_key(one): one for one in second}
    found = []
    for one in first:
        other = others.get(_key(one))
        if other is not None and one.received and other.received:
            means = (one.received.mean, other.received.mean)
            found.append(Compared(one, means, half_width(one.received, other.received) / one.received.mean))
    if not found:
        raise refuse("there is no point that was measured both times", "E_LAB_RESULTS")
    return found


def half_width(a: Mean, b: Mean) -> float:
    """Of the confidence interval for the difference, with Welch's degrees of freedom.

    >>> round(half_width(Mean.of([9.0, 10.0, 11.0]), Mean.of([10.0, 11.0, 12.0])), 3)
    2.267
    """
    if a.deviation is None or b.deviation is None:
        raise refuse("a point was run only once: nothing is known about its deviation", "E_LAB_RESULTS")
    parts = [one.deviation**2 / one.runs for one in (a, b) if one.deviation is not None]
    variance = sum(parts)
    if not variance:
        return 0.0
    below = sum(part**2 / (one.runs - 1) for part, one in zip(parts, (a, b), strict=True))
    return float(student.ppf((1 + LEVEL) / 2, variance**2 / below)) * math.sqrt(variance)


def _key(one: Result) -> tuple[str, str, str]:
    return one.experiment, one.server, str(sorted(one.parameters.items()))
