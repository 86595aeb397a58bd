"""Waiting-time quantiles per second: the Gamma-approximation, against inverting the transform each time.

python -m bench.waiting
"""

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hardening.queueing.inversion import gamma_transform, quantile_by_inversion

from tidings.capacity.service import gamma_moments
from tidings.capacity.waiting import GammaWaiting

RESULT = Path(__file__).parent / "results" / "waiting.json"
QUEUES = 100_000


def per_second(count: int, work: Callable[[], object], repetitions: int = 7) -> float:
    """The best of several runs, in units of CPU time of this thread."""
    best = np.inf
    for _ in range(repetitions):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return float(count / best)


def main() -> None:
    rng = np.random.default_rng(1)
    rates = rng.uniform(0.05, 0.99, QUEUES)
    service = gamma_moments(np.ones(QUEUES), rng.uniform(0, 4, QUEUES))
    ready = GammaWaiting.of(rates, service)
    one = gamma_moments(1.0, 0.4)
    transform = gamma_transform(1.0, 0.4)
    results = {
        "gamma, from moments to quantile, arrays": per_second(
            QUEUES, lambda: GammaWaiting.of(rates, service).quantile(0.9999)
        ),
        "gamma, quantile alone, arrays": per_second(QUEUES, lambda: ready.quantile(0.9999)),
        "gamma, one queue at a time": per_second(
            200, lambda: [GammaWaiting.of(0.9, one).quantile(0.9999) for _ in range(200)]
        ),
        "inversion, one queue at a time": per_second(
            10, lambda: [quantile_by_inversion(0.9999, 0.9, 1.0, transform) for _ in range(10)]
        ),
    }
    for name, value in results.items():
        print(f"{value:12,.0f} quantiles/s  {name}")
    document = {"machine": platform.machine(), "python": platform.python_version(), "quantiles_per_second": results}
    RESULT.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
