"""Figures of the thesis's models: throughput by filters and by replication grade, and waiting time by utilisation."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.processing import Fitted, Load
from tidings.capacity.service import Moments, gamma_moments
from tidings.capacity.waiting import GammaWaiting
from tidings.extras import lazy

if TYPE_CHECKING:
    import matplotlib as mpl
    from matplotlib import figure as figures
else:
    mpl, figures = lazy("matplotlib"), lazy("matplotlib.figure")

FILTERS = np.unique(np.geomspace(1, 10_000, 40).round())
GRADES = np.unique(np.geomspace(1, 1000, 30).round())
UTILISATIONS = np.linspace(0.05, 0.97, 60)
P = 0.9999


def draw(servers: Mapping[str, Fitted], file: Path) -> None:
    figure = figures.Figure(figsize=(15, 4.5), layout="constrained")
    by_filters, by_grade, waits = figure.subplots(1, 3)
    for name, server in servers.items():
        wide = 1.2 if name.rpartition("-")[0] else 2.5  # a model of ours stands out
        by_filters.plot(FILTERS, [server.received(Load(n, 1)) for n in FILTERS], label=name, lw=wide)
        by_grade.plot(GRADES, [server.overall(Load(100, r)) for r in GRADES], label=name, lw=wide)
    for c_var in (0.0, 0.2, 0.4, 1.0):
        service = Moments(1.0, 1.0, 1.0) if c_var == 0 else gamma_moments(1.0, c_var)
        values = [float(GammaWaiting.of(rho, service).quantile(P)) for rho in UTILISATIONS]
        waits.plot(UTILISATIONS, values, label=f"c_var {c_var:g}")
    by_filters.set(
        title="received, r = 1 (chapter 4)", xlabel="filters", ylabel="messages/s", xscale="log", yscale="log"
    )
    by_grade.set(title="overall, 100 filters (chapter 4)", xlabel="replication grade", xscale="log", yscale="log")
    waits.set(
        title="99.99 % of the waiting time (chapter 5)", xlabel="utilisation", ylabel="mean service times", yscale="log"
    )
    for axes in figure.axes:
        axes.grid(visible=True, alpha=0.2)
    by_filters.legend(fontsize=6)
    waits.legend(fontsize=7)
    with mpl.rc_context({"svg.hashsalt": "thesis"}):
        figure.savefig(file, dpi=130)
