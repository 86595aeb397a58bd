"""`tidings sub`: subscribe, and write what arrives."""

import asyncio
import os
import signal
import sys
from typing import Annotated, Any

import typer

from tidings.cli import connecting
from tidings.cli.failures import show_selector
from tidings.cli.jsonl import to_json
from tidings.cli.rates import Rates
from tidings.client import Client, Delivery, Subscription
from tidings.errors import ConnectionLostError, SelectorError
from tidings.model.destination import DestinationPattern
from tidings.model.selector import Selector


def register(app: typer.Typer) -> None:
    app.command()(sub)


def sub(
    destination: Annotated[str, typer.Argument(help="A topic pattern such as ticks.>, or queue:NAME.")],
    selector: Annotated[str, typer.Option(help="Only messages for which this is true.")] = "",
    durable: Annotated[str, typer.Option(help="The broker keeps messages under this name while you are away.")] = "",
    shared: Annotated[str, typer.Option(help="Messages are divided among all who give this name.")] = "",
    client_id: Annotated[str, typer.Option(help="Whose durable subscription it is.")] = "",
    count: Annotated[int, typer.Option(min=0, help="Stop after so many messages; 0: never.")] = 0,
    timeout: Annotated[float, typer.Option(min=0, help="Stop after so many seconds without a message.")] = 0,
    stats: Annotated[bool, typer.Option("--stats", help="Tell the rate on the error output.")] = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object for each message.")] = False,
    url: connecting.Url = connecting.DEFAULT_URL,
    user: connecting.User = "",
    password_file: connecting.PasswordFile = None,
    tls_ca: connecting.TlsCa = None,
    tls_certificate: connecting.TlsCertificate = None,
    tls_key: connecting.TlsKey = None,
) -> None:
    """Write messages as they arrive. Ends with status 1 if --count messages did not come before --timeout.

    Example: tidings sub 'ticks.>' --selector "price > 20" --json
    """
    DestinationPattern.parse(destination)
    try:
        Selector(selector)
    except SelectorError as error:
        raise show_selector(selector, error) from None
    client = connecting.client(url, user, password_file, tls_ca, tls_certificate, tls_key, client_id=client_id)
    options: dict[str, Any] = {"selector": selector, "durable": durable, "shared": shared}
    rates = Rates(stats, "received")
    try:
        enough = connecting.run(_receive(client, destination, options, count, timeout, json, rates))
    except BrokenPipeError:  # whoever reads our output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        enough = True
    rates.finish()
    raise typer.Exit(0 if enough else 1)


async def _receive(
    client: Client, destination: str, options: dict[str, Any], count: int, timeout: float, json: bool, rates: Rates
) -> bool:
    async with client:
        subscription = await client.subscribe(destination, **options)
        print(f"subscribed to {destination}", file=sys.stderr, flush=True)  # noqa: T201
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        while not count or rates.count < count:
            delivery = subscription.receive_nowait()
            if delivery is None:
                sys.stdout.flush()
                delivery = await _wait(subscription, stop, timeout or None)
            if delivery is None:
                break
            sys.stdout.write(to_json(delivery.message, delivery.attempt) if json else _plain(delivery))
            sys.stdout.write("\n")
            rates.add(len(delivery.body))
        sys.stdout.flush()
        await subscription.close()  # acknowledges what was written
        return not count or rates.count >= count


async def _wait(subscription: Subscription, stop: asyncio.Event, timeout: float | None) -> Delivery | None:
    """The next message, or None when it is time to stop."""
    arrival = asyncio.ensure_future(subscription.receive(timeout))
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait({arrival, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if arrival.done():
        delivery = arrival.result()
        if delivery is None and subscription.closed:
            raise ConnectionLostError("E_CLOSED", "the subscription has ended")
        return delivery
    arrival.cancel()
    await asyncio.gather(arrival, return_exceptions=True)
    return None


def _plain(delivery: Delivery) -> str:
    properties = " ".join(f"{name}={value!r}" for name, value in delivery.properties.items())
    body = delivery.body.decode(errors="replace")
    shown = "".join(one if one.isprintable() else " " for one in body)
    again = " (again)" if delivery.redelivered else ""
    return " ".join(part for part in (f"{delivery.destination}{again}", properties, shown) if part)
