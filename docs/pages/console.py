"""Writes the table of docs/console.md from what bench/console.py measured, so that they agree.

python -m docs.pages.console
"""

from pathlib import Path
from typing import Any

from docs.pages.benchmarks import load, table, taken

PAGE = Path(__file__).parents[1] / "console.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def measured() -> str:
    found = load("console")
    fed: list[dict[str, Any]] = found["fed"]
    real: list[dict[str, Any]] = found["real"]
    head = [f"{one['brokers']} brokers, {number(one['subscriptions'])} subscriptions" for one in fed]
    frames = ("frame_ms_median", "frame_ms_99", "frame_ms_max")
    rows = [
        ["the map is drawn, libraries in the browser's cache", *(f"{one['map_seconds']:.2f} s" for one in fed)],
        ["from a click on a broker to its details", *(f"{one['click_ms']:.0f} ms" for one in fed)],
        [
            "time between frames while updates come in: median, 99 %, longest",
            *(f"{', '.join(f'{one[name]:.0f}' for name in frames)} ms" for one in fed),
        ],
        ["next page of the subscriptions", *(f"{one['turn_ms']:.0f} ms" if "turn_ms" in one else "–" for one in fed)],
        ["processor time of the console", *(f"{100 * one['console_cpu_share']:.1f} % of a core" for one in fed)],
        ["a real broker's time for one overview", *(f"{one['overview_ms']:.3f} ms" for one in real)],
        [
            "… for a page of subscriptions; to find a text in all",
            *(f"{one['page_ms']:.2f}; {one['find_ms']:.2f} ms" for one in real),
        ],
    ]
    return f"{taken(found)}\n\n{table(['', *head], rows)}"


def number(one: int) -> str:
    return f"{one:,}".replace(",", " ")


def renewed(text: str) -> str:
    """The document with what was measured written anew."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{measured()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
