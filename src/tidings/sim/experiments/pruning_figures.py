"""Pictures of the experiments on pruning, arranged as the figures of the paper: 7 (policies), 8 to 10 (sweeps), 12."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidings.sim.experiments.figures import pyplot, save_figure
from tidings.sim.experiments.mobile import MobileResult
from tidings.sim.experiments.pruning import Result

COLOURS = {"active": "C3", "lazy": "C1", "packing": "C4", "selective": "C0", "none": "C7"}


def _delays(axes: Any, labels: Sequence[str], results: Sequence[Result]) -> None:
    for place, (label, one) in enumerate(zip(labels, results, strict=True)):
        mean, low, high = (value / 1000 for value in (one.delay_ms_mean, one.delay_ms_p10, one.delay_ms_p90))
        spread = [[max(0.0, mean - low)], [max(0.0, high - mean)]]
        axes.bar(place, mean, yerr=spread, capsize=4, color=COLOURS[one.options.policy], label=label)
    axes.set_yscale("log")
    axes.set_xticks(range(len(labels)), labels, rotation=20, ha="right")
    axes.set_ylabel("publication delay, s (mean, p10–p90)")


def _queues(axes: Any, label: str, one: Result, style: str = "-") -> None:
    axes.plot(
        *zip(*[(at, mean) for at, mean, _ in one.queues], strict=True),
        style,
        color=COLOURS[one.options.policy],
        label=label,
    )


def policies(results: Mapping[str, Result], folder: Path) -> Path:
    """Figure 7."""
    plots = pyplot()
    figure, grid = plots.subplots(2, 3, figsize=(15, 8.5), layout="constrained")
    (delays, tables, traffic), (messages, queues, legend) = grid
    _delays(delays, list(results), list(results.values()))
    delays.set_title("(a) delay of probes")
    places = range(len(results))
    tables.bar(
        [place - 0.2 for place in places],
        [one.table_before for one in results.values()],
        0.4,
        label="before",
        color="C7",
    )
    tables.bar(
        [place + 0.2 for place in places],
        [one.table_after for one in results.values()],
        0.4,
        label="at the end",
        color=[COLOURS[name] for name in results],
    )
    tables.set_xticks(places, results, rotation=20, ha="right")
    tables.set_ylabel("table entries of a core broker")
    tables.legend()
    tables.set_title("(b) routing tables")
    if "selective" in results:
        one = results["selective"]
        tiers = list(one.publications)
        traffic.bar(tiers, [one.publications[tier] for tier in tiers], color="C7", label="publications")
        traffic.bar(tiers, [max(0.5, one.in_vain[tier]) for tier in tiers], 0.4, color="C3", label="in vain")
        for place, tier in enumerate(tiers):
            share = one.in_vain[tier] / max(1, one.publications[tier])
            traffic.text(place, max(1, one.in_vain[tier]) * 1.3, f"{share:.3%}", ha="center")
        traffic.set_yscale("log")
        traffic.legend()
    traffic.set_title("(c) false positives, selective")
    for name, one in results.items():
        cores = list(one.nrs_messages)
        messages.plot(
            cores, [max(0.8, one.nrs_messages[core]) for core in cores], "o-", color=COLOURS[name], label=name
        )
        _queues(queues, name, one)
    messages.set_yscale("log")
    messages.set_ylabel("NRS messages received (0 drawn as 0.8)")
    messages.set_title("(d) triggered messages at the core")
    messages.legend()
    queues.set_yscale("symlog")
    queues.set_xlabel("s after the first unsubscription")
    queues.set_ylabel("messages waiting, mean of the core")
    queues.set_title("(e) input queues")
    queues.legend()
    legend.axis("off")
    return save_figure(figure, folder, "pruning_policies")


def sweep(title: str, rows: Mapping[str, Mapping[str, Result]], folder: Path, name: str) -> Path:
    """Figures 8, 9 and 10: for each setting the results by policy."""
    plots = pyplot()
    figure, (delays, tables, queues) = plots.subplots(1, 3, figsize=(15, 4.8), layout="constrained")
    pairs = [(setting, one) for setting, results in rows.items() for one in results.values()]
    _delays(delays, [f"{one.options.policy} {setting}" for setting, one in pairs], [one for _, one in pairs])
    for place, (_, one) in enumerate(pairs):
        tables.bar(place, one.table_after, color=COLOURS[one.options.policy])
    tables.set_xticks(
        range(len(pairs)), [f"{one.options.policy} {setting}" for setting, one in pairs], rotation=20, ha="right"
    )
    tables.set_ylabel("table entries of a core broker at the end")
    styles = ("-", "--", ":", "-.")
    for place, (setting, results) in enumerate(rows.items()):
        for policy, one in results.items():
            _queues(queues, f"{policy} {setting}", one, styles[place % len(styles)])
    queues.set_yscale("symlog")
    queues.set_xlabel("s after the first unsubscription")
    queues.set_ylabel("messages waiting, mean of the core")
    queues.legend(fontsize="small")
    figure.suptitle(title)
    return save_figure(figure, folder, name)


def mobile(cases: Mapping[str, Mapping[str, MobileResult]], folder: Path) -> Path:
    """Figure 12: a row for each case."""
    plots = pyplot()
    figure, grid = plots.subplots(len(cases), 3, figsize=(15, 4.5 * len(cases)), layout="constrained", squeeze=False)
    for (queues, tables, traffic), (case, results) in zip(grid, cases.items(), strict=True):
        for place, (policy, one) in enumerate(results.items()):
            colour = COLOURS[policy]
            queues.plot(*zip(*one.queues, strict=True), color=colour, label=policy)
            tables.plot(*zip(*one.tables, strict=True), color=colour, label=policy)
            tiers = list(one.publications)
            shift = [tier + 0.4 * place - 0.2 for tier in tiers]
            traffic.bar(shift, [one.publications[tier] for tier in tiers], 0.4, color=colour, label=policy, alpha=0.6)
            traffic.bar(shift, [max(0.1, one.in_vain[tier]) for tier in tiers], 0.2, color=colour, hatch="//")
        queues.set_title(f"{case}: queue of the core broker")
        tables.set_title("table entries of a broker")
        traffic.set_title("publications of a broker by tier (hatched: in vain)")
        traffic.set_yscale("log")
        for axes in (queues, tables):
            axes.set_xlabel("s")
        queues.legend()
    return save_figure(figure, folder, "pruning_mobile")
