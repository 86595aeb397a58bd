"""CPU time per message in a broker, fitted to real brokers, for brokers in virtual time.

Processor time = received · a + arrived · b + copies · c + delivered · d: messages of clients, copies from other
brokers, copies to them, deliveries to clients. `fit` finds a to d from what real brokers counted (real_network.py),
`meter` charges a simulated broker for what it does.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tidings.errors import UsageError
from tidings.sim.broker import SimBroker
from tidings.text_files import parse_json

COUNTED = ("received", "arrived", "copies", "delivered")


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds of processor time. The defaults were fitted to four real brokers under a light load, when nearly
    every message has a read and every delivery a write of its own: under a heavy one they cost less."""

    received: float = 274.0
    arrived: float = 9.5
    copies: float = 6.6
    delivered: float = 60.0

    @classmethod
    def from_json(cls, text: str, where: object) -> "Costs":
        """Reads the output of `tidings net experiment costs`: all four costs, and nothing else."""
        data = parse_json(text, where, "E_COSTS")
        if not isinstance(data, dict) or set(data) != set(COUNTED):
            raise UsageError("E_COSTS", f"{where}: not an object with {', '.join(COUNTED)}")
        for name, value in data.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise UsageError("E_COSTS", f"{where}: {name} is a number of microseconds from 0, not {value!r:.40}")
        return cls(**data)


def fit(work: Iterable[Mapping[str, float]]) -> Costs:
    """From counts and `cpu_seconds` of several brokers; no cost is negative.

    >>> work = [{"received": n, "arrived": m, "copies": n, "delivered": 0, "cpu_seconds": 2e-5 * n + 1e-5 * m}
    ...         for n, m in ((10, 1), (5, 20), (7, 7), (1, 2))]
    >>> round(fit(work).arrived, 3)
    10.0
    """
    rows = list(work)
    if len(rows) < len(COUNTED):
        raise UsageError("E_COSTS", f"{len(rows)} brokers say too little for {len(COUNTED)} unknowns")
    counts = np.array([[row[name] for name in COUNTED] for row in rows], dtype=float)
    seconds = np.array([row["cpu_seconds"] for row in rows], dtype=float)
    from scipy.optimize import nnls  # it takes a second to load, and every `tidings net` would

    found, _ = nnls(counts, seconds)
    return Costs(*(float(one) * 1e6 for one in found))


def meter(costs: Costs) -> Callable[[Any], float]:
    """Milliseconds that a simulated broker was busy since it was last asked about."""
    before: dict[int, dict[str, int]] = {}

    def busy_ms(machine: Any) -> float:
        if not isinstance(machine, SimBroker):
            return 0.0
        now = counts_of(machine)
        last = before.get(id(machine), dict.fromkeys(COUNTED, 0))
        before[id(machine)] = now
        busy_us = sum((now[name] - last[name]) * price for name, price in asdict(costs).items())
        return float(busy_us) / 1000

    return busy_ms


def counts_of(machine: SimBroker) -> dict[str, int]:
    seen = {**machine.forwarder.stats(), **machine.forwarder.network_stats()}
    return {name: seen[name] for name in COUNTED}
