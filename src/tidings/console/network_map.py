"""The map as an element of a page: brokers coloured by utilisation, links by load, and what a pane wants lit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nicegui.element import Element

from tidings.console.layout import layout
from tidings.console.view import BrokerView, LinkView, NetworkView, State

USES = (0.02, 0.25, 0.5, 0.8)  # utilisation from which a broker has the next colour
QUIET_BYTES_S = 50.0
WAITING_BYTES = 64 << 10  # so much waits for a link only if it cannot keep up


@dataclass(frozen=True, slots=True)
class Lit:
    """What is to stand out: brokers with a note each, and links with their direction."""

    brokers: Mapping[int, str] = field(default_factory=dict)
    links: tuple[tuple[int, int], ...] = ()  # from, to


class NetworkMap(Element, component="map.js"):
    def __init__(
        self, on_broker: Callable[[int], None] | None = None, on_link: Callable[[str], None] | None = None
    ) -> None:
        super().__init__()
        self.classes("w-full")
        self._props.update({"nodes": [], "links": [], "selected": 0})
        if on_broker is not None:
            self.on("node", lambda event: on_broker(int(event.args)))
        if on_link is not None:
            self.on("link", lambda event: on_link(str(event.args)))

    def show(self, view: NetworkView, *, lit: Lit | None = None, selected: int = 0) -> None:
        """Nothing is sent to the browser if nothing has changed."""
        lit = lit or Lit()
        places = layout(tuple(view.brokers), tuple(link.ends for link in view.links))
        nodes = [
            {**_node(broker, lit), "x": round(places[id][0], 4), "y": round(places[id][1], 4)}
            for id, broker in view.brokers.items()
        ]
        busiest = max((link.bytes_s for link in view.links), default=0.0)
        shown = {"nodes": nodes, "links": [_link(view, one, lit, busiest) for one in view.links], "selected": selected}
        if any(self._props[name] != value for name, value in shown.items()):
            self._props.update(shown)
            self.update()


def use_level(utilisation: float) -> int:
    return sum(utilisation >= bound for bound in USES)


def load_level(link: LinkView, busiest_bytes_s: float) -> int:
    """0: quiet, up to 3: as busy as the busiest, 4: more is waiting for it than it takes."""
    if link.waiting_bytes > WAITING_BYTES:
        return 4
    if link.bytes_s < QUIET_BYTES_S:
        return 0
    share = link.bytes_s / busiest_bytes_s
    return 1 + (share >= 0.2) + (share >= 0.6)


def _node(broker: BrokerView, lit: Lit) -> dict[str, Any]:
    state = {State.UP: "up", State.UNSEEN: "unseen"}.get(broker.state, "lost")
    if broker.state is State.UP:
        told = f"{broker.rates.utilisation:.0%} of a core, {broker.rates.received:.0f} messages a second in"
    else:
        told = broker.state.value
    return {
        "id": broker.id,
        "name": broker.name,
        "level": use_level(broker.rates.utilisation),
        "state": state,
        "lit": broker.id in lit.brokers,
        "note": lit.brokers.get(broker.id, ""),
        "title": f"{broker.name}: {told}",
    }


def _link(view: NetworkView, link: LinkView, lit: Lit, busiest: float) -> dict[str, Any]:
    backwards = (link.b, link.a) in lit.links
    a, b = (link.b, link.a) if backwards else link.ends
    told = f"{link.latency_ms:.1f} ms, {rate_text(link.bytes_s)}" if link.up else "down"
    return {
        "key": f"{link.a}-{link.b}",
        "a": a,
        "b": b,
        "level": load_level(link, busiest),
        "state": "up" if link.up else "down",
        "lit": backwards or link.ends in lit.links,
        "title": f"Link {view.name(a)} to {view.name(b)}: {told}",
    }


def rate_text(bytes_s: float) -> str:
    """
    >>> rate_text(12), rate_text(34_500), rate_text(5.6e6)
    ('12 B/s', '34 kB/s', '5.6 MB/s')
    """
    if bytes_s < 1000:
        return f"{bytes_s:.0f} B/s"
    return f"{bytes_s / 1000:.0f} kB/s" if bytes_s < 1e6 else f"{bytes_s / 1e6:.1f} MB/s"
