"""Map of the demo's network: sites and links, and on it the way of one message."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from tidings.cli.demo.theme import Theme
from tidings.overlay.topology.toml_format import from_toml

TOPOLOGY = """
nodes = ["london", "frankfurt", "newyork", "tokyo"]
links = [
    {between = ["london", "frankfurt"], latency_ms = 6},
    {between = ["london", "newyork"], latency_ms = 35},
    {between = ["frankfurt", "newyork"], latency_ms = 42},
    {between = ["frankfurt", "tokyo"], latency_ms = 110},
    {between = ["newyork", "tokyo"], latency_ms = 80},
]
"""
TITLES = {"london": "London", "frankfurt": "Frankfurt", "newyork": "New York", "tokyo": "Tokyo"}
PLACES = {"newyork": (0.0, 0.0), "london": (1.1, 1.0), "frankfurt": (2.3, 1.0), "tokyo": (3.4, 0.0)}  # not to scale


@dataclass(frozen=True, slots=True)
class Way:
    """The way of a message: where it was published, over which links it went, who got it at each site."""

    origin: str
    links: tuple[tuple[str, str], ...]
    receivers: Mapping[str, int]

    @property
    def sites(self) -> set[str]:
        return {self.origin, *(end for link in self.links for end in link)}


def draw_map(theme: Theme, way: Way | None = None) -> Figure:
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    axes = figure.subplots()
    for edge in from_toml(TOPOLOGY).edges():
        (x1, y1), (x2, y2) = PLACES[str(edge.a)], PLACES[str(edge.b)]
        axes.plot([x1, x2], [y1, y2], color=theme.muted, linewidth=1.2, zorder=1)
        label = f"{edge.latency_ms:g} ms"
        middle = ((x1 + x2) / 2, (y1 + y2) / 2)
        axes.annotate(
            label,
            middle,
            fontsize=9,
            ha="center",
            va="center",
            color=theme.muted,
            backgroundcolor=theme.paper,
            zorder=4,
        )
    for start, end in way.links if way else ():
        arrow = {"arrowstyle": "-|>,head_width=0.4,head_length=0.7", "color": theme.accent, "linewidth": 2.4}
        axes.annotate("", PLACES[end], PLACES[start], arrowprops={**arrow, "shrinkA": 9, "shrinkB": 10}, zorder=3)
    for name, place in PLACES.items():
        passed = way is None or name in way.sites
        axes.scatter(*place, s=150, color=theme.accent if passed else theme.muted, zorder=5)
        title, about = (15, 31) if place[1] else (-24, -38)  # away from the links, in points
        write(axes, TITLES[name], place, title, 11, weight="bold")
        if way is not None:
            write(axes, _about(way, name), place, about, 9, weight="normal")
    axes.margins(0.14, 0.35)
    axes.set_axis_off()
    return figure


def write(axes: Any, text: str, place: tuple[float, float], above: float, size: float, *, weight: str) -> None:
    axes.annotate(
        text, place, (0, above), textcoords="offset points", ha="center", fontsize=size, weight=weight, zorder=6
    )


def _about(way: Way, site: str) -> str:
    count = way.receivers.get(site, 0)
    got = f"{count} receiver{'' if count == 1 else 's'}" if count else ""
    if site == way.origin:
        return f"published here{', ' + got if got else ''}"
    return got or ("passed through" if site in way.sites else "not involved")
