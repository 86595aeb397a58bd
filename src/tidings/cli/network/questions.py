"""`tidings net explain` and `list`: questions to brokers that run."""

from enum import Enum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from tidings.cli.json_text import found_json
from tidings.cli.queue.management import Json, ManagementAccess, manages
from tidings.cli.tables import table_of


class Listed(Enum):
    ROUTES = "routes"
    INTERESTS = "interests"
    COVERING = "covering"


def register(to: typer.Typer) -> None:
    to.command()(manages(explain))
    to.command("list")(manages(list_tables))


def explain(
    destination: Annotated[str, typer.Argument(help="The topic of the message.")],
    attributes: Annotated[str, typer.Option(help="Its attributes, a JSON object.")] = "{}",
    selector: Annotated[
        str | None, typer.Option(help="Instead of a message, explain a subscription with this selector.")
    ] = None,
    as_json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """Explain to which brokers a message that is published at a running broker would be sent, and why.

    Example: tidings net explain ticks.xyz --attributes '{"price": 50}' --url http://127.0.0.1:8700
    """
    client = access.open()
    if selector is None:
        found = client.ask("GET", "network", "explain", query={"destination": destination, "attributes": attributes})
    else:
        found = client.ask(
            "GET", "network", "explain", "selector", query={"destination": destination, "selector": selector}
        )
    if as_json:
        typer.echo(found_json(found))
    elif not found:
        typer.echo("this broker has no network: the message stays here")
    elif selector is None:
        _show_message(found)
    else:
        _show_selector(found)


def _show_message(found: dict[str, Any]) -> None:
    for one in found["destinations"]:
        way = "without a route" if one["fate"] == "no_route" else f"by broker {one['next_hop']}"
        typer.echo(f"to broker {one['router']}, {way}, because it asks for: {'; '.join(one['because']) or 'not shown'}")
    if found["stops"]:
        typer.echo("nobody at this broker has advertised it: it reaches subscribers of this broker only")
    others = ", ".join(map(str, found["others"])) or "none"
    typer.echo(f"brokers that {'do not get' if found['stops'] else 'do not want'} it: {others}")
    if not found["synchronised"]:
        typer.echo("the interests of the network are not known yet: a persistent message waits for them")


def _show_selector(found: dict[str, Any]) -> None:
    cost = found["cost"]
    typer.echo(f"{found['filter']}: {cost['subscriptions']} subscriptions at this broker")
    match cost["form"]:
        case "here":
            typer.echo("other brokers are not told of it")
        case "exact":
            typer.echo(f"advertised by its exact filter, {cost['exact_bytes']} bytes")
        case form:
            what = "ask for every message" if form == "everything" else "let more through than the filter"
            rows = f"{cost['rows']} rows of {cost['row_bytes']} bytes, which {what}"
            typer.echo(f"advertised by {rows}; its exact filter has {cost['exact_bytes']} bytes")
    for one in found["like_it"]:
        typer.echo(f"broker {one['router']} asks for some of it: {'; '.join(one['because'])}")


_COLUMNS = {
    Listed.ROUTES: ("router", "next_hop", "distance", "interests"),
    Listed.INTERESTS: ("subscriptions", "form", "rows", "row_bytes", "exact_bytes", "in_vain", "filter"),
    Listed.COVERING: ("table", "neighbour", "id", "filter"),
}


def list_tables(
    what: Annotated[Listed, typer.Argument(help="Routes, own interests by cost, or tables of covering.")],
    limit: Annotated[int, typer.Option(min=1, max=200, help="At most this many.")] = 50,
    offset: Annotated[int, typer.Option(min=0, help="Skip this many.")] = 0,
    containing: Annotated[str, typer.Option(help="Only those that contain this text.")] = "",
    as_json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """List what a running broker knows of its network.

    Example: tidings net list interests --limit 10 --url http://127.0.0.1:8700
    """
    query = {"limit": str(limit), "offset": str(offset), "containing": containing}
    found = access.open().ask("GET", "network", what.value, query=query)
    if as_json:
        typer.echo(found_json(found))
        return
    columns = _COLUMNS[what]
    table = table_of(*columns)
    for one in found["items"]:
        table.add_row(*(_text(one[name]) for name in columns))
    Console().print(table)
    typer.echo(f"{len(found['items'])} of {found['total']}")


def _text(value: Any) -> str:
    return "-" if value is None else escape(str(value))
