"""Pieces that several panes are made of. All text goes to the browser as text: nothing of a message is ever HTML."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nicegui import ui
from nicegui.element import Element

from tidings.console.sessions import Session
from tidings.console.source import Source
from tidings.console.watch import Watch
from tidings.errors import TidingsError

SHOWN_BYTES = 2000


@contextmanager
def card(title: str = "", about: str = "") -> Iterator[Element]:
    with ui.element("section").classes("t-card") as made:
        if title:
            made.props["aria-label"] = title
            heading(title)
        if about:
            faint(about)
        yield made


def heading(text: str, tag: str = "h2") -> ui.label:
    return _text(tag, text)


def faint(text: str) -> ui.label:
    return _text("p", text).classes("t-about")


def problem(text: str) -> ui.label:
    return _text("p", text).classes("t-problem").props("role=alert")


def empty(text: str) -> ui.label:
    """What to do so that there is something to be seen here."""
    return _text("p", text).classes("t-empty")


def _text(tag: str, text: str) -> ui.label:
    label = ui.label(text)
    label.tag = tag
    return label


def facts(pairs: Mapping[str, object]) -> None:
    with ui.element("dl").classes("t-facts"):
        for name, value in pairs.items():
            _text("dt", name)
            _text("dd", str(value))


class Figures:
    """A row of numbers that change."""

    def __init__(self, names: Sequence[str]) -> None:
        self._values: dict[str, ui.label] = {}
        with ui.element("div").classes("t-figures"):
            for name in names:
                with ui.element("div").classes("t-figure"):
                    self._values[name] = ui.label("–").classes("value")
                    ui.label(name).classes("what")

    def set(self, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            self._values[name].text = value


def table(
    columns: Mapping[str, str], *, key: str, numbers: Sequence[str] = (), label: str, pick: bool = False
) -> ui.table:
    """Columns: field and title. Rows come later; the broker sorts and pages, not the browser."""
    described = [
        {"name": name, "label": title, "field": name, "align": "right" if name in numbers else "left"}
        for name, title in columns.items()
    ]
    made = ui.table(columns=described, rows=[], row_key=key, pagination=0).classes("t-table w-full")
    made.props(f'flat dense hide-bottom aria-label="{label}"')
    if pick:
        made.classes("t-pick")
    return made


def count_text(number: float) -> str:
    """
    >>> count_text(950), count_text(12_345), count_text(3_456_789)
    ('950', '12.3k', '3.46M')
    """
    if number < 10_000:
        return f"{number:,.0f}"
    return f"{number / 1000:.1f}k" if number < 1e6 else f"{number / 1e6:.2f}M"


def body_text(body: bytes) -> str:
    """A message's body as text, or as hexadecimal digits if it is none; the first part of a long one.

    >>> body_text(b"hello"), body_text(bytes(3))
    ('hello', '00 00 00')
    """
    shown = body[:SHOWN_BYTES]
    try:
        text = shown.decode()
    except UnicodeDecodeError:
        text = "\0"
    if any(character < " " and character not in "\n\r\t" for character in text):
        text = shown.hex(" ")
    return text + (f" … ({len(body)} bytes)" if len(body) > SHOWN_BYTES else "")


def tell(error: Exception) -> None:
    """Something asked for could not be done."""
    text = error.reason if isinstance(error, TidingsError) else str(error) or "the broker does not answer"
    ui.notify(text, type="negative", position="top", close_button="OK", timeout=8000)


def broker_select(session: Session, on_change: Callable[[], Any]) -> ui.select:
    """Which broker a pane is about: by its address; the choice holds for the other panes too."""
    options = {one.url: label_of(session.watch, one.url) for one in session.watch.sources}

    def changed(event: Any) -> Any:
        session.chosen["broker"] = event.value
        return on_change()

    made = ui.select(options, value=chosen_url(session), label="Broker", on_change=changed)
    made.props("outlined dense options-dense")
    made.set_visibility(len(options) > 1)
    return made


def chosen_url(session: Session) -> str:
    urls = [one.url for one in session.watch.sources]
    chosen = str(session.chosen.get("broker", ""))
    return chosen if chosen in urls else urls[0]


def chosen_source(session: Session) -> Source:
    return session.watch.source(chosen_url(session))


def label_of(watch: Watch, url: str) -> str:
    found = [one for one in watch.view.brokers.values() if one.url == url]
    return f"{found[0].name} ({url.partition('://')[2]})" if found else url


def every(seconds: float, act: Callable[[], Any]) -> ui.timer:
    """At once, and then again and again as long as the page is open."""
    return ui.timer(seconds, act)
