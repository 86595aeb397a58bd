"""The points of a calibration: a designed set in which every term of the cost model shows.

A small load, the same with each factor at its extremes, and a fraction of all combinations: columns in which each level
of a factor is equally often, each in an order of its own, so that no two factors go together. Beside these, points held
out, drawn between the levels. They are measured in random order, so that no mood of the machine comes to one factor
alone.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidings.lab.calibration.load import KINDS, LoadPoint

LEVELS: dict[str, tuple[Any, ...]] = {
    "body": (0, 200, 1000, 4000, 16_000),
    "properties": (1, 5, 15, 30),
    "others": (0, 50, 500, 2000),
    "components": (1, 3, 6),
    "subscribers": (1, 5, 20, 50),
    "match": (1.0, 0.25, 0.5),
    "together": (False, True),
    "publishers": (1, 5, 20, 50),
    "in_flight": (1, 10, 50, 200, 500),
}
COMBINED, HELD_OUT = 24, 8
OUTPUT_BYTES_MAX = 32 << 20  # on their way to all subscribers: what more is there is a matter of memory
DURABLE_MAX = 20  # durable subscriptions are created and deleted for each point


@dataclass(frozen=True, slots=True)
class DesignedPoint:
    name: str
    load: LoadPoint
    held_out: bool = False


def designed(protocol: str, *, persistent: bool, seed: int = 0, combined: int = COMBINED) -> list[DesignedPoint]:
    """The same ones for the same seed. With `persistent`, half of the combinations are; otherwise none."""
    rng = random.Random(f"design {seed} {protocol}")
    base = LoadPoint(protocol, in_flight=50, publishers=5, subscribers=3)
    found = [DesignedPoint("base", base)]
    found += [DesignedPoint(f"{name}={level}", one) for name, level, one in _extremes(base)]
    columns = {name: _balanced(levels, combined, rng) for name, levels in LEVELS.items()}
    columns["persistent"] = _balanced((False, True) if persistent else (False,), combined, rng)
    if persistent:
        stored = replace(base, persistent=True)
        alike = [
            replace(stored, in_flight=1, publishers=1),
            replace(stored, in_flight=500),
            replace(stored, body=16_000),
        ]
        alike += [replace(stored, subscribers=DURABLE_MAX)]
        found += [DesignedPoint(f"persistent {number}", one) for number, one in enumerate([stored, *alike])]
    for number in range(combined):
        values = {name: column[number] for name, column in columns.items()}
        found.append(DesignedPoint(f"combined {number}", LoadPoint(protocol, **values)))
    for number in range(HELD_OUT):
        stored_too = persistent and number % 2 == 0
        found.append(DesignedPoint(f"held out {number}", _between(protocol, rng, persistent=stored_too), held_out=True))
    return [replace(one, load=carried(one.load)) for one in found]


def carried(load: LoadPoint) -> LoadPoint:
    """The same, but for what no broker or client of this protocol does: no more publishers than messages, and so on."""
    in_flight = min(load.in_flight, max(1, OUTPUT_BYTES_MAX // (load.subscribers * (load.body + 100))))
    subscribers = min(load.subscribers, DURABLE_MAX) if load.persistent else load.subscribers
    components = min(load.components, load.properties) if load.others else 1
    if load.protocol == "mqtt":  # no selectors
        components = 1
    publishers = min(load.publishers, in_flight)
    return replace(load, in_flight=in_flight, subscribers=subscribers, components=components, publishers=publishers)


def _extremes(base: LoadPoint) -> list[tuple[str, Any, LoadPoint]]:
    found: list[tuple[str, Any, LoadPoint]] = []
    for name, levels in LEVELS.items():
        if name in ("components", "match", "together"):
            continue
        extremes = sorted({min(levels), max(levels)} - {getattr(base, name)})
        found += [(name, level, replace(base, **{name: level})) for level in extremes]
    return [*found, *_filters(base)]


def _filters(base: LoadPoint) -> list[tuple[str, Any, LoadPoint]]:
    """Points of factors that need others: comparisons belong to filters, interests to several receivers."""
    complex_filters = replace(base, others=500, components=6, properties=6)
    shared = replace(base, subscribers=21, match=0.25, in_flight=5)
    return [
        ("components", 6, complex_filters),
        ("together", False, shared),
        ("together", True, replace(shared, together=True)),
    ]


def _balanced(levels: Sequence[Any], count: int, rng: random.Random) -> list[Any]:
    column = [levels[number % len(levels)] for number in range(count)]
    rng.shuffle(column)
    return column


def _between(protocol: str, rng: random.Random, *, persistent: bool) -> LoadPoint:
    """Inside of the levels; what spans decades is drawn evenly over its logarithm."""

    def spread(low: int, high: int) -> int:
        return round(low * math.exp(math.log(high / low) * rng.random()))

    return LoadPoint(
        protocol,
        persistent,
        body=spread(10, 12_000),
        properties=rng.randint(1, 25),
        others=spread(1, 1500),
        components=rng.choice((1, 2, 4)),
        subscribers=spread(1, 40),
        match=rng.randint(KINDS // 5, KINDS) / KINDS,
        together=rng.random() < 0.5,
        publishers=spread(1, 40),
        in_flight=spread(1, 400),
    )
