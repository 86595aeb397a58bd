"""Means over seeds with their confidence, and what the paper found as statements about them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import NamedTuple, TypeAlias

from tidings.experiments.hermes.experiments import HermesPoint
from tidings.experiments.hermes.systems import COVADV_MST, COVADV_NEAREST, HERMES

# Student's t for 95 %, by degrees of freedom.
_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


class Estimate(NamedTuple):
    mean: float
    half_width: float  # of the 95 % confidence interval; 0 of a single run


Curves: TypeAlias = dict[tuple[str, str], dict[int, Estimate]]  # (metric, system) -> x -> mean over seeds


def estimate(values: Sequence[float]) -> Estimate:
    """
    >>> found = estimate([1.0, 2.0, 3.0])
    >>> found.mean, round(found.half_width, 3)
    (2.0, 2.484)
    """
    if len(values) == 1:
        return Estimate(values[0], 0.0)
    return Estimate(mean(values), _T.get(len(values) - 1, 1.96) * stdev(values) / sqrt(len(values)))


def curves(points: Iterable[HermesPoint]) -> Curves:
    gathered: dict[tuple[str, str], dict[int, list[float]]] = {}
    for point in points:
        gathered.setdefault((point.metric, point.system), {}).setdefault(point.x, []).append(point.value)
    return {key: {x: estimate(values) for x, values in sorted(row.items())} for key, row in gathered.items()}


def distribution(points: Iterable[HermesPoint], system: str) -> Counter[int]:
    """Of E3: how many brokers have how many entries, all seeds together."""
    return Counter(int(point.value) for point in points if point.system == system)


def broken_shapes(experiment: str, points: Sequence[HermesPoint]) -> list[str]:
    """The findings of the paper that these points do not show."""
    found = curves(points)
    checks = _e3(points) if experiment == "e3" else _CHECKS[experiment](found)
    return [f"{experiment}: {text}" for text, holds in checks.items() if not holds]


def _ends(row: Mapping[int, Estimate]) -> tuple[float, float]:
    values = [one.mean for one in row.values()]
    return values[0], values[-1]


def _below(low: Mapping[int, Estimate], high: Mapping[int, Estimate]) -> bool:
    return all(low[x].mean < high[x].mean for x in low)


def _e1(found: Curves) -> dict[str, bool]:
    hops = {name: found["hops", name] for name in (HERMES, COVADV_MST, COVADV_NEAREST)}
    sparse = {name: {x: one for x, one in row.items() if x < max(row)} for name, row in hops.items()}
    latency = {name: mean(one.mean for one in found["latency_ms", name].values()) for name in hops}
    return {
        "latency: MST < Hermes < nearest": latency[COVADV_MST] < latency[HERMES] < latency[COVADV_NEAREST],
        "hops: Hermes has the least": _below(sparse[HERMES], sparse[COVADV_MST])
        and _below(sparse[HERMES], sparse[COVADV_NEAREST]),
        "hops fall towards one": all(_ends(row)[1] < 1.2 < _ends(row)[0] for row in hops.values()),
    }


def _e2a(found: Curves) -> dict[str, bool]:
    hermes, covadv = found["advRT_entries", HERMES], found["advRT_entries", COVADV_MST]
    subscribed = found["subRT_entries", HERMES], found["subRT_entries", COVADV_MST]
    last = max(subscribed[0])
    return {
        "advRT is constant": all(_ends(row)[0] == _ends(row)[1] for row in (hermes, covadv)),
        "Hermes has a fraction of CovAdv's advRT": all(hermes[x].mean < 0.5 * covadv[x].mean for x in hermes),
        "Hermes has no more subRT entries": all(
            subscribed[0][x].mean <= 1.02 * subscribed[1][x].mean for x in subscribed[0]
        ),
        "full tables converge": subscribed[0][last].mean > 0.8 * subscribed[1][last].mean,
    }


def _e2b(found: Curves) -> dict[str, bool]:
    hermes, covadv = found["advRT_entries", HERMES], found["advRT_entries", COVADV_MST]
    sizes = list(hermes)
    grown = hermes[sizes[-1]].mean / hermes[sizes[0]].mean
    return {
        "CovAdv's advRT is constant and full": _ends(covadv)[0] == _ends(covadv)[1],
        "Hermes's advRT grows, less than in proportion": 1 < grown < sizes[-1] / sizes[0],
        "Hermes's advRT is the smaller": all(hermes[x].mean <= covadv[x].mean for x in hermes),
    }


def _e2c(found: Curves) -> dict[str, bool]:
    growth = {key: _ends(row)[1] - _ends(row)[0] for key, row in found.items()}
    covadv = growth["advRT_entries", COVADV_MST]
    return {
        "most new entries are CovAdv's advRT": covadv
        > max(growth["advRT_entries", HERMES], growth["subRT_entries", HERMES]),
        "Hermes's tables grow less": growth["advRT_entries", HERMES] + growth["subRT_entries", HERMES]
        < covadv + growth["subRT_entries", COVADV_MST],
    }


def _e3(points: Sequence[HermesPoint]) -> dict[str, bool]:
    hermes, covadv = distribution(points, HERMES), distribution(points, COVADV_MST)
    return {
        "Hermes has brokers without any entry": hermes[0] > 0,
        "every broker of CovAdv has the ten advertised types": min(covadv) >= 10,
        "Hermes's tables are the smaller on average": _mean_size(hermes) < _mean_size(covadv),
        "no broker has more than CovAdv's twenty": max(covadv) <= 20,
    }


def _mean_size(row: Counter[int]) -> float:
    return sum(size * count for size, count in row.items()) / row.total()


def _e4(found: Curves) -> dict[str, bool]:
    published = found["publications", HERMES], found["publications", COVADV_MST]
    first = min(published[0])
    grown = {name: _growth(found["subscriptions", name]) for name in (HERMES, COVADV_MST)}
    return {
        "Hermes sends fewer publications": _below(*published),
        "far fewer where subscribers are few": published[0][first].mean < 0.6 * published[1][first].mean,
        "Hermes sends fewer advertisements": _below(
            found["advertisements", HERMES], found["advertisements", COVADV_MST]
        ),
        "Hermes's subscriptions grow faster": grown[HERMES] > grown[COVADV_MST],
    }


def _growth(row: Mapping[int, Estimate]) -> float:
    first, last = _ends(row)
    return last / first


_CHECKS = {"e1": _e1, "e2a": _e2a, "e2b": _e2b, "e2c": _e2c, "e4a": _e4, "e4b": _e4}
