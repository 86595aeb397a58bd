"""Messages in, out and undelivered, over the last minutes."""

from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from tidings.console.frame import Pane
from tidings.console.parts import Figures, card, count_text, every, table
from tidings.console.sessions import Session
from tidings.console.view import Rates

_LINES = {"in": "#2f8fc4", "out": "#4a9d6f", "nobody wants": "#d58a12", "dropped": "#c5372c"}


class RatesPane:
    def __init__(self, session: Session) -> None:
        self._watch = session.watch
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
        with card("The last five minutes"):
            self._chart = ui.echart(_chart()).classes("t-chart").props('role=img aria-label="Rates over time"')
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
        every(1.0, self._show)

    def _show(self) -> None:
        if self._watch.rounds == self._round:
            return
        self._round, view = self._watch.rounds, self._watch.view
        total = view.rates
        self._figures.set(
            {
                "Messages in a second": count_text(total.received),
                "Deliveries a second": count_text(total.delivered),
                "Nobody wants, a second": count_text(total.unmatched),
                "Dropped a second": count_text(total.dropped),
                "Busiest broker": f"{total.utilisation:.0%} of a core",
            }
        )
        self._table.rows = [{"id": one.id, "name": one.name, **_row(one.rates)} for one in view.brokers.values()]
        moments = list(self._watch.history)
        times = [datetime.fromtimestamp(one.at, UTC).astimezone().strftime("%H:%M:%S") for one in moments]
        lines = zip(
            *((one.rates.received, one.rates.delivered, one.rates.unmatched, one.rates.dropped) for one in moments),
            strict=True,
        )
        options = self._chart.options
        options["xAxis"]["data"] = times
        for series, values in zip(options["series"], lines, strict=True):
            series["data"] = [round(value, 1) for value in values]
        self._chart.update()


def _row(rates: Rates) -> dict[str, str]:
    return {
        "received": count_text(rates.received),
        "delivered": count_text(rates.delivered),
        "unmatched": count_text(rates.unmatched),
        "dropped": count_text(rates.dropped),
        "use": f"{rates.utilisation:.0%}",
    }


def _chart() -> dict[str, Any]:
    return {
        "animation": False,
        "grid": {"left": 56, "right": 16, "top": 36, "bottom": 28},
        "legend": {"top": 0, "textStyle": {"color": "#8593a1"}},
        "tooltip": {"trigger": "axis"},
        "xAxis": {"type": "category", "data": [], "axisLabel": {"color": "#8593a1"}},
        "yAxis": {"type": "value", "axisLabel": {"color": "#8593a1"}, "splitLine": {"lineStyle": {"opacity": 0.25}}},
        "series": [
            {"name": name, "type": "line", "showSymbol": False, "color": colour, "data": []}
            for name, colour in _LINES.items()
        ],
    }


PANE = Pane("/rates", "Rates", "show_chart", "Messages in, out, and those that reached nobody.", RatesPane)
