"""Pictures of the experiments on pruning, arranged as the figures of the paper: 7 (policies), 8 to 10 (sweeps), 12."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidings.experiments.covering.mobile import MobileResult
from tidings.experiments.covering.pruning import PruningResult
from tidings.experiments.covering.pruning_shapes import vain_share
from tidings.experiments.covering.pruning_sweeps import PruningSweep
from tidings.figures.common import pyplot, save_figure

COLOURS = {"active": "C3", "lazy": "C1", "packing": "C4", "selective": "C0", "none": "C7"}
SHADES = ("#9ecae1", "#6baed6", "#fd8d3c", "#e6550d", "#a63603")  # of a value that grows
Rows = Mapping[str, Mapping[str, PruningResult]]  # by setting, by policy


def _delays(axes: Any, labels: Sequence[str], results: Sequence[PruningResult]) -> None:
    for place, one in enumerate(results):
        mean, low, high = (value / 1000 for value in (one.delay_ms_mean, one.delay_ms_p10, one.delay_ms_p90))
        spread = [[max(0.0, mean - low)], [max(0.0, high - mean)]]
        axes.bar(place, mean, yerr=spread, capsize=4, color=COLOURS[one.options.policy])
        axes.annotate(f"{mean:,.2g}" if mean < 10 else f"{mean:,.0f}", (place, mean), ha="right", va="bottom")
    axes.set_yscale("log")
    axes.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
    axes.set_ylabel("publication delay, s (mean, p10–p90)")


def _tables(axes: Any, labels: Sequence[str], results: Sequence[PruningResult]) -> None:
    places = range(len(labels))
    before = [one.table_before for one in results]
    after = [one.table_after for one in results]
    axes.bar([place - 0.2 for place in places], before, 0.4, label="before", color="lightgrey")
    colours = [COLOURS[one.options.policy] for one in results]
    axes.bar([place + 0.2 for place in places], after, 0.4, label="at the end", color=colours)
    axes.set_xticks(places, labels, rotation=30, ha="right")
    axes.set_ylabel("table entries of a core broker")
    axes.legend()


def _queue(axes: Any, label: str, one: PruningResult, **look: Any) -> None:
    axes.plot([at for at, _, _ in one.queues], [mean for _, mean, _ in one.queues], label=label, **look)


def _queue_axes(axes: Any, title: str, *, symlog: bool = True) -> None:
    if symlog:
        axes.set_yscale("symlog")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("s after the first unsubscription")
    axes.set_ylabel("messages waiting, mean of the core")
    axes.set_title(title)
    axes.legend(fontsize="small")


def _flat(rows: Rows) -> tuple[list[str], list[PruningResult]]:
    pairs = [(setting, one) for setting, results in rows.items() for one in results.values()]
    return [f"{one.options.policy} {setting}" for setting, one in pairs], [one for _, one in pairs]


def draw(sweep: PruningSweep, rows: Rows, folder: Path) -> Path:
    figure = _PICTURES[sweep](rows)
    return save_figure(figure, folder, f"pruning_{sweep.value}")


def _policies(rows: Rows) -> Any:
    """Figure 7."""
    (results,) = rows.values()
    figure, grid = pyplot().subplots(2, 3, figsize=(15, 8.5), layout="constrained")
    (delays, tables, traffic), (messages, queues, legend) = grid
    _delays(delays, list(results), list(results.values()))
    delays.set_title("(a) delay of probes")
    _tables(tables, list(results), list(results.values()))
    tables.set_title("(b) routing tables")
    _false_positives(traffic, results["selective"])
    for name, one in results.items():
        cores = list(one.nrs_messages)
        heights = [max(0.8, one.nrs_messages[core]) for core in cores]
        messages.plot(cores, heights, "o-", color=COLOURS[name], label=name)
        _queue(queues, name, one, color=COLOURS[name])
    messages.set_yscale("log")
    messages.set_ylabel("NRS messages received (0 drawn as 0.8)")
    messages.set_title("(d) triggered messages at the core")
    messages.legend()
    _queue_axes(queues, "(e) input queues")
    legend.axis("off")
    return figure


def _false_positives(axes: Any, one: PruningResult) -> None:
    tiers = list(one.publications)
    axes.bar(tiers, [one.publications[tier] for tier in tiers], color="lightgrey", label="publications")
    axes.bar(tiers, [max(0.5, one.in_vain[tier]) for tier in tiers], 0.4, color="C3", label="in vain")
    for place, tier in enumerate(tiers):
        share = one.in_vain[tier] / max(1, one.publications[tier])
        axes.text(place, max(1, one.in_vain[tier]) * 1.3, f"{share:.3%}", ha="center")
    axes.set_yscale("log")
    axes.legend()
    axes.set_title("(c) false positives, selective")


def _unsubscriptions(rows: Rows) -> Any:
    """Figure 8."""
    figure, grid = pyplot().subplots(2, 2, figsize=(12, 8.5), layout="constrained")
    delays, *queues = grid.flat
    _delays(delays, *_flat(rows))
    delays.set_title("(a) delay of probes")
    for letter, axes, (setting, results) in zip("bcd", queues, rows.items(), strict=True):
        for name, one in results.items():
            _queue(axes, name, one, color=COLOURS[name])
        _queue_axes(axes, f"({letter}) input queues, {setting} unsubscriptions")
    return figure


def _degrees(rows: Rows) -> Any:
    """Figure 9."""
    figure, grid = pyplot().subplots(2, 2, figsize=(13, 9), layout="constrained")
    delays, tables, active, selective = grid.flat
    _delays(delays, *_flat(rows))
    delays.set_title("(a) delay of probes")
    _tables(tables, *_flat(rows))
    tables.set_title("(b) routing tables")
    for letter, axes, name in (("c", active, "active"), ("d", selective, "selective")):
        for colour, (setting, results) in zip(SHADES, rows.items(), strict=False):
            _queue(axes, f"degree {setting}", results[name], color=colour)
        _queue_axes(axes, f"({letter}) input queues, {name} (own scale)", symlog=False)
    return figure


def _clusters(rows: Rows) -> Any:
    """Figure 10, with the scattered workload beside."""
    figure, (delays, tables, queues) = pyplot().subplots(1, 3, figsize=(15, 5), layout="constrained")
    _delays(delays, *_flat(rows))
    delays.set_title("(a) delay of probes")
    _tables(tables, *_flat(rows))
    tables.set_title("(b) routing tables")
    for style, (setting, results) in zip(("--", "-"), rows.items(), strict=True):
        for name, one in results.items():
            _queue(queues, f"{name} {setting}", one, color=COLOURS[name], linestyle=style)
    _queue_axes(queues, "(c) input queues")
    return figure


def _phis(rows: Rows) -> Any:
    """Not in the paper: what φ trades."""
    results = [one["selective"] for one in rows.values()]
    phis = [one.options.phi for one in results]
    figure, (vain, messages, tables) = pyplot().subplots(1, 3, figsize=(15, 5), layout="constrained")
    vain.plot(phis, [vain_share(one) for one in results], "o-", label="measured")
    vain.plot(phis, [1 - phi for phi in phis], "--", color="grey", label="1 - φ")
    vain.set_ylabel("share of publications in vain")
    vain.set_xlabel("φ")
    vain.legend()
    messages.plot(phis, [sum(one.nrs_messages.values()) for one in results], "o-")
    messages.set_ylabel("NRS messages at the core")
    messages.set_xlabel("φ")
    _tables(tables, *_flat(rows))
    for letter, axes, title in (("a", vain, "in vain"), ("b", messages, "triggered messages"), ("c", tables, "tables")):
        axes.set_title(f"({letter}) {title}")
    return figure


_PICTURES = {
    PruningSweep.policies: _policies,
    PruningSweep.unsubscriptions: _unsubscriptions,
    PruningSweep.degree: _degrees,
    PruningSweep.clustered: _clusters,
    PruningSweep.phi: _phis,
}


def draw_mobile(cases: Mapping[str, Mapping[str, MobileResult]], folder: Path) -> Path:
    """Figure 12: queues and tables of each case, then traffic by tier."""
    figure, grid = pyplot().subplots(3, len(cases), figsize=(12, 12), layout="constrained", squeeze=False)
    for column, (case, results) in enumerate(cases.items()):
        queues, tables = grid[0][column], grid[1][column]
        for policy, one in results.items():
            queues.plot(*zip(*one.queues, strict=True), color=COLOURS[policy], label=policy)
            tables.plot(*zip(*one.tables, strict=True), color=COLOURS[policy], label=policy)
        queues.set_title(f"({'ab'[column]}) {case}: most that waited at the core broker")
        queues.set_yscale("symlog")
        tables.set_title(f"({'cd'[column]}) {case}: table entries of a broker")
        for axes in (queues, tables):
            axes.set_xlabel("s")
            axes.set_ylim(bottom=0)
            axes.legend()
    _by_tier(grid[2][0], cases, "publications", "(e) publications of a broker, by tier")
    if len(cases) > 1:
        _by_tier(grid[2][1], cases, "in_vain", "(f) of these in vain")
    return save_figure(figure, folder, "pruning_mobile")


def _by_tier(axes: Any, cases: Mapping[str, Mapping[str, MobileResult]], what: str, title: str) -> None:
    bars = [(case, policy, one) for case, results in cases.items() for policy, one in results.items()]
    for place, (case, policy, one) in enumerate(bars):
        counts: dict[int, float] = getattr(one, what)
        hatch = "//" if case != next(iter(cases)) else ""
        at = [tier + 0.2 * (place - len(bars) / 2 + 0.5) for tier in counts]
        axes.bar(at, list(counts.values()), 0.2, color=COLOURS[policy], hatch=hatch, label=f"{policy}, {case}")
    axes.set_xticks(list(bars[0][2].publications))
    axes.set_xlabel("tier (1: the core)")
    axes.set_title(title)
    axes.set_ylim(top=1.35 * axes.get_ylim()[1])  # room for the legend above the bars
    axes.legend(fontsize="small", ncols=2, loc="upper center")
