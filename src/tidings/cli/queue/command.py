"""`tidings queue`: lists, creates, browses, purges, moves and deletes queues."""

from typing import Annotated, Any

import typer

from tidings.cli.json_text import found_json
from tidings.cli.queue.management import Json, ManagementAccess, ManagementClient, manages

group = typer.Typer(no_args_is_help=True, help="List, create, browse, purge, move and delete queues.")
Name = Annotated[str, typer.Argument(help="The queue's name, with or without `queue:`.")]
Tags = Annotated[list[int] | None, typer.Option("--tag", help="Only the message with this tag; may be repeated.")]


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="queue")


@group.command("list")
@manages
def list_queues(
    containing: Annotated[str, typer.Option(help="Only those with this text in their name.")] = "",
    json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """List queues, the fullest first. Needs the right to monitor or manage all topics.

    Example: tidings queue list --containing orders --json
    """
    found = list(access.open().all("queues", containing))
    if json:
        typer.echo(found_json(found))
        return
    for one in found:
        typer.echo(_line(one))


@group.command()
@manages
def show(name: Name, json: Json = False, *, access: ManagementAccess) -> None:
    """Show the state of a queue. Needs the right to monitor or manage all topics.

    Example: tidings queue show orders
    """
    found = access.open().ask("GET", "queues", name)
    typer.echo(found_json(found) if json else _line(found))


@group.command()
@manages
def create(name: Name, json: Json = False, *, access: ManagementAccess) -> None:
    """Create a queue unless it exists. Needs the right to manage it.

    Example: tidings queue create orders
    """
    found = access.open().ask("POST", "queues", body={"name": name})
    verb = "created" if found["created"] else "exists already:"
    typer.echo(found_json(found) if json else f"{verb} {found['queue']}")


@group.command()
@manages
def browse(
    name: Name,
    selector: Annotated[str, typer.Option(help="Only messages that match this selector.")] = "",
    count: Annotated[int, typer.Option(min=1, help="Stop after this number of messages.")] = 100,
    json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """Print waiting messages without consuming them, one per line with its tag. Needs the right to browse the queue.

    Example: tidings queue browse orders --selector "total > 100"
    """
    client, after, left, more = access.open(), "", count, True
    while more and left > 0:
        query = {"limit": min(left, 256), "selector": selector, "after": after}
        page = client.ask("GET", "queues", name, "messages", query=query)
        for one in page["items"]:
            typer.echo(found_json(one) if json else _message(one))
        left, after, more = left - len(page["items"]), page["next"], page["more"]


@group.command()
@manages
def purge(name: Name, tag: Tags = None, json: Json = False, *, access: ManagementAccess) -> None:
    """Delete waiting messages: all, or those with the given tags. Needs the right to manage the queue.

    Example: tidings queue purge orders
    """
    _count(access.open(), json, "purged", name, "purge", {"messages": tag or []})


@group.command()
@manages
def move(
    name: Name,
    target: Annotated[str, typer.Argument(help="The queue to move the messages to.")],
    tag: Tags = None,
    json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """Move waiting messages to another queue. Needs the right to manage the queue and to publish to the other one.

    Example: tidings queue move dead-letters orders
    """
    body = {"target": target, "messages": tag or []}
    _count(access.open(), json, "moved", name, "move", body)


@group.command()
@manages
def delete(
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="With its messages; connections of its consumers are closed.")
    ] = False,
    json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """Delete a queue without consumers and messages. Needs the right to manage it.

    Example: tidings queue delete orders --force
    """
    query = {"force": str(force).lower()}
    found = access.open().ask("DELETE", "queues", name, query=query)
    typer.echo(found_json(found) if json else f"deleted {found['queue']} with {found['count']} messages")


def _count(client: ManagementClient, json: bool, verb: str, name: str, action: str, body: dict[str, Any]) -> None:
    found = client.ask("POST", "queues", name, action, body=body)
    typer.echo(found_json(found) if json else f"{verb} {found['count']} messages")


def _line(queue: dict[str, Any]) -> str:
    stalled = ", stalled" if queue["stalled"] else ""
    resting = f" ({queue['resting']} until their delay is over)" if queue["resting"] else ""
    waiting = f"{queue['waiting']} waiting{resting}, {queue['unacknowledged']} unacknowledged"
    only = "" if queue["active_connection"] is None else f" (only connection {queue['active_connection']} is served)"
    counts = f"{waiting}, {queue['consumers']} consumers{only}{stalled}{_home(queue)}"
    return f"{queue['name']}: {counts}{_policy(queue['policy'])}"


def _home(queue: dict[str, Any]) -> str:
    """Of a queue of the network: the broker that keeps it, and consumers at others."""
    if not queue.get("home"):
        return ""
    elsewhere = "".join(f", {count} at broker {broker}" for broker, count in queue["remote_consumers"].items())
    return f"; kept by broker {queue['home']}{elsewhere}"


def _policy(policy: dict[str, Any] | None) -> str:
    """The limits of a queue and what did not fit."""
    if policy is None:
        return ""
    limits = [
        f"{policy[name]} {what}"
        for name, what in (("messages_max", "messages"), ("bytes_max", "bytes"))
        if policy[name]
    ]
    backoff = f", redelivery after {_backoff(policy)}" if policy["redelivery_first_ms"] else ""
    if not limits:
        return f", policy {policy['destination']}{backoff}"
    overflowed = f", {policy['overflowed']} did not fit" if policy["overflowed"] else ""
    return f", at most {' or '.join(limits)} ({policy['overflow']}){overflowed}{backoff}"


def _backoff(policy: dict[str, Any]) -> str:
    most = f" up to {policy['redelivery_most_ms']} ms" if policy["redelivery_most_ms"] else ""
    return f"{policy['redelivery_first_ms']} ms, times {policy['redelivery_factor']:g}{most}"


def _message(one: dict[str, Any]) -> str:
    properties = " ".join(f"{name}={value!r}" for name, value in one["properties"].items())
    body = "".join(letter if letter.isprintable() else " " for letter in one["body"])
    return " ".join(part for part in (f"[{one['tag']}]", properties, body) if part)
