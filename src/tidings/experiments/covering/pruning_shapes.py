"""The findings of the pruning paper as statements about results; returns those that do not hold."""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from tidings.experiments.covering.mobile import MobileResult
from tidings.experiments.covering.pruning import PruningResult
from tidings.experiments.covering.pruning_sweeps import PruningSweep

Rows = Mapping[str, Mapping[str, PruningResult]]  # by setting, by policy


def broken(sweep: PruningSweep, rows: Rows) -> list[str]:
    """Empty: all is as in the paper."""
    statements = {
        PruningSweep.policies: lambda: broken_policies(rows[""]),
        PruningSweep.unsubscriptions: lambda: _false(_of_unsubscriptions(rows)),
        PruningSweep.degree: lambda: _false(_of_degrees(rows)),
        PruningSweep.clustered: lambda: _false(_of_clusters(rows)),
        PruningSweep.phi: lambda: _false(_of_phis(rows)),
    }
    return statements[sweep]()


def _false(shapes: Mapping[str, bool]) -> list[str]:
    return [name for name, holds in shapes.items() if not holds]


def _grows(values: Iterable[float]) -> bool:
    return all(a < b for a, b in pairwise(values))


def broken_policies(results: Mapping[str, PruningResult]) -> list[str]:
    """Section V-B. `results` by policy, of the same options; `none`, which the paper did not measure, may be there."""
    active, lazy, packing, selective = (results[name] for name in ("active", "lazy", "packing", "selective"))
    covering = (active, lazy, packing)
    shapes = {
        "everybody gets the same probes": len({one.probes_handed for one in results.values()}) == 1,
        "selective delays least, by far": all(one.delay_ms_mean > 20 * selective.delay_ms_mean for one in covering),
        "active is congested longest": active.quiet_s > max(lazy.quiet_s, packing.quiet_s),
        "and none delays more, to speak of": 1.2 * active.delay_ms_mean
        > max(lazy.delay_ms_mean, packing.delay_ms_mean),
        "with active, messages grow from A to E": _grows(active.nrs_messages.values()),
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
    if (none := results.get("none")) is not None:
        shapes |= {
            "without covering nothing is triggered": not any(none.nrs_messages.values()),
            "but tables are the largest": none.table_after > max(one.table_after for one in (selective, *covering)),
            "and probes take longer than with selective": none.delay_ms_mean > selective.delay_ms_mean,
        }
    return _false(shapes)


def _of_unsubscriptions(rows: Rows) -> dict[str, bool]:
    """Section V-C: the settings are numbers of unsubscriptions, ascending."""
    active, selective = _by_policy(rows)
    return {
        "with active, delays grow with unsubscriptions": _grows(one.delay_ms_mean for one in active),
        "with active, queues grow with unsubscriptions": _grows(one.queue_max for one in active),
        "with active, congestion lasts the longer": _grows(one.quiet_s for one in active),
        "with selective, delays stay": max(one.delay_ms_mean for one in selective)
        < 2 * min(one.delay_ms_mean for one in selective),
        "at the most, selective is better by orders": active[-1].delay_ms_mean > 100 * selective[-1].delay_ms_mean,
    }


def _of_degrees(rows: Rows) -> dict[str, bool]:
    """Section V-D: the settings are covering degrees, ascending."""
    active, selective = _by_policy(rows)
    return {
        "with active, delays grow with the degree": active[0].delay_ms_mean < active[-1].delay_ms_mean / 4,
        "with active, tables grow with the degree": _grows(one.table_after for one in active),
        "with active, queues grow with the degree": _grows(one.queue_max for one in active),
        "with selective, queues stay short": all(
            4 * two.queue_max < one.queue_max for one, two in zip(active[1:], selective[1:], strict=True)
        ),
        "with selective, delays stay below those of active": all(
            20 * two.delay_ms_mean < one.delay_ms_mean for one, two in zip(active[1:], selective[1:], strict=True)
        ),
        "what selective saves in tables grows with the degree": _grows(
            one.table_after / two.table_after for one, two in zip(active, selective, strict=True)
        ),
    }


def _of_clusters(rows: Rows) -> dict[str, bool]:
    """Section V-E."""
    scattered, clustered = rows["scattered"], rows["clustered"]
    active, selective = clustered["active"], clustered["selective"]
    return {
        "clustered, selective delays less than a thirtieth": 30 * selective.delay_ms_mean < active.delay_ms_mean,
        "clustered, selective tables are far smaller": 2 * selective.table_after < active.table_after,
        "clustered, selective has hardly any congestion": 20 * selective.queue_max < active.queue_max,
        "selective gains more in tables than where scattered": active.table_after / selective.table_after
        > scattered["active"].table_after / scattered["selective"].table_after,
    }


def _of_phis(rows: Rows) -> dict[str, bool]:
    """The settings are values of φ, ascending: what selective pruning bears in vain, and what it says for that."""
    results = [one["selective"] for one in rows.values()]
    messages = [sum(one.nrs_messages.values()) for one in results]
    return {
        "everybody gets the same probes": len({one.probes_handed for one in results}) == 1,
        "less is in vain than 1 - φ": all(vain_share(one) <= 1 - one.options.phi + 0.001 for one in results),
        "a greater φ brings no more in vain": vain_share(results[-1]) <= vain_share(results[0]) + 0.001,
        "and costs messages": messages[-1] >= messages[0],
    }


def broken_mobile(cases: Mapping[str, Mapping[str, MobileResult]]) -> list[str]:
    """Section V-F."""
    shapes: dict[str, bool] = {}
    for case, results in cases.items():
        active, selective = results["active"], results["selective"]
        waiting = {name: _mean([length for _, length in one.queues]) for name, one in results.items()}
        entries = {name: [mean for _, mean in one.tables] for name, one in results.items()}
        shapes |= {
            f"{case}: active is congested, selective far less": waiting["active"] > 10 * waiting["selective"],
            f"{case}: selective tables are smaller": _mean(entries["selective"]) < _mean(entries["active"]),
            f"{case}: and change less": _spread(entries["selective"]) < _spread(entries["active"]),
            f"{case}: upper tiers carry more": _grows(-selective.publications[tier] for tier in (1, 2, 3, 4)),
            f"{case}: lower tiers bear what is in vain": selective.in_vain[3] + selective.in_vain[4]
            > 10 * (selective.in_vain[1] + selective.in_vain[2]),
            f"{case}: which with active is only what was on its way": vain_share(active) < vain_share(selective) < 0.02,
        }
    return _false(shapes)


def _by_policy(rows: Rows) -> tuple[list[PruningResult], list[PruningResult]]:
    return [one["active"] for one in rows.values()], [one["selective"] for one in rows.values()]


def _mean(values: list[float] | list[int]) -> float:
    return sum(values) / len(values)


def _spread(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) * 9 // 10] - ordered[len(ordered) // 10]


def vain_share(result: PruningResult | MobileResult) -> float:
    """Of what brokers received, the share that nobody there or beyond wanted."""
    return sum(result.in_vain.values()) / max(1, sum(result.publications.values()))
