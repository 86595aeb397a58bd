"""Routes of a broker to the others, the interests it knows of them, the costs of its own, and tables of covering."""

from typing import Any

from nicegui import ui

from tidings.console.layout import Pane
from tidings.console.sessions import ConsoleSession
from tidings.console.widgets.broker_choice import BrokerChoice
from tidings.console.widgets.paged_list import PagedList
from tidings.console.widgets.parts import card, count_text, empty, every, facts, problem, unseen

_FATES = {
    "copies": "Copies sent to other brokers",
    "arrived": "Copies that arrived here",
    "relayed": "Passed on",
    "in_vain": "Arrived in vain (nobody here wanted them)",
    "duplicates": "Duplicates thrown away",
    "no_route": "Without a route",
    "no_hops": "With too many hops",
    "abandoned": "Persistent, dropped since their broker was given up",
}


class RoutingPane:
    def __init__(self, session: ConsoleSession) -> None:
        self._session, self._choice = session, BrokerChoice(session)
        with ui.element("div").classes("t-columns two"):
            with card("Routing table", "Distance: the sum of the links' costs, by default their latency in 0.1 ms."):
                columns = {"name": "To", "by": "By", "distance": "Distance", "interests": "Interests"}
                PagedList(
                    self._choice,
                    "routing",
                    columns,
                    self._row,
                    key="router",
                    label="Routing table",
                    numbers=("distance", "interests"),
                    nothing="This broker stands alone. With [network] in its configuration it links with others.",
                )
            with card("Scheme"):
                self._scheme = ui.column().classes("w-full gap-3")
        with card(
            "Interests by cost", "What this broker asks of others: bytes on each link, and copies in vain by sample."
        ):
            names = {
                "filter": "Filter",
                "subscriptions": "Subscriptions",
                "form": "Advertised as",
                "rows": "Rows",
                "row_bytes": "Bytes",
                "exact_bytes": "Exact filter",
                "in_vain": "In vain",
            }
            PagedList(
                self._choice,
                "interests",
                names,
                self._interest,
                key="filter",
                label="Interests by cost",
                numbers=("subscriptions", "rows", "row_bytes", "exact_bytes", "in_vain"),
                nothing="No subscription here is advertised to other brokers.",
            )
        with card("Covering", "Advertisements, subscriptions, preserved ones, and what neighbours were told."):
            PagedList(
                self._choice,
                "covering",
                {"table": "Table", "neighbour": "Neighbour", "id": "Id", "filter": "Filter"},
                self._entry,
                key="key",
                label="Covering tables",
                nothing="Only brokers that route by covering have these tables.",
            )
        every(2.0, self._show)

    def _interest(self, item: dict[str, Any]) -> dict[str, Any]:
        counts = {name: count_text(item[name]) for name in ("subscriptions", "rows", "row_bytes", "exact_bytes")}
        in_vain = f"{item['in_vain']} of {item['looked_at']}" if item["looked_at"] else "–"
        return {"filter": item["filter"], "form": item["form"], "in_vain": in_vain, **counts}

    def _entry(self, item: dict[str, Any]) -> dict[str, Any]:
        view = self._session.watch.view
        base = view.base(self._choice.url)
        neighbour = view.name(base + item["neighbour"]) if item["neighbour"] else "this broker"
        return {"table": item["table"], "neighbour": neighbour, "id": item["id"], "filter": item["filter"]}

    def _row(self, item: dict[str, Any]) -> dict[str, Any]:
        view, hop = self._session.watch.view, item["next_hop"]
        base = view.base(self._choice.url)
        return {
            "name": f"{item['router']}: {view.name(base + item['router'])}",
            "by": "no way there" if hop is None else "directly" if hop == item["router"] else view.name(base + hop),
            "distance": "" if item["distance"] is None else item["distance"],
            "interests": count_text(item["interests"]),
        }

    def _show(self) -> None:
        chosen = self._choice.url
        broker = self._session.watch.view.watched.get(chosen)
        network = broker.network if broker is not None else {}
        self._scheme.clear()
        with self._scheme:
            if not network:
                untold = unseen(self._session.watch, chosen)
                problem(untold) if untold else empty("No network.")
                return
            named: dict[str, object] = {"Network": network["network"], "Scheme": network["routing"]}
            named |= {
                name.replace("_", " ").capitalize(): count_text(value) for name, value in network["scheme"].items()
            }
            if network["contested"]:
                problem("Another broker has the same id and was there before: give this one an id of its own.")
            if not network["synchronised"]:
                named |= {"Interests of the network": "not known yet: persistent messages wait"}
            named |= {"Persistent, not yet taken": network["in_transit"]}
            facts(named | {told: count_text(network["counts"].get(name, 0)) for name, told in _FATES.items()})


PANE = Pane("/routing", "Routing", "alt_route", "The tables by which messages find other brokers.", RoutingPane)
