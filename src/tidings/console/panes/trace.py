"""Traces a message: its path lights up on the map, with what is recorded of every broker on it."""

from nicegui import ui

from tidings.console.layout import Pane
from tidings.console.sessions import ConsoleSession
from tidings.console.widgets.broker_choice import BrokerChoice
from tidings.console.widgets.network_map import Lit, NetworkMap
from tidings.console.widgets.parts import card, empty, every, faint, problem, table
from tidings.errors import TidingsError
from tidings.model.message_id import MessageId
from tidings.tracking.draw.text import why_text
from tidings.tracking.query.path import Hop, Path


class TracePane:
    def __init__(self, session: ConsoleSession) -> None:
        query = ui.context.client.request.query_params
        self._session, self._choice = session, BrokerChoice(session, query.get("broker", ""))
        self._path: Path | None = None
        self._asked = ""  # the address of the broker that found it
        asked = query.get("id", "")
        with card("Message"), ui.element("div").classes("t-row"):
            self._id = ui.input("Message id (32 hexadecimal digits)", value=asked).props("outlined dense clearable")
            self._id.on("keydown.enter", self._trace)
            self._choice.select(lambda: None)
            self._everywhere = ui.switch("Ask all brokers")
            self._why = ui.input("Why has this subscriber it, or not?", value=query.get("why", ""))
            self._why.props("outlined dense clearable").on("keydown.enter", self._trace)
            ui.button("Trace", icon="travel_explore", on_click=self._trace).props("no-caps")
        with ui.element("div").classes("t-columns even"):
            with card("Path"):
                self._map = NetworkMap()
                faint("p: how likely a broker would say so of a message that never passed it.")
            with card("What the brokers say"):
                self._told = ui.column().classes("w-full gap-3").props("aria-live=polite")
        every(1.0, self._draw)
        if asked:
            ui.timer(0.1, self._trace, once=True)
        else:
            with self._told:
                empty(
                    "Paste the id of a message. `tidings pub --ids` prints it, the try-out shows it, a delivery has it."
                )

    async def _trace(self) -> None:
        self._path, error = None, ""
        self._asked = self._choice.url
        try:
            message = MessageId.parse((self._id.value or "").strip())
            client = await self._choice.source.client()
            why = (self._why.value or "").strip()
            self._path = await client.trace(message, everywhere=self._everywhere.value, why=why)
        except TidingsError as caught:
            error = caught.reason
        except OSError as caught:
            error = str(caught)
        self._told.clear()
        with self._told:
            if self._path is None:
                problem(error)
            else:
                self._tell(self._path)
        self._draw()

    def _draw(self) -> None:
        view = self._session.watch.view
        self._map.show(view, lit=lit_path(self._path, view.base(self._asked)))

    def _tell(self, path: Path) -> None:
        view = self._session.watch.view
        base = view.base(self._asked)
        if not path.hops:
            empty("No broker has a record of it. Is tracking on ([tracking] in the configuration), and the id right?")
        else:
            columns = {"broker": "Broker", "sender": "From", "p": "p", "subscribers": "Delivered to"}
            rows = [
                {
                    "id": hop.broker,
                    "broker": view.name(base + hop.broker),
                    "sender": "published here" if hop.sender is None else view.name(base + hop.sender),
                    "p": _chance(hop),
                    "subscribers": ", ".join(one.peer or "(unnamed)" for one in hop.subscribers) or "–",
                }
                for hop in path.hops
            ]
            made = table(columns, key="id", label="Path")
            made.rows = rows
        for one in path.reasons:
            ui.label(f"{view.name(base + one.broker)}: {why_text(one)}")
        if path.hops and not path.confirmed:
            problem("The broker where it was published does not confirm it.")
        for broker, reason in path.unasked.items():
            problem(f"{view.name(base + broker)} could not be asked: {reason}")
        for broker in path.unknown:
            problem(f"{view.name(base + broker)} has lost its records of that time.")
        for hop in path.false_positives:
            faint(f"{view.name(base + hop.broker)} claims it too, but lies off every way there: a false positive.")
        faint(f"{path.asked} brokers asked, {path.filters} filters looked at.")


def lit_path(path: Path | None, base: int) -> Lit:
    """At the places of the network that begin with `base`."""
    if path is None:
        return Lit()
    links = tuple((base + hop.sender, base + hop.broker) for hop in path.hops if hop.sender is not None)
    notes = {base + hop.broker: f"p {_chance(hop)}" if hop.probability else _chance(hop) for hop in path.hops}
    return Lit(notes, links)


def _chance(hop: Hop) -> str:
    return "cannot say" if hop.opaque else f"{hop.probability:.1g}" if hop.probability else "certain"


PANE = Pane("/trace", "Trace", "route", "Where a message went, as far as brokers recorded it.", TracePane)
