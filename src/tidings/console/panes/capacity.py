"""Capacity of a broker: its fitted model beside measurements, and what-if questions."""

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from nicegui import ui

from tidings.capacity.batch_costs import BatchCosts
from tidings.capacity.online import UTILISATION_MAX, PresentLoad
from tidings.capacity.online_batches import BatchServer
from tidings.console.layout import Pane
from tidings.console.sessions import ConsoleSession
from tidings.console.view import BrokerSnapshot
from tidings.console.widgets.broker_choice import BrokerChoice
from tidings.console.widgets.charts import LineChart
from tidings.console.widgets.parts import (
    Figures,
    card,
    count_text,
    empty,
    every,
    facts,
    faint,
    problem,
    seconds_text,
    table,
    unseen,
)
from tidings.errors import TidingsError

SHOWN = 120  # seconds of the chart
_LINES = {"predicted": "#7a3fd1", "measured": "#2f8fc4"}
_FIGURES = ("Utilisation now", "Messages/s it can carry", "A message takes", "99.99 % wait at most")
MEASURING = "measuring …"
PROBABILITY = 0.9999


@dataclass(frozen=True, slots=True)
class WhatIf:
    rate: float  # messages a second
    filters: float
    receivers: float  # of a message, on average
    waiting_ms: float  # that 99.99 % of the messages may wait at most


class CapacityPane:
    def __init__(self, session: ConsoleSession) -> None:
        self._session, self._choice = session, BrokerChoice(session)
        self._costs: BatchCosts | None = None
        self._load: PresentLoad | None = None
        self._known = False  # the sliders stand where the broker does, or where somebody has put them
        self._answered = False
        self._lines: deque[tuple[float, float]] = deque(maxlen=SHOWN)
        with ui.element("div").classes("t-row").style("max-width: 420px"):
            self._choice.select(self._forget)
        self._figures = Figures(_FIGURES)
        with ui.element("div").classes("t-columns even"):
            with card(
                "Predicted and measured",
                "Utilisation: what the model says of the present rate, and the processor time.",
            ):
                self._chart = LineChart(_LINES, "Utilisation over time", " %")
                columns = {"what": "", "predicted": "Predicted", "actual": "Measured"}
                self._table = table(
                    columns, key="what", numbers=("predicted", "actual"), label="Predicted and measured"
                )
                self._measuring = faint(
                    "Measuring: too little has been seen to say what this broker carries. "
                    "It shows once there was traffic of different rates."
                )
                self._untold = problem("")
                self._untold.set_visibility(False)
                self._none = empty(
                    "The broker has not carried any message yet, or estimates nothing (capacity in [metrics]; "
                    "it needs tidings[capacity]). Publish some and look again."
                )
            with card("What if"):
                self._sliders = ui.element("div").classes("column gap-2 w-full")
                self._answer = ui.column().classes("w-full gap-3").props("aria-live=polite")
        with self._sliders:
            self._rate = LogSlider("Messages a second", 10, 200_000, 1000)
            self._filters = LogSlider("Filters", 1, 1_000_000, 100)
            self._receivers = LogSlider("Receivers of a message", 0.1, 1000, 2)
            self._waiting = LogSlider("99.99 % may wait at most, ms", 0.1, 10_000, 100)
            for one in (self._rate, self._filters, self._receivers, self._waiting):
                one.slider.on_value_change(self._ask)
        every(1.0, self._show)

    def _forget(self) -> None:
        self._known = self._answered = False
        self._lines.clear()

    def _broker(self) -> BrokerSnapshot | None:
        return self._session.watch.view.watched.get(self._choice.url)

    def _show(self) -> None:
        broker = self._broker()
        untold = unseen(self._session.watch, self._choice.url)
        said = {} if broker is None or untold else broker.overview.get("capacity") or {}
        known = "cost_seconds" in said
        self._table.set_visibility(known)
        self._chart.element.set_visibility(known)
        self._sliders.set_visibility(known)
        self._untold.text = untold
        self._untold.set_visibility(bool(untold))
        self._none.set_visibility(not said and not untold)
        self._measuring.set_visibility(bool(said) and not known)
        if broker is None or not known:
            figures = dict.fromkeys(_FIGURES, MEASURING if said else "–")
            if said:
                figures["Utilisation now"] = f"{said['utilisation']:.1%}"
            self._figures.set(figures)
            self._answer.clear()
            self._costs, self._answered = None, False
            return
        self._costs, self._load = BatchCosts(**said["cost_seconds"]), PresentLoad.from_values(said["load"])
        waiting = said.get("waiting_seconds", {})
        self._figures.set(
            {
                "Utilisation now": f"{said['utilisation']:.1%}",
                "Messages/s it can carry": count_text(said["capacity_messages_per_second"]),
                "A message takes": seconds_text(said["service_seconds"]),
                "99.99 % wait at most": seconds_text(waiting.get("0.9999")),
            }
        )
        self._table.rows = compared(broker, said)
        self._draw(broker.rates.received * said["service_seconds"], broker.rates.utilisation)
        if not self._known:  # begin where the broker stands
            self._known = True
            self._rate.set(max(10.0, broker.rates.received))
            self._filters.set(max(1.0, self._load.filters))
            self._receivers.set(max(0.1, self._load.subscribers * self._load.match))
        if not self._answered:
            self._ask()

    def _draw(self, predicted: float, actual: float) -> None:
        self._lines.append((100 * predicted, 100 * actual))
        times = [f"{second} s" for second in range(1 - len(self._lines), 1)]
        self._chart.show(times, self._lines)

    def _ask(self) -> None:
        if self._costs is None or self._load is None:
            return
        asked = WhatIf(self._rate.value, self._filters.value, self._receivers.value, self._waiting.value)
        self._answered = True
        self._answer.clear()
        with self._answer:
            try:
                _tell(asked_server(self._costs, self._load, asked), asked)
            except TidingsError as error:
                problem(error.reason)


