"""Pieces that several panes are made of. All text goes to the browser as text: nothing of a message is ever HTML."""

import codecs
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nicegui import ui
from nicegui.element import Element

from tidings.console.view import BrokerState, address_of
from tidings.console.watch import BrokerWatch
from tidings.errors import TidingsError

SHOWN_BYTES = 2000


@contextmanager
def card(title: str, about: str = "", *, alone: bool = False) -> Iterator[Element]:
    """`alone`: the only one of a pane, which has the same title."""
    with ui.element("section").classes("t-card") as made:
        made.props["aria-label"] = title
        if not alone:
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
    """A hint how to make data appear here."""
    return _text("p", text).classes("t-empty")


def _text(tag: str, text: str) -> ui.label:
    label = ui.label(text)
    label.tag = tag
    return label


class Facts:
    """Names and values. Those on the page already are only changed: a text that somebody marks stays marked."""

    def __init__(self) -> None:
        self._list = ui.element("dl").classes("t-facts")
        self._values: dict[str, ui.label] = {}

    def set(self, pairs: Mapping[str, object]) -> None:
        if list(pairs) != list(self._values):
            self._list.clear()
            with self._list:
                self._values = {name: _fact(name) for name in pairs}
        for name, value in pairs.items():
            self._values[name].text = str(value)


def _fact(name: str) -> ui.label:
    _text("dt", name)
    return _text("dd", "")


