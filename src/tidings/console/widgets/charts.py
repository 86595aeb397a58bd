"""A chart of lines over time."""

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

_GREY = "#8593a1"  # of text: readable on light and on dark


class LineChart:
    """`lines`: name and colour; `unit` stands behind the numbers."""

    def __init__(self, lines: Mapping[str, str], label: str, unit: str = "") -> None:
        options: dict[str, Any] = {
            "animation": False,
            "grid": {"left": 56, "right": 16, "top": 36, "bottom": 28},
            "legend": {"top": 0, "textStyle": {"color": _GREY}},
            "tooltip": {"trigger": "axis"},
            "xAxis": {"type": "category", "data": [], "axisLabel": {"color": _GREY}},
            "yAxis": {
                "type": "value",
                "axisLabel": {"color": _GREY, "formatter": "{value}" + unit},
                "splitLine": {"lineStyle": {"opacity": 0.25}},
            },
            "series": [
                {"name": name, "type": "line", "showSymbol": False, "color": colour, "data": []}
                for name, colour in lines.items()
            ],
        }
        self.element = ui.echart(options).classes("t-chart").props(f'role=img aria-label="{label}"')

    def show(self, times: Sequence[str], moments: Sequence[Sequence[float]]) -> None:
        """One time and as many numbers as there are lines for each moment."""
        options = self.element.options
        options["xAxis"]["data"] = list(times)
        for number, series in enumerate(options["series"]):
            series["showSymbol"] = len(times) < 3  # a line takes two
            series["data"] = [round(moment[number], 2) for moment in moments]
        self.element.update()