class LogSlider:
    """On a logarithmic scale, with the number beside its name."""

    def __init__(self, name: str, low: float, high: float, value: float) -> None:
        self._name, self._low, self._high = name, math.log10(low), math.log10(high)
        self._label = ui.label().classes("t-faint")
        self.slider = ui.slider(min=self._low, max=self._high, step=0.02, value=math.log10(value))
        self.slider.props(f'aria-label="{name}" dense')
        self.slider.on_value_change(self._tell)
        self._tell()

    @property
    def value(self) -> float:
        return float(10**self.slider.value)

    def set(self, value: float) -> None:
        self.slider.value = min(max(math.log10(value), self._low), self._high)

    def _tell(self) -> None:
        value = self.value
        text = count_text(value) if value >= 10 else f"{value:.2g}"
        self._label.text = f"{self._name}: {text}"
        self.slider.props["aria-valuetext"] = text  # the slider itself counts in powers of ten


def compared(broker: BrokerSnapshot, said: dict[str, Any]) -> list[dict[str, str]]:
    """Compares the model's prediction for the present load with the measurements of the last second."""
    rate, service = broker.rates.received, said["service_seconds"]
    return [
        {
            "what": "Utilisation at the present rate",
            "predicted": f"{rate * service:.1%}",
            "actual": f"{broker.rates.utilisation:.1%}",
        },
        {
            "what": "Processor time of a message",
            "predicted": seconds_text(service),
            "actual": seconds_text(broker.rates.utilisation / rate if rate else None),
        },
    ]


def asked_server(costs: BatchCosts, load: PresentLoad, asked: WhatIf) -> BatchServer:
    """The same broker with other filters and receivers: as many subscribers as now, or more if it needs them."""
    subscribers = max(load.subscribers, asked.receivers)
    other = replace(load, filters=asked.filters, subscribers=subscribers, match=asked.receivers / subscribers)
    return other.server(costs)


def _tell(server: BatchServer, asked: WhatIf) -> None:
    busiest = server.capacity(UTILISATION_MAX)
    allowed = min(server.rate_allowed(asked.waiting_ms / 1000, PROBABILITY, max(busiest, asked.rate)), busiest)
    if asked.rate <= allowed:
        found = server.outlook(asked.rate, (PROBABILITY,))
        ui.label("One broker carries it.").classes("text-weight-bold")
        facts(
            {
                "Utilisation": f"{found.busy:.1%}",
                "99.99 % wait at most": seconds_text(found.waiting_quantiles[0][1]),
                "It would take up to": f"{count_text(allowed)} messages/s",
            }
        )
        return
    ui.label("One broker does not carry it.").classes("t-problem")
    why = "waiting times" if allowed < busiest else f"{UTILISATION_MAX:.0%} utilisation"
    faint(f"{why} allow {count_text(allowed)} messages/s")
    brokers = math.ceil(asked.rate / allowed) if allowed > 0 else None
    facts({"Brokers, publishers spread": brokers or "no number is enough"})


PANE = Pane("/capacity", "Capacity", "speed", "How much a broker carries, and how much it would.", CapacityPane)
