"""Messages in, out and undelivered, over the last minutes."""

from datetime import UTC, datetime

from tidings.console.charts import LineChart
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
        rates = [one.rates for one in moments]
        self._chart.show(times, [(one.received, one.delivered, one.unmatched, one.dropped) for one in rates])


def _row(rates: Rates) -> dict[str, str]:
    return {
        "received": count_text(rates.received),
        "delivered": count_text(rates.delivered),
        "unmatched": count_text(rates.unmatched),
        "dropped": count_text(rates.dropped),
        "use": f"{rates.utilisation:.0%}",
    }


PANE = Pane("/rates", "Rates", "show_chart", "Messages in, out, and those that reached nobody.", RatesPane)
