"""The map as an element of a page: brokers coloured by utilisation, links by load, and what a pane wants lit.

A broker's colour is its share of a core. A link's is its share of the bandwidth that the configuration gives for it;
of links without one it is only known how they compare, so they have shades of another colour, up to the busiest.
What the browser gets changes only when a colour does: a map of a hundred brokers is not redrawn every second.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nicegui import ui
from nicegui.element import Element

from tidings.console.force_layout import layout
from tidings.console.view import BrokerSnapshot, BrokerState, LinkSnapshot, NetworkSnapshot

USES = (0.02, 0.25, 0.5, 0.8)  # shares from which a broker, or a link of known bandwidth, has the next colour
USE_NAMES = ("idle", "below 25 %", "below 50 %", "below 80 %", "80 % or more")
COMPARED = (0.0, 0.2, 0.6)  # the same for a link of unknown bandwidth, of the busiest one's traffic
COMPARED_NAMES = ("quiet", "below 20 %", "below 60 %", "60 % or more")
QUIET_BYTES_S = 50.0
WAITING_BYTES = 64 << 10  # so much waits for a link only if it cannot keep up


@dataclass(frozen=True, slots=True)
class Lit:
    """The highlighted parts, by place: brokers with a note each, and links with their direction."""

    brokers: Mapping[int, str] = field(default_factory=dict)
    links: tuple[tuple[int, int], ...] = ()  # from, to


class NetworkMap(Element, component="network_map.js"):
    def __init__(
        self, on_broker: Callable[[int], None] | None = None, on_link: Callable[[str], None] | None = None
    ) -> None:
        super().__init__()
        self.classes("w-full")
        self._props.update({"nodes": [], "links": [], "selected": 0, "chosen": "", "pick": on_broker is not None})
        if on_broker is not None:
            self.on("node", lambda event: on_broker(int(event.args)))
        if on_link is not None:
            self.on("link", lambda event: on_link(str(event.args)))

    def show(self, view: NetworkSnapshot, *, lit: Lit | None = None, selected: int = 0, chosen: str = "") -> None:
        """`selected` is a broker's place, `chosen` a link. Nothing is sent to the browser if nothing has changed."""
        lit = lit or Lit()
        places = layout(tuple(view.brokers), tuple(link.ends for link in view.links))
        nodes = [
            {**_node(place, broker, lit), "x": round(places[place][0], 4), "y": round(places[place][1], 4)}
            for place, broker in view.brokers.items()
        ]
        most = busiest(view)
        links = [_link(view, one, lit, most) for one in view.links]
        shown = {"nodes": nodes, "links": links, "selected": selected, "chosen": chosen}
        if any(self._props[name] != value for name, value in shown.items()):
            self._props.update(shown)
            self.update()


class Legend:
    """A legend of the colours; of links only those in use."""

    def __init__(self) -> None:
        with ui.element("div").classes("t-legends"):
            _legend_row("Brokers, share of a core", USE_NAMES, "background: var(--use-{})", "")
            known = _legend_row("Links, share of their bandwidth", USE_NAMES, "background: var(--use-{})", "bar")
            other = _legend_row(
                "Links, traffic beside the busiest", COMPARED_NAMES, "background: var(--load-{})", "bar"
            )
            with ui.element("div").classes("t-legend") as self._states:
                for look, name in (("waits", "more waits than it takes"), ("down", "down")):
                    with ui.element("span"):
                        ui.element("i").classes(f"bar {look}")
                        ui.label(name).classes("inline")
        self._known, (self._other, self._most) = known[0], other

    def show(self, view: NetworkSnapshot) -> None:
        self._states.set_visibility(bool(view.links))
        self._known.set_visibility(any(link.bandwidth_bytes_s for link in view.links))
        self._other.set_visibility(any(not link.bandwidth_bytes_s for link in view.links))
        self._most.text = f"Links, traffic beside the busiest ({rate_text(busiest(view))})"


def _legend_row(title: str, names: tuple[str, ...], style: str, kind: str) -> tuple[Element, ui.label]:
    with ui.element("div").classes("t-legend") as row:
        told = ui.label(title).classes("t-legend-title")
        for level, name in enumerate(names):
            with ui.element("span"):
                ui.element("i").classes(kind).style(style.format(level))
                ui.label(name).classes("inline")
    return row, told


def busiest(view: NetworkSnapshot) -> float:
    return max((link.bytes_s for link in view.links if not link.bandwidth_bytes_s), default=0.0)


def use_level(share: float) -> int:
    return sum(share >= bound for bound in USES)


def load_class(link: LinkSnapshot, busiest_bytes_s: float) -> str:
    """`use-0` to `use-4` with a bandwidth, `load-0` to `load-3` without, `waits` if it does not keep up."""
    if link.waiting_bytes > WAITING_BYTES:
        return "waits"
    if link.bandwidth_bytes_s:
        return f"use-{use_level(link.peak_bytes_s / link.bandwidth_bytes_s)}"
    if link.bytes_s < QUIET_BYTES_S:
        return "load-0"
    return f"load-{sum(link.bytes_s / busiest_bytes_s >= bound for bound in COMPARED)}"


def load_text(link: LinkSnapshot, busiest_bytes_s: float) -> str:
    if not link.up:
        return "down"
    kind, _, level = load_class(link, busiest_bytes_s).partition("-")
    if kind == "waits":
        return "more waits than it takes"
    if kind == "use":
        return f"{USE_NAMES[int(level)]} of its bandwidth"
    return COMPARED_NAMES[int(level)] + (" of the busiest" if int(level) else "")


def _node(place: int, broker: BrokerSnapshot, lit: Lit) -> dict[str, Any]:
    state = {BrokerState.UP: "up", BrokerState.UNSEEN: "unseen"}.get(broker.state, "lost")
    level = use_level(broker.rates.utilisation)
    told = f"{USE_NAMES[level]} of a core" if broker.state is BrokerState.UP and level else broker.state.value
    note = lit.brokers.get(place, "")
    return {
        "id": place,
        "number": broker.id,
        "name": broker.name,
        "level": level,
        "state": state,
        "lit": place in lit.brokers,
        "note": note,
        "title": f"{broker.name}: {note or told}",
    }


def _link(view: NetworkSnapshot, link: LinkSnapshot, lit: Lit, most: float) -> dict[str, Any]:
    backwards = (link.b, link.a) in lit.links
    a, b = (link.b, link.a) if backwards else link.ends
    return {
        "key": f"{link.a}-{link.b}",
        "a": a,
        "b": b,
        "load": load_class(link, most),
        "state": "up" if link.up else "down",
        "lit": backwards or link.ends in lit.links,
        "title": f"Link {view.name(a)} to {view.name(b)}: {load_text(link, most)}",
    }


def rate_text(bytes_s: float) -> str:
    """
    >>> rate_text(12), rate_text(3_456), rate_text(34_500), rate_text(5.6e6)
    ('12 B/s', '3.5 kB/s', '34 kB/s', '5.6 MB/s')
    """
    if bytes_s < 1000:
        return f"{bytes_s:.0f} B/s"
    if bytes_s < 10_000:
        return f"{bytes_s / 1000:.1f} kB/s"
    return f"{bytes_s / 1000:.0f} kB/s" if bytes_s < 1e6 else f"{bytes_s / 1e6:.1f} MB/s"
