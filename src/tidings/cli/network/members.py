"""`tidings net add`, `remove`, `drain`, `forget`, `release`: changes at brokers that run."""

import time
from typing import Annotated, Any

import typer

from tidings.cli.json_text import found_json
from tidings.cli.queue.management import Json, ManagementAccess, ManagementClient, manages
from tidings.errors import ConnectionLostError, TidingsError

LOOK_SECONDS = 0.3
MORE_SECONDS = 10.0  # than the broker was given, until it counts as stuck


def register(to: typer.Typer) -> None:
    for command in (add, remove, drain, forget, release):
        to.command()(manages(command))


def add(
    address: Annotated[str, typer.Argument(help="host:port of the other broker's links.")],
    broker: Annotated[int, typer.Option(min=0, help="Its id; 0: any broker that answers there.")] = 0,
    certificate_name: Annotated[str, typer.Option(help="Common name of its certificate.")] = "",
    cost: Annotated[int, typer.Option(min=0, help="Cost of the link; 0: its latency.")] = 0,
    as_json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """Let a running broker dial another one, from now on and after restarts.

    Example: tidings net add 10.0.0.7:7301 --broker 7 --url http://127.0.0.1:8700
    """
    peer = {"address": address, "router": broker, "certificate_name": certificate_name, "cost": cost}
    found = access.open().ask("POST", "network", "peers", body=peer)
    typer.echo(found_json(found) if as_json else f"{address} is a peer now")


def remove(
    peer: Annotated[str, typer.Argument(help="Address or id of the peer.")],
    as_json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """Let a running broker no longer dial a peer, from now on and after restarts.

    Example: tidings net remove 7 --url http://127.0.0.1:8700
    """
    found = access.open().ask("DELETE", "network", "peers", peer, body={})
    typer.echo(
        found_json(found) if as_json else f"{peer} is no longer a peer; if it dials this broker, remove that there"
    )


def drain(
    seconds: Annotated[int, typer.Option(min=1, max=3600, help="At most this long.")] = 30,
    as_json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """Take a running broker out of its network: it ends when its clients have moved and nothing is in transit.

    Example: tidings net drain --url http://127.0.0.1:8700
    """
    client = access.open()
    found = client.ask("POST", "network", "leaving", body={"seconds": seconds})
    deadline = time.monotonic() + seconds + MORE_SECONDS
    while not found["left"]:
        if time.monotonic() > deadline:
            raise TidingsError("E_NET_DRAIN", f"the broker has not left yet: {found['phase']}; see its log")
        time.sleep(LOOK_SECONDS)
        found = _now(client)
    if as_json:
        typer.echo(found_json(found))
        return
    typer.echo(
        f"{found['moved']} clients were asked to move; {found['in_transit']} messages for others remain in transit"
    )
    typer.echo(f"{found['waiting']} messages wait in its queues and durable subscriptions")
    for one in found["mailboxes"]:
        typer.echo(f"  {one['name']}: {one['waiting']}")


def _now(client: ManagementClient) -> dict[str, Any]:
    try:
        return client.ask("GET", "network", "leaving")
    except ConnectionLostError:
        raise TidingsError("E_NET_DRAIN", "the broker has ended before it said what remains; see its log") from None


def forget(
    broker: Annotated[int, typer.Argument(help="Id of the broker that was removed for good.")],
    queue: Annotated[str, typer.Option(help="Move what waits for it to this queue; empty: drop it.")] = "",
    as_json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """Make a running broker forget another one that was removed for good, and move or drop what waits for it there.

    Example: tidings net forget 7 --queue queue:left-by-7 --url http://127.0.0.1:8700
    """
    found = access.open().ask("DELETE", "network", "brokers", str(broker), query={"queue": queue}, body={})
    if as_json:
        typer.echo(found_json(found))
    elif queue:
        typer.echo(f"broker {broker} is forgotten; {found['moved']} persistent messages for it are moved to {queue}")
    else:
        typer.echo(f"broker {broker} is forgotten; {found['dropped']} persistent messages for it are dropped")


def release(
    as_json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """Make a running broker whose store was replaced give the messages it holds to its subscribers.

    Call it when all durable subscriptions are there again: what matches none of them is lost.

    Example: tidings net release --url http://127.0.0.1:8700
    """
    found = access.open().ask("POST", "network", "held", "release", body={})
    if as_json:
        typer.echo(found_json(found))
    else:
        typer.echo(f"{found['released']} held messages go to subscribers, marked as redelivered")
