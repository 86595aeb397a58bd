"""A picture of a validation: predicted against measured throughput, mean waiting time and its 99 % quantile."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidings.extras import lazy
from tidings.lab.calibration.validate import MEAN, QUANTILE, THROUGHPUT, ScenarioCheck

if TYPE_CHECKING:
    import matplotlib as mpl
    from matplotlib import figure as figures
else:
    mpl, figures = lazy("matplotlib"), lazy("matplotlib.figure")

COLOURS = {"native": "#1b6ca8", "stomp": "#c8553d", "amqp": "#4f7942", "mqtt": "#7b4b94"}


def draw(checks: Sequence[ScenarioCheck], file: Path) -> None:
    """Beside the diagonal, the errors that count as right."""
    figure = figures.Figure(figsize=(11, 4), layout="constrained")
    panels = (
        ("throughput", "messages per second of CPU time", 1.0, THROUGHPUT),
        ("mean", "mean waiting time, µs", 1e6, MEAN),
        ("quantile", "99 % of the waiting time, µs", 1e6, QUANTILE),
    )
    for axes, (name, title, factor, bound) in zip(figure.subplots(1, 3), panels, strict=True):
        shown = [one for one in checks if getattr(one, name) > 0 and np.isfinite(getattr(one, f"{name}_predicted"))]
        for protocol in dict.fromkeys(one.load.protocol for one in shown):
            for persistent, mark in ((False, "o"), (True, "s")):
                part = [one for one in shown if (one.load.protocol, one.load.persistent) == (protocol, persistent)]
                xs = [getattr(one, name) * factor for one in part]
                ys = [getattr(one, f"{name}_predicted") * factor for one in part]
                label = f"{protocol}, persistent" if persistent else protocol
                if part:
                    axes.plot(xs, ys, mark, color=COLOURS.get(protocol, "gray"), ms=4, label=label)
        values = [getattr(one, each) * factor for one in shown for each in (name, f"{name}_predicted")]
        if values:
            ends = np.array([min(values) / 1.3, max(values) * 1.3])
            axes.plot(ends, ends, color="black", lw=0.8)
            axes.fill_between(ends, ends * (1 - bound), ends * (1 + bound), color="black", alpha=0.1, lw=0)
        axes.set(title=title, xscale="log", yscale="log", xlabel="measured", ylabel="predicted")
        axes.grid(visible=True, alpha=0.2)
    figure.axes[0].legend(fontsize=7)
    with mpl.rc_context({"svg.hashsalt": "validation"}):
        figure.savefig(file, dpi=130)
