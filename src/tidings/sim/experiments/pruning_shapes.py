"""What the pruning paper found, as statements about the results of an experiment: which of them do not hold."""

from collections.abc import Mapping
from itertools import pairwise

from tidings.sim.experiments.pruning import Result


def broken_shapes(results: Mapping[str, Result]) -> list[str]:
    """`results` by policy: active, lazy, packing and selective, of the same options. Empty: all is as in the paper."""
    active, lazy, packing, selective = (results[name] for name in ("active", "lazy", "packing", "selective"))
    covering = (active, lazy, packing)
    core = "ABCDE"
    shapes = {
        "everybody gets the same probes": len({one.probes_handed for one in results.values()}) == 1,
        "selective delays least, by far": all(one.delay_ms_mean > 20 * selective.delay_ms_mean for one in covering),
        "active is congested longest": active.quiet_s > max(lazy.quiet_s, packing.quiet_s),
        "and none delays more, to speak of": 1.2 * active.delay_ms_mean
        > max(lazy.delay_ms_mean, packing.delay_ms_mean),
        "with active, messages grow from A to E": all(
            active.nrs_messages[a] < active.nrs_messages[b] for a, b in pairwise(core)
        ),
        "with lazy, messages grow from A to E": lazy.nrs_messages["A"] < lazy.nrs_messages["E"],
        "lazy has fewer of them than active": lazy.nrs_messages["E"] < active.nrs_messages["E"],
        "packing has far fewer messages": 4 * sum(packing.nrs_messages.values()) < sum(active.nrs_messages.values()),
        "with selective, hardly any at E": selective.nrs_messages["E"] * 20 < active.nrs_messages["E"],
        "selective queues are short": all(4 * selective.queue_max < one.queue_max for one in covering),
        "selective is quiet again first": all(2 * selective.quiet_s < one.quiet_s for one in covering),
        "lazy tables are the largest before": lazy.table_before > active.table_before,
        "selective tables are smaller afterwards": selective.table_after < active.table_after,
        "few publications are in vain": vain_share(selective) < 0.02,
        "fewer still at the core": selective.in_vain["core"] < 0.01 * selective.publications["core"],
    }
    return [name for name, holds in shapes.items() if not holds]


def vain_share(result: Result) -> float:
    return sum(result.in_vain.values()) / max(1, sum(result.publications.values()))