def facts(pairs: Mapping[str, object]) -> None:
    Facts().set(pairs)


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
    columns: Mapping[str, str],
    *,
    key: str,
    numbers: Sequence[str] = (),
    roomy: Sequence[str] = (),
    label: str,
    pick: bool = False,
) -> ui.table:
    """Columns: field and title; those in `roomy` are left out on a phone. Rows come later; the broker sorts and pages,
    not the browser."""
    described = [
        {"name": name, "label": title, "field": name, "align": "right" if name in numbers else "left"}
        | ({"classes": "gt-xs", "headerClasses": "gt-xs"} if name in roomy else {})
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


def seconds_text(seconds: float | None) -> str:
    """
    >>> seconds_text(0.0217), seconds_text(3.4e-6), seconds_text(2.5), seconds_text(None)
    ('21.7 ms', '3.4 µs', '2.5 s', '–')
    """
    if seconds is None:
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def duration_text(ms: int) -> str:
    """
    >>> [duration_text(ms) for ms in (250, 1500, 90_000, 3_600_000, 172_800_000)]
    ['250 ms', '1.5 s', '1.5 min', '1 h', '2 d']
    """
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms >= size:
            return f"{ms / size:.3g} {unit}"
    return f"{ms} ms"


def policy_text(policy: Mapping[str, Any]) -> str:
    """The settings of a queue's policy, in words.

    >>> none = dict.fromkeys(["bytes_max", "lifetime_ms", "deliveries_max", "idle_ms", "redelivery_first_ms"], 0)
    >>> rest = {"dead_letters": "", "create": True, "single_active": False, "scope": "broker", "home": 0}
    >>> policy_text(none | rest | {"messages_max": 20_000, "overflow": "drop-oldest"})
    'at most 20.0k messages, then drop-oldest'
    """
    said = []
    limits = [f"{count_text(policy['messages_max'])} messages"] if policy["messages_max"] else []
    limits += [bytes_text(policy["bytes_max"])] if policy["bytes_max"] else []
    if limits:
        said.append(f"at most {' and '.join(limits)}, then {policy['overflow']}")
    if policy["lifetime_ms"]:
        said.append(f"messages live {duration_text(policy['lifetime_ms'])}")
    if policy["deliveries_max"]:
        said.append(f"{policy['deliveries_max']} deliveries")
    if policy["dead_letters"]:
        said.append(f"dead letters to {policy['dead_letters']}")
    if policy["redelivery_first_ms"]:
        first, most = duration_text(policy["redelivery_first_ms"]), duration_text(policy["redelivery_most_ms"])
        said.append(f"again after {first}, times {policy['redelivery_factor']:g}, at most {most}")
    if policy["idle_ms"]:
        said.append(f"deleted when idle for {duration_text(policy['idle_ms'])}")
    if policy["single_active"]:
        said.append("one consumer is served")
    if not policy["create"]:
        said.append("created by administrators only")
    if policy["scope"] == "network":
        said.append(f"of the network, kept by broker {policy['home']}" if policy["home"] else "of the network")
    return "; ".join(said) or "no limits"


def rate_number(rate: float) -> str:
    """Of things a second: slow ones with a digit behind the point, or 0.4 a second would look like none.

    >>> rate_number(0), rate_number(0.4), rate_number(42), rate_number(12_345)
    ('0', '0.4', '42', '12.3k')
    """
    return f"{rate:.1f}" if 0 < rate < 10 else count_text(rate)


def bytes_text(count: float) -> str:
    """
    >>> bytes_text(950), bytes_text(12_345), bytes_text(3_456_789), bytes_text(1e9)
    ('950 bytes', '12.3 kB', '3.46 MB', '1.00 GB')
    """
    if count < 1000:
        return f"{count:.0f} bytes"
    if count < 1e6:
        return f"{count / 1000:.1f} kB"
    return f"{count / 1e6:.2f} MB" if count < 1e9 else f"{count / 1e9:.2f} GB"


def body_text(body: bytes) -> str:
    """A message's body as text, or as hexadecimal digits if it is none; the first part of a long one.

    >>> body_text(b"hello"), body_text(bytes(3))
    ('hello', '00 00 00')
    """
    shown = body[:SHOWN_BYTES]
    try:  # what was cut may end within a character, what is whole may not
        text = codecs.getincrementaldecoder("utf-8")().decode(shown, final=len(body) <= SHOWN_BYTES)
    except UnicodeDecodeError:
        text = "\0"
    if any(character < " " and character not in "\n\r\t" for character in text):
        text = shown.hex(" ")
    return text + (f" … ({len(body)} bytes)" if len(body) > SHOWN_BYTES else "")


def reason_of(error: Exception) -> str:
    return error.reason if isinstance(error, TidingsError) else str(error) or "the broker does not answer"


def tell(error: Exception) -> None:
    """Something asked for could not be done."""
    ui.notify(reason_of(error), type="negative", position="top", close_button="OK", timeout=8000)


class Toggle:
    """A button that begins something, and ends it while that goes on. The second of two quick clicks may come here when
    the first is done with and must not be taken for its opposite: a click tells what the button said."""

    def __init__(self, name: str, icon: str, act: Callable[[bool], Awaitable[None]]) -> None:
        self._begin = name, icon
        self._page = ui.context.client
        self._button = ui.button(name, icon=icon).props("no-caps")
        self._button.on("click", lambda said: act(name in said.args), js_handler="e => emit(e.currentTarget.innerText)")

    def set(self, going: bool) -> None:
        if not self._page.is_deleted:
            name, icon = ("Stop", "stop") if going else self._begin
            self._button.set_text(name)
            self._button.props(f"icon={icon}")


class ConfirmQuestion:
    """Asks before something that cannot be undone. A page has one for all that it asks: each new one would leave
    something of itself behind."""

    def __init__(self, yes: str, no: str, warning: str = "It cannot be brought back.") -> None:
        self._then: Callable[[], Any] | None = None
        self._agreed = False
        with ui.dialog() as self._dialog, ui.card():
            self._text = ui.label().classes("text-weight-bold")
            ui.label(warning)
            with ui.row().classes("w-full justify-end"):
                ui.button(no, on_click=self._dialog.close).props("flat no-caps autofocus")
                ui.button(yes, on_click=self._agree).props("no-caps color=negative")
        self._dialog.on("hide", self._hidden)

    def ask(self, text: str, then: Callable[[], Any]) -> None:
        self._then, self._agreed = then, False
        self._text.text = text
        self._dialog.props["aria-label"] = text
        self._dialog.open()

    def _agree(self) -> None:
        self._agreed = True
        self._dialog.close()

    async def _hidden(self) -> None:
        """Not before it has closed: only then is the focus where it was, and can go on from there."""
        then, self._then = self._then, None
        if self._agreed and then is not None:
            await then()


def unseen(watch: BrokerWatch, url: str) -> str:
    """The reason for which a broker reports nothing, or nothing new; empty if it reports."""
    told = [(one.url, one.state, one.error) for one in watch.view.watched.values()]
    told += [(one.url, one.state, one.error) for one in watch.view.unreached]
    return next((why or state.value for of, state, why in told if of == url and state is not BrokerState.UP), "")


def label_of(watch: BrokerWatch, url: str) -> str:
    found, address = watch.view.watched.get(url), address_of(url)
    if found is None:
        return url
    return found.name if address in found.name else f"{found.name} ({address})"


def every(seconds: float, act: Callable[[], Any]) -> ui.timer:
    """At once, and then again and again as long as the page is open."""
    return ui.timer(seconds, act)
