"""The runs of the experiments on pruning, and their stored results: an interrupted sweep continues.

A sweep is a table of runs: for each setting one run of each policy, all with the same seed. What a run found is kept in
a file of its own, named after its options; the same run is not done twice in the same folder.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from tidings.experiments.covering.mobile import MobileOptions, MobileResult
from tidings.experiments.covering.mobile import run as run_mobile
from tidings.experiments.covering.pruning import PruningOptions, PruningResult
from tidings.experiments.covering.pruning import run as run_pruning
from tidings.sim.service import ServiceModel

PAIR = ("active", "selective")
FOUR = ("active", "lazy", "packing", "selective")
ALL = ("none", *FOUR)
DEGREES = (10, 20, 30, 40, 50)
PHIS = (0.5, 0.7, 0.9, 0.95, 1.0)
POLICIES_OF = {"policies": ALL, "phi": PAIR[1:]}  # of a sweep; of others PAIR

AnyOptions: TypeAlias = PruningOptions | MobileOptions
AnyResult: TypeAlias = PruningResult | MobileResult


class PruningSweep(StrEnum):
    policies = "policies"
    unsubscriptions = "unsubscriptions"
    degree = "degree"
    clustered = "clustered"
    phi = "phi"
    mobile = "mobile"


@dataclass(frozen=True)
class SweepRun:
    setting: str  # empty where only the policy differs
    options: AnyOptions


def runs_of(sweep: PruningSweep, scale: float, seed: int, hours: float) -> list[SweepRun]:
    if sweep is PruningSweep.mobile:
        base = mobile_options(scale, seed, hours)
        moves = {"monitors move": 0.0, "all move": 60.0 * scale}
        return [
            SweepRun(case, replace(base, policy=name, moves_a_minute=rate))
            for case, rate in moves.items()
            for name in PAIR
        ]
    default = default_options(scale, seed)
    names = POLICIES_OF.get(sweep.value, PAIR)
    settings = _settings(sweep, default).items()
    return [
        SweepRun(setting, replace(default, policy=name, **changes)) for setting, changes in settings for name in names
    ]


def _settings(sweep: PruningSweep, base: PruningOptions) -> Mapping[str, Mapping[str, Any]]:
    if sweep is PruningSweep.unsubscriptions:  # more of them in the same time
        whole_ms = base.unsubscriptions * base.unsubscribe_ms
        counts = [base.unsubscriptions * third // 3 for third in (1, 2, 3)]
        return {str(one): {"unsubscriptions": one, "unsubscribe_ms": whole_ms / one} for one in counts}
    if sweep is PruningSweep.degree:
        return {str(degree): {"degree": degree} for degree in DEGREES}
    if sweep is PruningSweep.phi:
        return {str(phi): {"phi": phi} for phi in PHIS}
    if sweep is PruningSweep.clustered:
        return {"scattered": {}, "clustered": {"clustered": True}}
    return {"": {}}


def default_options(scale: float, seed: int) -> PruningOptions:
    """The paper's experiment, or a smaller one of the same shape: brokers are slower by as much as it is smaller."""
    full = PruningOptions(seed=seed)
    service = full.service
    if scale == 1.0:
        return full
    return replace(
        full,
        subscriptions=round(full.subscriptions * scale),
        families=round(full.families * scale),
        publications=round(full.publications * scale),
        lead_s=full.lead_s * scale,
        unsubscriptions=round(full.unsubscriptions * scale),
        probes=max(10, round(full.probes * scale)),
        probe_after_s=full.probe_after_s * scale,
        service=replace(
            service,
            control_entry_ms=service.control_entry_ms / scale,
            publication_entry_ms=service.publication_entry_ms / scale,
        ),
    )


def mobile_options(scale: float, seed: int, hours: float) -> MobileOptions:
    service = ServiceModel()
    service = replace(service, control_ms=service.control_ms / scale)  # fewer subscriptions, each the more work
    sight = round(100 / scale**0.5)
    return MobileOptions(seed=seed, hours=hours, subscribers=round(5000 * scale), sight=sight, service=service)


def perform(options: AnyOptions, folder: Path, again: bool = False) -> AnyResult:
    """Do a run, unless the folder has it."""
    path = folder / f"{options.policy}-{_digest(options)}.json"
    if path.exists() and not again:
        return _read(options, json.loads(path.read_text()))
    found: AnyResult = run_mobile(options) if isinstance(options, MobileOptions) else run_pruning(options)
    found.ended_ms = time.time_ns() // 1_000_000
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(found)))
    partial.replace(path)
    return found


def _digest(options: AnyOptions) -> str:
    told = json.dumps([type(options).__name__, asdict(options)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _read(options: AnyOptions, kept: dict[str, Any]) -> AnyResult:
    """Restores what JSON changes: tuples became lists, and the keys of tiers text."""
    for series in {"queues", "tables"} & kept.keys():
        kept[series] = [tuple(one) for one in kept[series]]
    kept["options"] = options
    if isinstance(options, PruningOptions):
        return PruningResult(**kept)
    for tiers in ("publications", "in_vain"):
        kept[tiers] = {int(tier): count for tier, count in kept[tiers].items()}
    return MobileResult(**kept)
