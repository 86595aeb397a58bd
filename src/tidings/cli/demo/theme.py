"""Figures of the report, each in a light and a dark version, in the colours of the page."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a figure and of the page around it."""

    name: str
    paper: str
    ink: str
    muted: str  # axes, links, what is not the subject
    accent: str  # the subject
    alarm: str
    series: tuple[str, ...]

    def file_name(self, picture: str) -> str:
        return f"{picture}-{self.name}.svg"

    def settings(self, salt: str) -> Any:
        """Matplotlib's settings; `salt` makes the ids in its files the same at each run."""
        colours = ("text.color", "axes.labelcolor", "axes.titlecolor", "legend.labelcolor")
        lines = ("axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
        papers = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
        return {
            **dict.fromkeys(colours, self.ink),
            **dict.fromkeys(lines, self.muted),
            **dict.fromkeys(papers, self.paper),
            "axes.prop_cycle": cycler(color=self.series),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
            "font.size": 10,
            "svg.hashsalt": salt,
        }


LIGHT = Theme(
    "light", "#ffffff", "#1b1f24", "#8c959f", "#0969da", "#cf222e", ("#0969da", "#bc4c00", "#1a7f37", "#8250df")
)
DARK = Theme(
    "dark", "#161b22", "#e6edf3", "#7d8590", "#4493f8", "#f85149", ("#4493f8", "#f0883e", "#3fb950", "#ab7df8")
)
THEMES = (LIGHT, DARK)

Drawing = Callable[[Theme], Figure]


def save(drawing: Drawing, folder: Path, picture: str) -> None:
    for theme in THEMES:
        with mpl.rc_context(theme.settings(picture)):
            drawing(theme).savefig(folder / theme.file_name(picture), metadata={"Date": None})
