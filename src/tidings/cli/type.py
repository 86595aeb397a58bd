"""`tidings type`: manages event types, which declare attributes and inherit from other types."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from tidings.cli import connecting
from tidings.cli.json_text import found_json
from tidings.client import Client
from tidings.errors import UsageError
from tidings.model.event_type import EventType, TypeTree
from tidings.model.event_type_json import event_type_of, shown, type_to_object

T = TypeVar("T")
group = typer.Typer(no_args_is_help=True, help="Add, remove and show event types.")
Name = Annotated[str, typer.Argument(help="The type's name.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="type")


@group.command()
@connecting.connects()
def add(
    name: Name,
    attribute: Annotated[
        list[str] | None,
        typer.Argument(
            help="Its own attributes, name:type; bool, int, float, string, bytes or time; with ? after it if optional."
        ),
    ] = None,
    parent: Annotated[str, typer.Option(help="The type whose attributes it inherits.")] = "",
    *,
    access: connecting.ClientAccess,
) -> None:
    """Add an event type, or optional attributes to one that is there.

    Example: tidings type add Sale buyer:string --parent Trade
    """
    added = event_type_of(name, parent or None, dict(map(_attribute, attribute or ())))
    client = access.client(reconnect=False)
    _ask(client, lambda: client.add_type(added))
    typer.echo(f"added {name}")


@group.command()
@connecting.connects()
def remove(
    name: Name,
    *,
    access: connecting.ClientAccess,
) -> None:
    """Remove an event type without subtypes, subscribers and advertisements.

    Example: tidings type remove Sale
    """
    client = access.client(reconnect=False)
    _ask(client, lambda: client.remove_type(name))
    typer.echo(f"removed {name}")


@group.command("list")
@connecting.connects()
def list_types(
    json: Json = False,
    *,
    access: connecting.ClientAccess,
) -> None:
    """List the event types that this broker knows; other brokers of a network may know more.

    Example: tidings type list
    """
    client = access.client(reconnect=False)
    types = _ask(client, client.types)
    if json:
        typer.echo(found_json([type_to_object(one) for one in types]))
        return
    for one in types:
        typer.echo(_line(one))


@group.command()
@connecting.connects()
def show(
    name: Name,
    json: Json = False,
    *,
    access: connecting.ClientAccess,
) -> None:
    """Show an event type with all its attributes, inherited ones first.

    Example: tidings type show Sale --json
    """
    client = access.client(reconnect=False)
    chain = _ask(client, lambda: client.get_type(name))
    tree = TypeTree(chain)
    attributes = {one: shown(kind, optional=one in tree.optional(name)) for one, kind in tree.attributes(name).items()}
    ancestors = [one.name for one in chain[:-1]]
    if json:
        version = tree[name].version
        typer.echo(found_json({"name": name, "ancestors": ancestors, "attributes": attributes, "version": version}))
        return
    typer.echo(" > ".join([*ancestors, name]))
    for attribute, kind in attributes.items():
        typer.echo(f"  {attribute}: {kind}")


def _line(one: EventType) -> str:
    kinds = ((name, shown(kind, optional=name in one.optional)) for name, kind in one.attributes.items())
    attributes = " ".join(f"{name}:{kind}" for name, kind in kinds)
    return " ".join(part for part in (one.name, f"({one.parent})" if one.parent else "", attributes) if part)


def _attribute(text: str) -> tuple[str, str]:
    """
    >>> _attribute("price:float")
    ('price', 'float')
    """
    name, colon, kind = text.rpartition(":")
    if not name or not colon:
        raise UsageError("E_TYPE_ATTRIBUTE", f"write name:type, as in price:float, not {text!r}")
    return name, kind


def _ask(client: Client, ask: Callable[[], Awaitable[T]]) -> T:
    async def work() -> T:
        async with client:
            return await ask()

    return connecting.run(work())
