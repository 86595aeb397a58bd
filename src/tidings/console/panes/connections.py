"""Who is connected, and who does not keep up."""

from datetime import UTC, datetime
from typing import Any

from tidings.console.frame import Pane
from tidings.console.listing import Listing
from tidings.console.parts import card, count_text
from tidings.console.sessions import Session


def _build(session: Session) -> None:
    columns = {
        "slow": "",
        "user": "User",
        "client": "Client",
        "address": "Address",
        "protocol": "Protocol",
        "subscriptions": "Subscriptions",
        "waiting": "Waiting bytes",
        "since": "Since",
    }
    with card("Connections", "Those that most waits for come first; a slow one has a quarter of its limit waiting."):
        Listing(
            session,
            "connections",
            columns,
            _row,
            key="connection",
            label="Connections",
            numbers=("subscriptions", "waiting"),
            nothing="Nobody is connected.",
        )


def _row(item: dict[str, Any]) -> dict[str, Any]:
    since = datetime.fromtimestamp(item["since_ms"] / 1000, UTC).astimezone()
    return {
        "slow": "⚠ slow" if item["slow"] else "ok",
        "user": item["user"] or "(logging in)",
        "client": item["client"],
        "address": item["address"],
        "protocol": item["protocol"],
        "subscriptions": count_text(item["subscriptions"]),
        "waiting": count_text(item["waiting_bytes"]),
        "since": since.strftime("%Y-%m-%d %H:%M"),
    }


PANE = Pane("/connections", "Connections", "devices", "Clients, and who does not keep up.", _build)
