"""The live map, and what is known of the broker or link that was clicked."""

from collections.abc import Sequence

from nicegui import ui

from tidings.console.layout import Pane
from tidings.console.sessions import ConsoleSession
from tidings.console.view import BrokerSnapshot, BrokerState, LinkSnapshot, NetworkSnapshot
from tidings.console.widgets.network_map import Legend, NetworkMap, busiest, load_text, rate_text
from tidings.console.widgets.parts import (
    Facts,
    bytes_text,
    card,
    count_text,
    empty,
    every,
    heading,
    problem,
    rate_number,
)

_NOT_WATCHED = "Not watched. Start the console with the address of broker {} too to see it from inside."


class MapPane:
    def __init__(self, session: ConsoleSession) -> None:
        self._watch = session.watch
        self._broker = 0
        self._link = ""
        self._round = -1
        with ui.element("div").classes("t-columns two"):
            with card("Map", alone=True):
                self._map = NetworkMap(self._choose_broker, self._choose_link)
                self._legend = Legend()
            with card("Details"):
                self._details = Details()
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
        self._map.show(view, selected=self._broker, chosen=self._link)
        self._legend.show(view)
        links = {f"{link.a}-{link.b}": link for link in view.links}
        alone = next(iter(view.brokers)) if len(view.brokers) == 1 else 0  # whose details are shown unasked
        if (chosen := self._broker or alone) in view.brokers:
            broker = view.brokers[chosen]
            unseen = "" if broker.overview else _NOT_WATCHED.format(broker.id)
            self._details.show(broker.name, broker_facts(broker), [broker.error] if broker.error else [], unseen)
        elif self._link in links:
            link = links[self._link]
            self._details.show(f"{view.name(link.a)} – {view.name(link.b)}", link_facts(link, busiest(view)))
        else:
            self._details.show("", {}, [f"{one.url}: {one.error}" for one in view.unreached], _hint(view))


class Details:
    """Of what was chosen: changed in place as long as it is the same."""

    def __init__(self) -> None:
        self._title = heading("")
        self._problems = ui.column().classes("w-full gap-1")
        self._problems.set_visibility(False)
        self._told: list[str] = []
        self._facts = Facts()
        self._hint = empty("")

    def show(self, title: str, facts: dict[str, object], problems: Sequence[str] = (), hint: str = "") -> None:
        self._title.text, self._hint.text = title, hint
        self._title.set_visibility(bool(title))
        self._hint.set_visibility(bool(hint))
        self._facts.set(facts)
        if list(problems) != self._told:
            self._told = list(problems)
            self._problems.set_visibility(bool(problems))
            self._problems.clear()
            with self._problems:
                for one in problems:
                    problem(one)


def _hint(view: NetworkSnapshot) -> str:
    if any(one.state is BrokerState.FORBIDDEN for one in view.unreached):
        return 'Whoever looks after the broker can add a rule: operations = ["manage"], destination = ">".'
    if view.brokers:
        return "Choose a broker or a link on the map."
    return "" if view.unreached else "No broker has answered yet."


def broker_facts(broker: BrokerSnapshot) -> dict[str, object]:
    rates = broker.rates
    if not broker.overview:
        return {}
    role = broker.overview["broker"].get("role", "single")
    return {
        "State": broker.state.value,
        **({} if role == "single" else {"Role": f"{role}, of a pair"}),
        "Address": broker.url,
        "Number": broker.id,
        "Utilisation": f"{rates.utilisation:.1%} of a core",
        "In": f"{rate_number(rates.received)} messages/s",
        "Out": f"{rate_number(rates.delivered)} deliveries/s",
        "Nobody wants": f"{rate_number(rates.unmatched)} messages/s",
        "Dropped": f"{rate_number(rates.dropped)} deliveries/s",
        "Connections": broker.number("connections"),
        "Filters": count_text(broker.number("filters")),
        "Waiting": f"{count_text(broker.number('waiting'))} messages in {broker.number('mailboxes')} mailboxes",
        "Dead letters": f"{count_text(broker.number('dead'))} since it started",
        "Routing": broker.network.get("routing", "stands alone"),
    }


def link_facts(link: LinkSnapshot, most: float) -> dict[str, object]:
    found: dict[str, object] = {
        "State": "up" if link.up else "down",
        "Latency": f"{link.latency_ms:.2f} ms",
        "Traffic": f"{rate_text(link.bytes_s)}, both ways",
        "Waiting": bytes_text(link.waiting_bytes),
    }
    if link.bandwidth_bytes_s:
        share = link.peak_bytes_s / link.bandwidth_bytes_s
        found["Load"] = f"{share:.1%} of {rate_text(link.bandwidth_bytes_s)} on the busier way"
    elif link.up:
        found["Load"] = f"{load_text(link, most)}; its bandwidth is not configured"
    return found


PANE = Pane("/", "Map", "hub", "Brokers coloured by how busy they are, links by what they carry.", MapPane)
