"""`tidings durable`: lists and removes durable subscriptions of all users."""

from typing import Annotated, Any

import typer

from tidings.cli import connecting
from tidings.cli.json_text import found_json
from tidings.client import Client
from tidings.node.clients.subscription_plan import durable_parts

group = typer.Typer(no_args_is_help=True, help="List and remove durable subscriptions of all users.")
PAGE = 200


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="durable")


@group.command("list")
@connecting.connects()
def list_durable(
    of: Annotated[str, typer.Option(help="Only those of this user.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    *,
    access: connecting.ClientAccess,
) -> None:
    """Durable subscriptions by owner (user/client id) and name. Needs the right to manage all topics.

    Example: tidings durable list --of alice
    """
    found = connecting.run(_found(access.client(reconnect=False), of))
    if json:
        typer.echo(found_json(found))
        return
    for one in found:
        typer.echo(f"{one['owner']} {one['name']}: {one['waiting']} waiting, {one['subscribers']} subscribers")


@group.command()
@connecting.connects()
def remove(
    owner: Annotated[str, typer.Argument(help="The owner, as the list shows it.")],
    name: Annotated[str, typer.Argument(help="Its name.")],
    *,
    access: connecting.ClientAccess,
) -> None:
    """Remove a durable subscription without a subscriber, and the messages that wait for it.

    Example: tidings durable remove alice/desk-7 audit
    """

    async def work() -> None:
        async with access.client(reconnect=False) as client:
            await client.forget(name, owner=owner)

    connecting.run(work())
    typer.echo(f"removed {name} of {owner}")


async def _found(client: Client, user: str) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}  # by name: they may change places meanwhile
    seen, total = 0, 1
    async with client:
        while seen < total:
            page = await client.inspect("mailboxes", offset=seen, count=PAGE, containing=f"durable:{user}")
            found |= {one["name"]: one for one in page["items"]}
            seen, total = seen + max(1, len(page["items"])), page["total"]
    told = [_told(one) for one in found.values() if one["kind"] == "durable"]
    told = [one for one in told if not user or one["owner"].startswith(f"{user}/")]
    return sorted(told, key=lambda one: (one["owner"], one["name"]))


def _told(mailbox: dict[str, Any]) -> dict[str, Any]:
    owner, name = durable_parts(mailbox["name"])
    return {"owner": owner, "name": name, "waiting": mailbox["waiting"], "subscribers": mailbox["consumers"]}
