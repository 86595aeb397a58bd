"""A picture of predictions and measurements: utilisation and waiting time over the rate, for each held-out mix."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.batch_costs import BatchCosts
from tidings.extras import lazy
from tidings.lab.validation import Mix, PredictionCheck

if TYPE_CHECKING:
    import matplotlib as mpl
    from matplotlib import figure as figures
else:
    mpl, figures = lazy("matplotlib"), lazy("matplotlib.figure")

POINTS = 30


def draw(costs: BatchCosts, found: Sequence[PredictionCheck], file: Path) -> None:
    figure = figures.Figure(figsize=(9, 4), layout="constrained")
    busy, waiting = figure.subplots(1, 2)
    mixes = list(dict.fromkeys(one.mix for one in found))
    for colour, mix in zip(mpl.colormaps["viridis"](np.linspace(0, 0.8, len(mixes))), mixes, strict=True):
        part = [one for one in found if one.mix == mix]
        rates = np.linspace(min(one.rate for one in part) / 2, max(one.rate for one in part) * 1.05, POINTS)
        queues = [mix.scenario(costs).queue(float(rate)) for rate in rates]
        busy.plot(rates, [one.busy for one in queues], color=colour, lw=1)
        busy.plot(
            [one.rate for one in part], [one.busy.mean for one in part], "o", color=colour, ms=4, label=_said(mix)
        )
        waiting.plot(rates, [one.waiting_mean * 1e6 for one in queues], color=colour, lw=1)
        errors = [(one.waiting.half_width or 0.0) * 1e6 for one in part]
        means = [one.waiting.mean * 1e6 for one in part]
        waiting.errorbar([one.rate for one in part], means, yerr=errors, fmt="o", color=colour, ms=4, capsize=2)
        alone = [(one.rate, one.waiting_mg1 * 1e6) for one in part if one.waiting_mg1 is not None]
        waiting.plot(*zip(*alone, strict=True), linestyle=":", color=colour, lw=1)
    busy.set_ylabel("share of its core that the broker uses")
    busy.set_ylim(0, 1)
    waiting.set_ylabel("mean waiting time, µs")
    waiting.set_ylim(0, 1.6 * max(one.waiting.mean for one in found) * 1e6)
    for axes in (busy, waiting):
        axes.set_xlabel("messages a second")
        axes.grid(alpha=0.2)
    busy.legend(
        fontsize=7, title="points measured, lines predicted;\ndotted: M/GI/1, one message at a time", title_fontsize=7
    )
    with mpl.rc_context({"svg.hashsalt": "validation"}):
        figure.savefig(file, dpi=130)


def _said(mix: Mix) -> str:
    return f"{mix.subscribers} subscribers of {mix.match_percent} %, {mix.others} other filters"
