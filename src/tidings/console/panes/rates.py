"""Messages in, out and undelivered, over the last minutes."""

import time
from datetime import UTC, datetime
from typing import Any

from tidings.console.growth import Growth
from tidings.console.layout import Pane
from tidings.console.sessions import ConsoleSession
from tidings.console.view import BrokerRates
from tidings.console.widgets.broker_choice import BrokerChoice
from tidings.console.widgets.charts import LineChart
from tidings.console.widgets.paged_list import PagedList
from tidings.console.widgets.parts import (
    Figures,
    card,
    count_text,
    every,
    label_of,
    problem,
    rate_number,
    table,
    unseen,
)

_LINES = {"in": "#2f8fc4", "out": "#4a9d6f", "nobody wants": "#d58a12", "dropped": "#c5372c"}


class RatesPane:
    def __init__(self, session: ConsoleSession) -> None:
        self._watch, self._choice = session.watch, BrokerChoice(session)
        self._growth = Growth()
        self._round = -1
        self._figures = Figures(
            [
                "Messages in a second",
                "Deliveries a second",
                "Nobody wants, a second",
                "Dropped a second",
                "Busiest broker",
            ]
        )
        self._untold = problem("")
        self._untold.set_visibility(False)
        with card("The last five minutes"):
            self._chart = LineChart(_LINES, "Rates over time")
        with card("By broker"):
            columns = {
                "name": "Broker",
                "received": "In/s",
                "delivered": "Out/s",
                "unmatched": "Nobody wants/s",
                "dropped": "Dropped/s",
                "use": "Utilisation",
            }
            self._table = table(columns, key="id", numbers=list(columns)[1:], label="Rates by broker")
        with card("By destination", "What came in at one broker, and to how many it was given there; busiest first."):
            PagedList(
                self._choice,
                "traffic",
                {"destination": "Destination", "in": "In/s", "out": "Out/s", "all_in": "In", "all_out": "Out"},
                self._destination,
                key="destination",
                label="Rates by destination",
                numbers=("in", "out", "all_in", "all_out"),
                roomy=("all_in", "all_out"),
                nothing="Nothing has been published since this page was opened: it counts while somebody looks.",
            )
        every(1.0, self._show)

    def _destination(self, item: dict[str, Any]) -> dict[str, str]:
        now, key = time.monotonic(), f"{self._choice.url} {item['destination']}"
        rates = (self._growth.rate(f"{key} {way}", item[way], now) for way in ("in", "out"))
        came, given = ("…" if rate is None else rate_number(rate) for rate in rates)
        name = item["destination"] or "(all others)"
        sums = {"all_in": count_text(item["in"]), "all_out": count_text(item["out"])}
        return {"destination": name, "in": came, "out": given, **sums}

    def _show(self) -> None:
        if self._watch.rounds == self._round:
            return
        self._round, view = self._watch.rounds, self._watch.view
        total = view.rates
        silent = [(one.url, why) for one in self._watch.sources if (why := unseen(self._watch, one.url))]
        reasons = [
            why if len(self._watch.sources) == 1 else f"{label_of(self._watch, url)}: {why}" for url, why in silent
        ]
        self._untold.text = "; ".join(reasons)  # else the sums would seem to be those of all
        self._untold.set_visibility(bool(reasons))
        figures = {
            "Messages in a second": rate_number(total.received),
            "Deliveries a second": rate_number(total.delivered),
            "Nobody wants, a second": rate_number(total.unmatched),
            "Dropped a second": rate_number(total.dropped),
            "Busiest broker": f"{total.utilisation:.0%} of a core",
        }
        known = any(one.overview for one in view.brokers.values())
        self._figures.set(figures if known else dict.fromkeys(figures, "–"))
        self._table.rows = [{"id": one.place, "name": one.name, **_row(one.rates)} for one in view.brokers.values()]
        moments = list(self._watch.history)
        times = [datetime.fromtimestamp(one.at, UTC).astimezone().strftime("%H:%M:%S") for one in moments]
        rates = [one.rates for one in moments]
        self._chart.show(times, [(one.received, one.delivered, one.unmatched, one.dropped) for one in rates])


def _row(rates: BrokerRates) -> dict[str, str]:
    return {
        "received": rate_number(rates.received),
        "delivered": rate_number(rates.delivered),
        "unmatched": rate_number(rates.unmatched),
        "dropped": rate_number(rates.dropped),
        "use": f"{rates.utilisation:.0%}",
    }


PANE = Pane("/rates", "Rates", "show_chart", "Messages in, out, and those that reached nobody.", RatesPane)
