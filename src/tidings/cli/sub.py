"""`tidings sub`: subscribes and prints the messages that arrive."""

import asyncio
import os
import signal
import sys
from typing import Annotated, Any

import typer

from tidings.cli import connecting
from tidings.cli.failures import show_selector
from tidings.cli.jsonl import to_json
from tidings.cli.rates import RatePrinter
from tidings.client import Client, Delivery, Subscription
from tidings.errors import ConnectionLostError, SelectorError, UsageError
from tidings.model.destination import DestinationPattern
from tidings.model.message import Message
from tidings.model.selector import Selector


def register(app: typer.Typer) -> None:
    app.command()(sub)


@connecting.connects()
def sub(
    destination: Annotated[
        str,
        typer.Argument(help="A topic pattern such as ticks.>, or queue:NAME; with --type, optionally the selector."),
    ] = "",
    type: Annotated[str, typer.Option(help="Events of this type and its subtypes, instead of a destination.")] = "",
    selector: Annotated[str, typer.Option(help="Only messages that match this selector.")] = "",
    durable: Annotated[
        str, typer.Option(help="A durable subscription of this name: the broker keeps messages meanwhile.")
    ] = "",
    shared: Annotated[str, typer.Option(help="Share the messages with all subscribers that use this name.")] = "",
    client_id: Annotated[str, typer.Option(help="The client id, which owns durable subscriptions.")] = "",
    browse: Annotated[
        bool, typer.Option("--browse", help="Print the messages waiting in a queue without removing them, and exit.")
    ] = False,
    count: Annotated[int, typer.Option(min=0, help="Stop after this number of messages; 0: never.")] = 0,
    timeout: Annotated[float, typer.Option(min=0, help="Stop after this time in seconds without a message.")] = 0,
    stats: Annotated[bool, typer.Option("--stats", help="Show the rate on the error output.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object per message.")] = False,
    *,
    access: connecting.ClientAccess,
) -> None:
    """Print messages as they arrive. Exits with status 1 if --timeout ends before --count messages arrived.

    Example: tidings sub 'ticks.>' --selector "price > 20" --json

    Example: tidings sub queue:orders --browse

    Example: tidings sub --type Trade 'price > 20'
    """
    if type:
        if browse or (destination and selector):
            raise UsageError("E_OPTIONS", "--type takes one selector and cannot be combined with --browse")
        destination, selector = "", destination or selector
    else:
        DestinationPattern.parse(connecting.named(destination))
    try:
        Selector(selector)
    except SelectorError as error:
        raise show_selector(selector, error) from None
    client = access.client(client_id=client_id)
    if browse and (durable or shared or timeout):
        raise UsageError("E_OPTIONS", "--browse cannot be combined with --durable, --shared and --timeout")
    options: dict[str, Any] = {"type": type, "selector": selector, "durable": durable, "shared": shared}
    rates = RatePrinter(stats, "received")
    try:
        if browse:
            enough = connecting.run(_browse(client, destination, selector, count, json, rates))
        else:
            enough = connecting.run(_receive(client, destination, options, count, timeout, json, rates))
    except BrokenPipeError:  # the reader of the output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        enough = True
    rates.finish()
    raise typer.Exit(0 if enough else 1)


async def _browse(client: Client, queue: str, selector: str, count: int, json: bool, rates: RatePrinter) -> bool:
    async with client:
        async for found in client.queue(queue).browse(selector=selector):
            print(_line(found.message, found.attempt, json))  # noqa: T201
            rates.add(len(found.message.body))
            if rates.count == count:
                break
    return not count or rates.count >= count


async def _receive(
    client: Client,
    destination: str,
    options: dict[str, Any],
    count: int,
    timeout: float,
    json: bool,
    rates: RatePrinter,
) -> bool:
    async with client:
        subscription = await client.subscribe(destination, **options)
        print(f"subscribed to {destination or options['type']}", file=sys.stderr, flush=True)  # noqa: T201
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
            sys.stdout.write(_line(delivery.message, delivery.attempt, json) + "\n")
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


def _line(message: Message, attempt: int, json: bool) -> str:
    if json:
        return to_json(message, attempt)
    properties = " ".join(f"{name}={value!r}" for name, value in message.properties.items())
    body = message.body.decode(errors="replace")
    shown = "".join(one if one.isprintable() else " " for one in body)
    again = " (again)" if attempt > 1 else ""
    return " ".join(part for part in (f"{message.destination}{again}", properties, shown) if part)
