"""`tidings pub`: publishes one message or a stream of messages."""

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

import typer

from tidings.cli import connecting
from tidings.cli.jsonl import json_lines
from tidings.cli.rates import RatePrinter
from tidings.client import Client
from tidings.client.connection.answers import Receipt
from tidings.errors import LimitError, RemoteError, SecurityError, TidingsError, UsageError
from tidings.model.destination import Destination
from tidings.model.message_json import JsonMessage
from tidings.model.values import Value

WINDOW = 500


def register(app: typer.Typer) -> None:
    app.command()(pub)


@connecting.connects()
def pub(
    destination: Annotated[
        str, typer.Argument(help="A topic or queue:NAME; with --jsonl, - takes it from each line; none with --type.")
    ] = "",
    type: Annotated[str, typer.Option(help="Publish an event of this type, and advertise the type meanwhile.")] = "",
    prop: Annotated[list[str] | None, typer.Option(help="A property, name=value; 'value' in quotes is text.")] = None,
    body: Annotated[str, typer.Option(help="The body, as text.")] = "",
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the body from the input.")] = False,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Read messages from the input, one JSON object per line.")
    ] = False,
    persistent: Annotated[
        bool, typer.Option("--persistent", help="Wait until the broker has stored it on disk.")
    ] = False,
    count: Annotated[int, typer.Option(min=1, help="Publish it this number of times.")] = 1,
    rate: Annotated[float, typer.Option(min=0, help="Messages per second; 0: unlimited.")] = 0,
    ids: Annotated[bool, typer.Option("--ids", help="Print the id of each message, for tidings trace.")] = False,
    advertise: Annotated[
        float, typer.Option(min=0, help="Advertise first, and wait this time in seconds for interest (covering).")
    ] = 0,
    stats: Annotated[bool, typer.Option("--stats", help="Show the rate on the error output.")] = False,
    *,
    access: connecting.ClientAccess,
) -> None:
    """Publish messages.

    Example: tidings pub ticks.xyz --prop stock=XYZ --prop price=50 --body hello

    Example: tidings pub --type Sale --prop price=50.0 --prop buyer=me

    Example: tidings trace $(tidings pub ticks.xyz --prop price=50 --ids)

    Lines of --jsonl have the format of tidings sub --json. Values that JSON lacks are objects: bytes
    {"base64": "/w=="}, infinite numbers {"float": "inf"} and {"float": "-inf"}. An invalid line ends the command; the
    lines before it are published, and the error gives the number of published messages.
    """
    if type and destination:
        raise UsageError("E_OPTIONS", "give either a destination or --type, not both")
    if jsonl and (stdin or body or prop):
        raise UsageError("E_OPTIONS", "--jsonl provides bodies and properties; remove --stdin, --body and --prop")
    if (jsonl or stdin) and access.asks:
        raise UsageError("E_OPTIONS", "the input is used for messages; give the password with --password-file")
    if stdin and body:
        raise UsageError("E_OPTIONS", "give either --body or --stdin, not both")
    where = None if type or (jsonl and destination == "-") else Destination.parse(connecting.named(destination))
    properties = dict(parse_property(text) for text in prop or ())
    client = access.client(reconnect=False)
    if jsonl:
        lines = json_lines()
    else:
        lines = _one(JsonMessage(where, properties, sys.stdin.buffer.read() if stdin else os.fsencode(body)))
    if advertise and where is None:
        raise UsageError("E_OPTIONS", "--advertise needs a destination on the command line")
    rates = RatePrinter(stats, "published")
    sending = Sending(client, persistent, type, ids, tell_count=jsonl or count > 1)
    offered = (str(where), advertise) if advertise else None
    connecting.run(_publish(sending, _addressed(lines, where, count, type), rate, rates, offered))
    rates.finish()


async def _publish(
    sending: "Sending",
    lines: AsyncIterator[JsonMessage],
    rate: float,
    rates: RatePrinter,
    offered: tuple[str, float] | None,
) -> None:
    async with sending.client as client:
        if offered is not None and (await client.advertise(offered[0])).used:
            await asyncio.sleep(offered[1])
        if sending.type:
            await client.advertise_type(sending.type)
        began = time.monotonic()
        async with sending:
            async for line in lines:
                if rate:
                    await asyncio.sleep(max(0.0, began + rates.count / rate - time.monotonic()))
                await sending.add(line)
                rates.add(len(line.body))


class Sending:
    """Publishes messages with confirmation, up to `WINDOW` of them at a time.

    If one fails, those before it are sent all the same, and the error gives the number of published messages.
    """

    def __init__(self, client: Client, persistent: bool, type: str, ids: bool, *, tell_count: bool) -> None:
        self.client = client
        self.type = type
        self._persistent = persistent
        self._ids = ids
        self._tell_count = tell_count
        self._published = 0
        self._under_way: deque[asyncio.Task[Receipt]] = deque()

    async def __aenter__(self) -> "Sending":
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            if error is None or isinstance(error, TidingsError):
                error = await self._rest(error)
            if isinstance(error, TidingsError):
                raise _with_reason(error, f"{error.reason}; {self._count()}") if self._tell_count else error
        finally:
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)

    async def add(self, line: JsonMessage) -> None:
        self._under_way.append(asyncio.create_task(self._send(line)))
        while len(self._under_way) >= WINDOW or (self._under_way and self._under_way[0].done()):
            await self._confirmed()

    async def _rest(self, error: TidingsError | None) -> TidingsError | None:
        """Wait for all pending messages; returns the first error."""
        while self._under_way:
            try:
                await self._confirmed()
            except TidingsError as failure:
                error = error or failure
        return error

    async def _confirmed(self) -> None:
        receipt = await self._under_way.popleft()
        self._published += 1
        if self._ids:
            try:
                typer.echo(str(receipt.message_id))
            except BrokenPipeError:
                self._ids = False
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise TidingsError("E_OUTPUT", "cannot write message ids: the output was closed") from None

    async def _send(self, line: JsonMessage) -> Receipt:
        fields = {"persistent": self._persistent, **line.fields}
        try:
            if self.type:
                return await self.client.publish_event(self.type, line.properties, line.body, wait=True, **fields)
            assert line.destination is not None
            return await self.client.publish(line.destination, line.properties, line.body, wait=True, **fields)
        except (UsageError, LimitError, SecurityError, RemoteError) as error:
            raise _with_reason(error, f"line {line.number}: {error.reason}") if line.number else error from None

    def _count(self) -> str:
        return "1 message was published" if self._published == 1 else f"{self._published} messages were published"


def _with_reason(error: TidingsError, reason: str) -> TidingsError:
    return type(error)(error.code, reason, position=error.position)


async def _one(line: JsonMessage) -> AsyncIterator[JsonMessage]:
    yield line


async def _addressed(
    lines: AsyncIterator[JsonMessage], where: Destination | None, count: int, type: str
) -> AsyncIterator[JsonMessage]:
    async for line in lines:
        destination = where or line.destination
        if destination is None and not type:
            raise UsageError("E_JSONL", f"line {line.number}: no destination; give one on the command line")
        for _ in range(count):
            yield replace(line, destination=destination)


def parse_property(text: str) -> tuple[str, Value]:
    """
    >>> [parse_property(text) for text in ("a=1", "b=1.5", "c=true", "d=x=y", "e='1'")]
    [('a', 1), ('b', 1.5), ('c', True), ('d', 'x=y'), ('e', '1')]
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError("E_PROPERTY", f"{text!r} is not a property; write name=value")
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return name, value[1:-1]
    if value in ("true", "false"):
        return name, value == "true"
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value
