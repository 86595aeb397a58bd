"""Subscriptions with owner, destination, selector and matched messages."""

import time
from typing import Any

from tidings.console.growth import Growth
from tidings.console.layout import Pane
from tidings.console.sessions import ConsoleSession
from tidings.console.widgets.broker_choice import BrokerChoice
from tidings.console.widgets.paged_list import PagedList
from tidings.console.widgets.parts import card, count_text, rate_number


class SubscriptionsPane:
    def __init__(self, session: ConsoleSession) -> None:
        self._choice = BrokerChoice(session)
        self._growth = Growth()
        columns = {
            "destination": "Destination",
            "selector": "Selector",
            "owner": "User",
            "client": "Client",
            "kind": "Kind",
            "matched": "Matched",
            "rate": "Matched/s",
            "dropped": "Dropped",
        }
        with card("Subscriptions", alone=True):
            PagedList(
                self._choice,
                "subscriptions",
                columns,
                self._row,
                key="id",
                label="Subscriptions",
                numbers=("matched", "rate", "dropped"),
                roomy=("owner", "client", "kind", "matched", "dropped"),
                nothing="Nobody has subscribed. Try it: tidings sub 'ticks.>' --selector 'price > 20'",
            )

    def _row(self, item: dict[str, Any]) -> dict[str, Any]:
        matched = int(item["delivered"] + item["dropped"])
        rate = self._growth.rate(f"{self._choice.url} {item['id']}", matched, time.monotonic())
        return {
            "destination": item["destination"],
            "selector": item["selector"] or "everything",
            "owner": item["user"],
            "client": item["client"] or "–",
            "kind": item["kind"] + (", stalled" if item["stalled"] else ""),
            "matched": count_text(matched),
            "rate": "…" if rate is None else rate_number(rate),
            "dropped": count_text(item["dropped"]),
        }


PANE = Pane(
    "/subscriptions", "Subscriptions", "filter_alt", "Selectors, their owners, and how much matches.", SubscriptionsPane
)
