"""The frame of every pane: header, navigation, theme, and the number of brokers that answer."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from nicegui import ui

from tidings.console.request_guard import LOGIN_PATH
from tidings.console.sessions import ConsoleSession
from tidings.console.view import BrokerState
from tidings.console.watch import BrokerWatch
from tidings.console.widgets.parts import every, faint, heading, label_of

THEME_COOKIE = "tidings_theme"
NAMED_MAX = 4  # brokers
_SCRIPTS = ("sliders", "scrollers", "focus")  # what the keyboard, and whoever listens to a page, need besides
_THEMES = {"auto": (None, "brightness_auto"), "light": (False, "light_mode"), "dark": (True, "dark_mode")}


@dataclass(frozen=True, slots=True)
class Pane:
    path: str
    title: str
    icon: str
    about: str
    build: Callable[[ConsoleSession], object]


@contextmanager
def frame(pane: Pane, panes: Sequence[Pane], session: ConsoleSession, theme: str, shared: bool) -> Iterator[None]:
    scripts = "".join(f'<script defer src="/style/{name}.js"></script>' for name in _SCRIPTS)
    ui.add_head_html(f'<link rel="stylesheet" href="/style/console.css">{scripts}')
    ui.colors(primary="#0b6e99")
    dark = ui.dark_mode(_THEMES.get(theme, _THEMES["auto"])[0])
    drawer = ui.left_drawer(value=False).classes("t-drawer").props("show-if-above width=220 breakpoint=1023")
    with drawer, ui.element("nav").props('aria-label="Panes"'):
        for one in panes:
            _nav_item(one, current=one is pane)
    with ui.header().classes("t-header row items-center q-py-sm q-px-md no-wrap"):
        ui.button(icon="menu", on_click=drawer.toggle).props('flat round dense aria-label="Panes"')
        ui.label("Tidings").classes("text-weight-bold text-subtitle1")
        status = ui.label().classes("t-faint ellipsis").props("role=status")
        ui.space()
        _theme_button(dark, theme)
        if not shared:
            ui.label(session.user).classes("t-faint ellipsis gt-xs")
            with ui.element("form").props("method=post action=/logout"):
                ui.button(icon="logout").props('flat round dense type=submit aria-label="Log out"')
    with ui.element("div").classes("t-main") as main:  # inside the page's main element
        with ui.element("div"):
            heading(pane.title, "h1")
            faint(pane.about)
        every(1.0, lambda: _tell_status(status, session))
        yield
    ui.skip_link("Skip to the pane", target=main)


def _nav_item(pane: Pane, *, current: bool) -> None:
    with ui.item().props(f'tag=a role=link href="{pane.path}" clickable') as item:
        if current:
            item.props("aria-current=page")
        with ui.item_section().props("avatar").style("min-width: 36px"):
            ui.icon(pane.icon, size="20px").props("aria-hidden=true")
        with ui.item_section():
            ui.item_label(pane.title)


def _theme_button(dark: ui.dark_mode, theme: str) -> None:
    names = list(_THEMES)
    now = [theme if theme in _THEMES else "auto"]

    def turn() -> None:
        now[0] = names[(names.index(now[0]) + 1) % len(names)]
        value, icon = _THEMES[now[0]]
        dark.set_value(value)
        button.props(f'icon={icon} aria-label="Theme: {now[0]}"')
        ui.run_javascript(f"document.cookie='{THEME_COOKIE}={now[0]}; path=/; max-age=31536000; samesite=lax'")

    icon = _THEMES[now[0]][1]
    button = ui.button(icon=icon, on_click=turn).props(f'flat round dense aria-label="Theme: {now[0]}"')


def _tell_status(label: ui.label, session: ConsoleSession) -> None:
    if session.ended:
        ui.navigate.to(LOGIN_PATH)
        return
    session.used_at = time.monotonic()  # an open page asks for nothing, and yet somebody looks at it
    label.text = status_text(session.watch)


def status_text(watch: BrokerWatch) -> str:
    """Names the brokers that answer if they are few, and those that do not."""
    if not watch.rounds:
        return "asking the brokers …"
    watched = watch.view.watched
    silent = [
        label_of(watch, one.url)
        for one in watch.sources
        if one.url not in watched or watched[one.url].state is not BrokerState.UP
    ]
    names = [watched[one.url].name for one in watch.sources if one.url in watched]
    if silent:
        others = f" and {len(silent) - NAMED_MAX} more" if len(silent) > NAMED_MAX else ""
        answers = len(watch.sources) - len(silent)
        return f"no answer from {', '.join(silent[:NAMED_MAX])}{others}" + (f"; {answers} answer" if answers else "")
    return f"connected to {', '.join(names)}" if len(names) <= NAMED_MAX else f"connected to {len(names)} brokers"
