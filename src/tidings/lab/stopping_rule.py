"""Decides when a run ends: warm-up until the server is steady, then until its rate is known well enough.

Both are rules over the counters read so far, with a least and a longest time each:

- The warm-up has ended when the last third of it was as fast as the third before, to within `steady`. Thirds grow with
  the time, so what only flickers averages out, and a server that still gets faster is waited for.
- Enough has been seen when the mean of the rates since then is known to within `precision` (half the width of its 95 %
  interval, over batches of two samples, for neighbours resemble each other).

A run ends a cool-down later. The intervals of results are not these but those over runs (results.py): what differs from
process to process and from hour to hour, no single run can know.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidings.extras import lazy
from tidings.lab.experiment import Measure
from tidings.lab.run_verdict import CounterSample

if TYPE_CHECKING:
    from scipy import stats
else:
    stats = lazy("scipy.stats")

LEVEL = 0.95
BATCH = 2  # samples
ROUNDING_S = 0.001  # times of samples are kept in milliseconds


class StoppingRule:
    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._warm: int | None = None  # the sample at which the warm-up ended
        self._end_s = math.inf
        self.warm_s = 0.0  # how long the warm-up was

    def over(self, samples: Sequence[CounterSample]) -> bool:
        """After each sample: is that all?"""
        now_s = samples[-1].at_s
        if self._warm is None and self._is_warm(samples):
            self._warm = len(samples) - 1
            self.warm_s = max(0.0, now_s - samples[0].at_s - ROUNDING_S)
        if self._warm is not None and self._end_s == math.inf and self._seen(samples[self._warm :]):
            self._end_s = now_s + self._measure.cool_s
        return now_s >= self._end_s - 1e-9

    def _is_warm(self, samples: Sequence[CounterSample]) -> bool:
        measure, passed_s = self._measure, samples[-1].at_s - samples[0].at_s
        if passed_s < measure.warm_s - 1e-9:
            return False
        third = (len(samples) - 1) // 3
        if not measure.steady or passed_s >= measure.warm_s_max:
            return True
        if not third:
            return False
        before = self._rate(samples[-1 - 2 * third], samples[-1 - third])
        last = self._rate(samples[-1 - third], samples[-1])
        return last > 0 and abs(last - before) <= measure.steady * last

    def _seen(self, window: Sequence[CounterSample]) -> bool:
        measure, passed_s = self._measure, window[-1].at_s - window[0].at_s
        if passed_s >= measure.seconds - 1e-9:
            return True
        if not measure.precision or passed_s < measure.seconds_min - 1e-9:
            return False
        ends = window[::BATCH]
        rates = [self._rate(a, b) for a, b in itertools.pairwise(ends)]
        return relative_half_width(rates) <= measure.precision

    def _rate(self, a: CounterSample, b: CounterSample) -> float:
        counted_s = b.server_cpu_s - a.server_cpu_s if self._measure.per_cpu_second else b.at_s - a.at_s
        return (b.received_messages - a.received_messages) / max(counted_s, 1e-9)


def relative_half_width(values: Sequence[float]) -> float:
    """Of the interval for their mean; infinite if nothing can be said.

    >>> round(relative_half_width([9.0, 10.0, 11.0]), 3)
    0.248
    """
    if len(values) < 2 or (mean := statistics.fmean(values)) <= 0:
        return math.inf
    factor = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1))
    return factor * statistics.stdev(values) / math.sqrt(len(values)) / mean
