"""Converts results of the pruning experiments to rows of the table `simulations`, which Spark reads.

Time series have the virtual time of their samples, everything else that of the run's end. Numbers of one broker have
its number, those of a tier a label.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tidings.experiments.covering.mobile import MobileResult
from tidings.experiments.covering.pruning import PruningResult
from tidings.experiments.covering.pruning_setup import CORE
from tidings.experiments.covering.pruning_sweeps import AnyResult

SCALARS = (
    "delay_ms_mean",
    "delay_ms_p10",
    "delay_ms_p90",
    "probes_handed",
    "queue_max",
    "quiet_s",
    "table_before",
    "table_after",
    "preserved",
)


def rows(run: str, scenario: str, setting: str, result: AnyResult) -> list[dict[str, Any]]:
    """`run` is its unique name; the policy and what else was set are labels of every row."""
    labels = {"policy": result.options.policy, "setting": setting}
    end_ms = 1000 * max((sample[0] for sample in result.queues), default=0.0)
    found = _of_pruning(result, end_ms) if isinstance(result, PruningResult) else _of_mobile(result)
    common = {"run": run, "scenario": scenario, "seed": result.options.seed}
    told = [
        *found,
        *_by_tier(result, end_ms),
        (end_ms, None, "events", result.events, {}),
        (end_ms, None, "wall_s", result.wall_s, {}),
    ]
    return [
        {
            **common,
            "at_ms": float(at_ms),
            "node": node,
            "metric": metric,
            "value": float(value),
            "labels": json.dumps({**labels, **more}),
        }
        for at_ms, node, metric, value, more in told
    ]


Row = tuple[float, int | None, str, float, Mapping[str, str]]


def _of_pruning(result: PruningResult, end_ms: float) -> Iterator[Row]:
    yield from ((end_ms, None, name, getattr(result, name), {}) for name in SCALARS)
    for core, messages in zip(CORE, result.nrs_messages.values(), strict=True):
        yield end_ms, core, "nrs_messages", messages, {}
    for at_s, mean, longest in result.queues:
        yield at_s * 1000, None, "core_queue_mean", mean, {}
        yield at_s * 1000, None, "core_queue_max", longest, {}


def _of_mobile(result: MobileResult) -> Iterator[Row]:
    for at_s, longest in result.queues:
        yield at_s * 1000, 1, "queue_max", longest, {}
    for at_s, entries in result.tables:
        yield at_s * 1000, None, "table_mean", entries, {}


def _by_tier(result: AnyResult, end_ms: float) -> Iterator[Row]:
    for tier, count in result.publications.items():
        yield end_ms, None, "publications", count, {"tier": str(tier)}
    for tier, count in result.in_vain.items():
        yield end_ms, None, "publications_in_vain", count, {"tier": str(tier)}
