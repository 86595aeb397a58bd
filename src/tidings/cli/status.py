"""`tidings status`: shows the state of a broker."""

import typer

from tidings.cli.json_text import found_json
from tidings.cli.queue.management import Json, ManagementAccess, manages


def register(app: typer.Typer) -> None:
    app.command()(status)


@manages
def status(json: Json = False, *, access: ManagementAccess) -> None:
    """Show the state of a broker. Needs the right to monitor or manage all topics.

    Example: tidings status --url http://127.0.0.1:8700 --json
    """
    found = access.open().ask("GET", "status")
    if json:
        typer.echo(found_json(found))
        return
    broker, plane = found["broker"], found["plane"]
    state = "ready" if broker["ready"] else "not ready"
    typer.echo(f"{broker['name']} (id {broker['id']}), version {found['version']}: {state}")
    typer.echo(f"{found['connections']} connections, {found['filters']} filters, {found['mailboxes']} mailboxes")
    typer.echo(f"{plane['received']} messages received, {plane['delivered']} delivered, {found['waiting']} waiting")
    typer.echo(f"{sum(found['dropped'].values())} dropped, {found['expired']} expired, {found['dead']} dead letters")
    if network := found["network"]:
        down = ", ".join(map(str, found["links_down"]))
        typer.echo(f"network {network['network']}: {len(network['links'])} links" + (f"; down: {down}" if down else ""))
