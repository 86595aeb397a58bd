"""Who has subscribed to what, with which selector, and how much of what comes in that matches."""

import time
from typing import Any

from tidings.console.frame import Pane
from tidings.console.listing import Listing
from tidings.console.parts import card, count_text
from tidings.console.sessions import Session


class SubscriptionsPane:
    def __init__(self, session: Session) -> None:
        self._watch = session.watch
        self._before: dict[str, tuple[float, int]] = {}
        self._rates: dict[str, float] = {}
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
        with card("Subscriptions"):
            Listing(
                session,
                "subscriptions",
                columns,
                self._row,
                key="id",
                label="Subscriptions",
                numbers=("matched", "rate", "dropped"),
                nothing="Nobody has subscribed. Try it: tidings sub 'ticks.>' --selector 'price > 20'",
                on_page=self._remember,
            )

    def _row(self, item: dict[str, Any]) -> dict[str, Any]:
        matched, (at, earlier) = _matched(item), self._before.get(item["id"], (0.0, 0))
        seconds = time.monotonic() - at
        if at and seconds > 0.2:
            self._rates[item["id"]] = max(0, matched - earlier) / seconds
        rate = self._rates.get(item["id"])
        return {
            "destination": item["destination"],
            "selector": item["selector"] or "everything",
            "owner": item["user"],
            "client": item["client"],
            "kind": item["kind"] + (", stalled" if item["stalled"] else ""),
            "matched": count_text(matched),
            "rate": "" if rate is None else f"{rate:.1f}",
            "dropped": count_text(item["dropped"]),
        }

    def _remember(self, items: list[dict[str, Any]]) -> None:
        now = time.monotonic()
        keyed = {f"{item['connection']}/{item['subscription']}": _matched(item) for item in items}
        self._before = {key: (now, matched) for key, matched in keyed.items()}
        self._rates = {key: rate for key, rate in self._rates.items() if key in keyed}


def _matched(item: dict[str, Any]) -> int:
    return int(item["delivered"] + item["dropped"])


PANE = Pane(
    "/subscriptions", "Subscriptions", "filter_alt", "Selectors, their owners, and how much matches.", SubscriptionsPane
)
