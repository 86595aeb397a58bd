"""The live map, and what is known of the broker or link that was clicked."""

from nicegui import ui

from tidings.console.frame import Pane
from tidings.console.network_map import NetworkMap, rate_text
from tidings.console.parts import card, count_text, empty, every, facts, heading, problem
from tidings.console.sessions import Session
from tidings.console.view import BrokerView, LinkView, NetworkView, State

_USE_NAMES = ("idle", "below 25 %", "below 50 %", "below 80 %", "above 80 % of a core")
_LOAD_NAMES = ("quiet", "some", "busy", "busiest", "more waits than goes")


class MapPane:
    def __init__(self, session: Session) -> None:
        self._watch = session.watch
        self._broker = 0
        self._link = ""
        self._round = -1
        with ui.element("div").classes("t-columns two"):
            with card("Map"):
                self._map = NetworkMap(self._choose_broker, self._choose_link)
                _legend()
            with card("Details"):
                self._details = ui.column().classes("w-full gap-3")
        every(1.0, self._show)

    def _choose_broker(self, broker: int) -> None:
        self._broker, self._link = broker, ""
        self._show(anyway=True)

    def _choose_link(self, key: str) -> None:
        self._broker, self._link = 0, key
        self._show(anyway=True)

    def _show(self, *, anyway: bool = False) -> None:
        if self._watch.rounds == self._round and not anyway:
            return
        self._round, view = self._watch.rounds, self._watch.view
        self._map.show(view, selected=self._broker)
        self._details.clear()
        links = {f"{link.a}-{link.b}": link for link in view.links}
        with self._details:
            if self._broker in view.brokers:
                _broker_details(view.brokers[self._broker])
            elif self._link in links:
                _link_details(view, links[self._link])
            else:
                _hint(view)


def _hint(view: NetworkView) -> None:
    for one in view.unreached:
        problem(f"{one.url}: {one.error}")
        if one.state is State.FORBIDDEN:
            empty('Whoever looks after the broker can add a rule: operations = ["manage"], destination = ">".')
    if view.brokers:
        empty("Choose a broker or a link on the map.")
    elif not view.unreached:
        empty("No broker has answered yet.")


def _broker_details(broker: BrokerView) -> None:
    heading(broker.name)
    if broker.error:
        problem(broker.error)
    said, rates, network = broker.overview, broker.rates, broker.network
    if not said:
        empty(f"Not watched. Start the console with the address of broker {broker.id} too to see it from inside.")
        return
    facts(
        {
            "State": broker.state.value,
            "Address": broker.url,
            "Number": broker.id,
            "Utilisation": f"{rates.utilisation:.1%} of a core",
            "In": f"{count_text(rates.received)} messages/s",
            "Out": f"{count_text(rates.delivered)} deliveries/s",
            "Undelivered": f"{count_text(rates.unmatched)}/s that nobody wants, {count_text(rates.dropped)}/s dropped",
            "Connections": broker.number("connections"),
            "Filters": broker.number("filters"),
            "Waiting": f"{count_text(broker.number('waiting'))} messages in {broker.number('mailboxes')} mailboxes",
            "Dead letters": f"{count_text(broker.number('dead'))} since it started",
            "Routing": network.get("routing", "stands alone"),
        }
    )


def _link_details(view: NetworkView, link: LinkView) -> None:
    heading(f"{view.name(link.a)} – {view.name(link.b)}")
    facts(
        {
            "State": "up" if link.up else "down",
            "Latency": f"{link.latency_ms:.2f} ms",
            "Traffic": f"{rate_text(link.bytes_s)}, both ways",
            "Waiting": f"{count_text(link.waiting_bytes)} bytes",
        }
    )


def _legend() -> None:
    with ui.element("div").classes("t-legend"):
        for level, name in enumerate(_USE_NAMES):
            with ui.element("span"):
                ui.element("i").style(f"background: var(--use-{level})")
                ui.label(name).classes("inline")
    with ui.element("div").classes("t-legend"):
        for level, name in enumerate(_LOAD_NAMES):
            with ui.element("span"):
                ui.element("i").classes("bar").style(f"background: var(--use-{level})")
                ui.label(name).classes("inline")


PANE = Pane("/", "Map", "hub", "Brokers coloured by how busy they are, links by what they carry.", MapPane)
