"""Connected clients, slow ones marked; a chosen one can be closed."""

from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from tidings.console.layout import Pane
from tidings.console.sessions import ConsoleSession
from tidings.console.source import Source
from tidings.console.widgets.broker_choice import BrokerChoice
from tidings.console.widgets.paged_list import PagedList
from tidings.console.widgets.parts import ConfirmQuestion, bytes_text, card, count_text, tell
from tidings.errors import TidingsError


class ConnectionsPane:
    def __init__(self, session: ConsoleSession) -> None:
        self._choice = BrokerChoice(session)
        self._sure = ConfirmQuestion("Close it", "Leave it", "Its client may connect again.")
        columns = {
            "client": "Client",
            "slow": "State",
            "user": "User",
            "address": "Address",
            "protocol": "Protocol",
            "subscriptions": "Subscriptions",
            "waiting": "Waiting",
            "since": "Since",
        }
        about = (
            "Most waiting first. Slow: a quarter of what may wait for it does, or a subscription has stalled. "
            "Choose one to close it."
        )
        with card("Connections", about, alone=True):
            self._list = PagedList(
                self._choice,
                "connections",
                columns,
                _row,
                key="connection",
                label="Connections",
                numbers=("subscriptions", "waiting"),
                roomy=("address", "protocol", "since"),
                nothing="Nobody is connected.",
                on_pick=self._pick,
            )

    def _pick(self, item: dict[str, Any]) -> None:
        source, name = self._choice.source, item["client"] or item["user"] or "a client"
        self._sure.ask(f"Close the connection of {name} ({item['address']})?", lambda: self._close(source, item))

    async def _close(self, source: Source, item: dict[str, Any]) -> None:
        try:
            await (await source.client()).end_connection(item["connection"])
        except (TidingsError, OSError) as error:
            tell(error)
            return
        ui.notify("closed", position="top")
        await self._list.show()


def _row(item: dict[str, Any]) -> dict[str, Any]:
    since = datetime.fromtimestamp(item["since_ms"] / 1000, UTC).astimezone()
    return {
        "slow": "⚠ slow" if item["slow"] else "ok",
        "user": item["user"] or "(logging in)",
        "client": item["client"] or f"connection {item['connection']}",
        "address": item["address"],
        "protocol": item["protocol"],
        "subscriptions": count_text(item["subscriptions"]),
        "waiting": bytes_text(item["waiting_bytes"]),
        "since": since.strftime("%Y-%m-%d %H:%M:%S"),
    }


PANE = Pane("/connections", "Connections", "devices", "Clients, and who does not keep up.", ConnectionsPane)
