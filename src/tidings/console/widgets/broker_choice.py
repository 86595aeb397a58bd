"""Selects the broker that a page shows.

Every page has a choice of its own, which nothing but its own select changes: what somebody else chooses, or the same
person in another tab, must not lead what is done here to another broker. The session only remembers the latest choice,
with which the next page begins unless the link that led there `wanted` another.
"""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from tidings.console.sessions import ConsoleSession
from tidings.console.source import Source
from tidings.console.widgets.parts import label_of


class BrokerChoice:
    def __init__(self, session: ConsoleSession, wanted: str = "") -> None:
        self._session = session
        urls = [one.url for one in session.watch.sources]
        latest = str(session.chosen.get("broker", ""))
        self.url = next(one for one in (wanted, latest, urls[0]) if one in urls)

    @property
    def source(self) -> Source:
        return self._session.watch.source(self.url)

    @property
    def of_several(self) -> bool:
        return len(self._session.watch.sources) > 1

    def select(self, on_change: Callable[[], Any]) -> ui.select:
        """Brokers by their addresses."""
        watch = self._session.watch

        def changed(event: Any) -> Any:
            self.url = self._session.chosen["broker"] = event.value
            return on_change()

        options = {one.url: label_of(watch, one.url) for one in watch.sources}
        made = ui.select(options, value=self.url, label="Broker", on_change=changed)
        made.props("outlined dense options-dense")
        made.set_visibility(self.of_several)
        return made
