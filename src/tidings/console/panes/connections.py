"""Connected clients, slow ones marked."""

from datetime import UTC, datetime
from typing import Any

from tidings.console.layout import Pane
from tidings.console.sessions import ConsoleSession
from tidings.console.widgets.broker_choice import BrokerChoice
from tidings.console.widgets.paged_list import PagedList
from tidings.console.widgets.parts import bytes_text, card, count_text


def _build(session: ConsoleSession) -> None:
    columns = {
        "slow": "State",
        "user": "User",
        "client": "Client",
        "address": "Address",
        "protocol": "Protocol",
        "subscriptions": "Subscriptions",
        "waiting": "Waiting",
        "since": "Since",
    }
    about = "Most waiting first. Slow: a quarter of what may wait for it does, or one of its subscriptions has stalled."
    with card("Connections", about, alone=True):
        PagedList(
            BrokerChoice(session),
            "connections",
            columns,
            _row,
            key="connection",
            label="Connections",
            numbers=("subscriptions", "waiting"),
            roomy=("address", "protocol", "since"),
            nothing="Nobody is connected.",
        )


def _row(item: dict[str, Any]) -> dict[str, Any]:
    since = datetime.fromtimestamp(item["since_ms"] / 1000, UTC).astimezone()
    return {
        "slow": "⚠ slow" if item["slow"] else "ok",
        "user": item["user"] or "(logging in)",
        "client": item["client"] or "–",
        "address": item["address"],
        "protocol": item["protocol"],
        "subscriptions": count_text(item["subscriptions"]),
        "waiting": bytes_text(item["waiting_bytes"]),
        "since": since.strftime("%Y-%m-%d %H:%M:%S"),
    }


PANE = Pane("/connections", "Connections", "devices", "Clients, and who does not keep up.", _build)
