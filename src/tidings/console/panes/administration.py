"""Policies of queues, users, access rules and quotas, as the broker has them: shown, not edited."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from tidings.console.layout import Pane
from tidings.console.sessions import ConsoleSession
from tidings.console.widgets.broker_choice import BrokerChoice
from tidings.console.widgets.paged_list import PagedList
from tidings.console.widgets.parts import bytes_text, card, count_text, policy_text

Row = dict[str, Any]


def _build(session: ConsoleSession) -> None:
    with ui.element("div").classes("t-columns"):
        with card("Policies of queues", "The first that matches a queue holds."):
            columns = {"number": "No.", "destination": "Queues", "queues": "Now", "rule": "Policy"}
            nothing = "No policy: queues have no limit but the disk. [[policies]] of the configuration sets some."
            _list(
                session,
                "policies",
                columns,
                _policy,
                key="number",
                label="Policies",
                nothing=nothing,
                numbers=("number", "queues"),
            )
        with card("Access rules", "The first that matches decides; without a match the answer is no."):
            columns = {"number": "No.", "who": "Who", "may": "May", "destination": "Destination", "selector": "Only"}
            nothing = "No rules. As long as there are no users either, every client has full access."
            _list(
                session,
                "access",
                columns,
                _rule,
                key="number",
                label="Access rules",
                nothing=nothing,
                numbers=("number",),
            )
        with ui.element("div").classes("t-columns even"):
            with card("Users"):
                columns = {"name": "Name", "groups": "Groups", "login": "Logs in by"}
                nothing = "No users: every client has full access. `tidings user add` makes one."
                _list(session, "users", columns, _user, key="name", label="Users", nothing=nothing)
            with card("Quotas in use", "Of users that are connected or have queues."):
                columns = {
                    "user": "User",
                    "connections": "Connections",
                    "queues": "Queues",
                    "stored": "Stored",
                    "rates": "Rates",
                }
                nothing = "No user has a quota. [[quotas]] of the configuration sets some."
                _list(session, "quotas", columns, _quota, key="user", label="Quotas", nothing=nothing, roomy=("rates",))


def _list(
    session: ConsoleSession,
    part: str,
    columns: dict[str, str],
    row: Callable[[Row], Row],
    *,
    key: str,
    label: str,
    nothing: str,
    numbers: tuple[str, ...] = (),
    roomy: tuple[str, ...] = (),
) -> None:
    choice = BrokerChoice(session)
    PagedList(
        choice, part, columns, row, key=key, label=label, nothing=nothing, numbers=numbers, roomy=roomy, seconds=5.0
    )


def _policy(item: Row) -> Row:
    return {"destination": item["destination"], "queues": item["queues"], "rule": policy_text(item)}


def _rule(item: Row) -> Row:
    everybody = "everybody" if item["user"] == "*" else f"user {item['user']}"
    return {
        "who": f"group {item['group']}" if item["group"] else everybody,
        "may": ("" if item["allow"] else "not: ") + ", ".join(item["operations"]),
        "destination": item["destination"],
        "selector": item["selector"],
    }


def _user(item: Row) -> Row:
    login = "password or certificate" if item["password"] else "certificate only"
    return {"groups": ", ".join(item["groups"]) or "–", "login": login}


def _quota(item: Row) -> Row:
    quota = item["quota"]

    def of(name: str, text: Callable[[float], str]) -> str:
        return f"{text(item[name])} of {text(quota[name])}" if quota[name] else text(item[name])

    rates = [
        f"{text(quota[name])}/s"
        for name, text in (("messages_per_second", count_text), ("bytes_per_second", bytes_text))
        if quota[name]
    ]
    waits = [f"waited {item['waits']} times"] if item["waits"] else []
    return {
        "connections": of("connections", count_text),
        "queues": of("queues", count_text),
        "stored": of("stored_bytes", bytes_text),
        "rates": ", ".join(rates + waits) or "no limit",
    }


PANE = Pane("/administration", "Administration", "policy", "Policies, users, access rules and quotas.", _build)
