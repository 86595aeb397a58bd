"""`tidings connection`: lists and closes client connections."""

from typing import Annotated

import typer

from tidings.cli.json_text import found_json
from tidings.cli.queue.management import Json, ManagementAccess, manages

group = typer.Typer(no_args_is_help=True, help="List and close client connections.")


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="connection")


@group.command("list")
@manages
def list_connections(
    containing: Annotated[str, typer.Option(help="Only those with this text in address, user or client id.")] = "",
    json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """List client connections. Needs the right to monitor or manage all topics.

    Example: tidings connection list --containing alice
    """
    found = list(access.open().all("connections", containing))
    if json:
        typer.echo(found_json(found))
        return
    for one in found:
        name = "/".join(part for part in (one["user"], one["client"]) if part) or "anonymous"
        slow = ", slow" if one["slow"] else ""
        counts = f"{one['subscriptions']} subscriptions, {one['waiting_bytes']} bytes waiting{slow}"
        typer.echo(f"{one['connection']} {one['address']} {one['protocol']} {name}: {counts}")


@group.command()
@manages
def close(
    number: Annotated[int, typer.Argument(min=0, max=(1 << 32) - 1, help="Its number, as the list shows it.")],
    *,
    access: ManagementAccess,
) -> None:
    """Close a client connection. Needs the right to manage all topics.

    Example: tidings connection close 17
    """
    access.open().ask("DELETE", "connections", str(number))
    typer.echo(f"closed connection {number}")
