"""`tidings trace`: shows the path of a message through the network."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path as FilePath
from typing import Annotated, Any, Self

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from tidings.cli import connecting
from tidings.cli.json_text import found_json
from tidings.client import Client
from tidings.errors import UsageError
from tidings.model.message_id import MessageId
from tidings.tracking.draw.svg import to_svg
from tidings.tracking.draw.text import heading, hop_line, notes, subscriber_line, to_dot, to_text
from tidings.tracking.moments import utc
from tidings.tracking.query.key_codec import FoundMessages
from tidings.tracking.query.key_codec import to_dict as found_to_dict
from tidings.tracking.query.path import Hop, Path, WhyNot
from tidings.tracking.query.path_json import to_dict
from tidings.tracking.recording.key_notes import TRACE_CONTEXT
from tidings.tracking.recording.recorder import TIME_MAX_MS

TIME_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"]


class TraceForm(Enum):
    TREE, JSON, DOT, SVG = "tree", "json", "dot", "svg"


def register(app: typer.Typer) -> None:
    app.command()(trace)


@dataclass(frozen=True, slots=True)
class WantedKey:
    name: str
    value: str
    since: datetime | None = None
    until: datetime | None = None
    count: int = 20

    @classmethod
    def parse(cls, text: str, since: datetime | None, until: datetime | None, count: int) -> Self:
        """
        >>> WantedKey.parse("order_id=4711", None, None, 20).value
        '4711'
        """
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError("E_TRACE_KEY", f"{text!r} is not NAME=VALUE")
        first, last = (None if one is None else one.replace(tzinfo=UTC) for one in (since, until))
        return cls(name, value, first, last, count)


Id = Annotated[
    str,
    typer.Argument(
        help="The message id: 32 hexadecimal digits, with or without the prefix ID:. Or the trace id of its "
        "traceparent (W3C)."
    ),
]
Key = Annotated[
    str, typer.Option(metavar="NAME=VALUE", help="The messages with this attribute instead ([tracking] keys).")
]
Since = Annotated[datetime | None, typer.Option(formats=TIME_FORMATS, help="With --key: not older than this (UTC).")]
Until = Annotated[datetime | None, typer.Option(formats=TIME_FORMATS, help="With --key: not younger than this (UTC).")]
Count = Annotated[int, typer.Option(min=1, max=1000, help="With --key: messages at most, the newest.")]
Everywhere = Annotated[bool, typer.Option("--everywhere", help="Ask brokers outside the route too.")]
Why = Annotated[
    str, typer.Option(metavar="SUBSCRIBER", help="Explain why this subscriber did or did not get the message.")
]


@connecting.connects()
def trace(
    message: Id = "",
    key: Key = "",
    since: Since = None,
    until: Until = None,
    count: Count = 20,
    everywhere: Everywhere = False,
    why: Why = "",
    destination: Annotated[str, typer.Option(help="With --why: where the message was sent to.")] = "",
    attributes: Annotated[str, typer.Option(help="With --why: its properties, a JSON object.")] = "",
    times: Annotated[bool, typer.Option("--times", help="Show within which time each step was recorded.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Write Graphviz DOT.")] = False,
    svg: Annotated[bool, typer.Option("--svg", help="Write an SVG picture.")] = False,
    output: Annotated[FilePath | None, typer.Option(help="The file to write to.")] = None,
    *,
    access: connecting.ClientAccess,
) -> None:
    """Show the brokers that a message passed and its receivers. Exits with status 1 if no broker knows the message.

    Numbers in parentheses: the probability that the statement is a false positive.

    Example: tidings trace 0000000700000001019a3f62547b0000 --why durable:audit:all

    Example: tidings trace --key order_id=4711
    """
    form = _form(as_json, dot, svg)
    if bool(key) == bool(message):
        raise UsageError("E_TRACE_KEY", "give either a message id or --key NAME=VALUE")
    if key and (why or dot or svg or output is not None):
        raise UsageError("E_TRACE_KEY", "--key excludes --why, --dot, --svg and --output: trace one of the messages")
    if (since or until) and not key:
        raise UsageError("E_TRACE_KEY", "--since and --until need --key NAME=VALUE")
    if key:
        wanted = WantedKey.parse(key, since, until, count)
        client = access.client(reconnect=False)
        raise typer.Exit(connecting.run(trace_key(client, wanted, everywhere, as_json=as_json)))
    identifier, asked = MessageId.parse(message), _asked(why, destination, attributes)
    path = connecting.run(_trace(access.client(reconnect=False), identifier, everywhere, asked))
    known = any(not hop.opaque and _claims(path, hop) for hop in path.hops)
    if not known and not why and form in (TraceForm.TREE, TraceForm.JSON) and output is None:
        client, wanted = access.client(reconnect=False), WantedKey(TRACE_CONTEXT, str(identifier))
        if not connecting.run(trace_key(client, wanted, everywhere, as_json=as_json, quiet=True)):
            return
    if why and not path.reasons:
        typer.echo(f"no broker that could be asked knows a subscriber {why!r} of that time", err=True)
    show(path, form, output, times=times)
    raise typer.Exit(0 if known else 1)


def _asked(why: str, destination: str, attributes: str) -> str | WhyNot:
    if not (destination or attributes):
        return why
    if not why:
        raise UsageError("E_TRACE_WHY", "--destination and --attributes are for --why SUBSCRIBER")
    return WhyNot(why, destination, _properties(attributes))


def _form(as_json: bool, dot: bool, svg: bool) -> TraceForm:
    chosen = [
        form for form, chosen in ((TraceForm.JSON, as_json), (TraceForm.DOT, dot), (TraceForm.SVG, svg)) if chosen
    ]
    if len(chosen) > 1:
        asked = " and ".join(f"--{form.value}" for form in chosen)
        raise UsageError("E_TRACE_FORM", f"{asked} exclude each other; choose one")
    return chosen[0] if chosen else TraceForm.TREE


def _properties(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise UsageError("E_TRACE_WHY", f"--attributes is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError("E_TRACE_WHY", "--attributes must be a JSON object")
    return found


async def _trace(client: Client, message: MessageId, everywhere: bool, why: str | WhyNot) -> Path:
    async with client:
        return await client.trace(message, everywhere=everywhere, why=why)


def _claims(path: Path, hop: Hop) -> bool:
    """True if the broker has the message: the origin is always listed."""
    return hop.broker != path.message.broker or path.confirmed


async def trace_key(
    client: Client, wanted: WantedKey, everywhere: bool, *, as_json: bool = False, quiet: bool = False
) -> int:
    """Shows what was found; returns the exit status. `quiet`: shows nothing if nothing was found."""
    async with client:
        found = await client.find_messages(
            wanted.name, wanted.value, since=wanted.since, until=wanted.until, count=wanted.count
        )
        if not found.messages and quiet:
            return 1
        paths = [await client.trace(one, everywhere=everywhere) for one in found.messages]
    if as_json:
        typer.echo(found_json({**found_to_dict(found), "paths": [to_dict(path) for path in paths]}))
    else:
        typer.echo("\n\n".join([*map(to_text, paths), *remarks(found, wanted)]))
    return 0 if paths else 1


def remarks(found: FoundMessages, wanted: WantedKey) -> list[str]:
    """Lists what is missing, or may be.

    >>> remarks(FoundMessages(unrecorded=(2,)), WantedKey("order_id", "4711"))
    ["found no message with order_id = 4711\\nnot recorded at broker 2: add 'order_id' to [tracking] keys there"]
    """
    count, lines = len(found.messages), []
    number = "no message" if not count else "1 message" if count == 1 else f"{count} messages"
    lines.append(f"found {number} with {wanted.name} = {wanted.value}{', and there are older ones' * found.more}")
    if found.since_ms >= TIME_MAX_MS:
        lines.append("a broker's records cannot be read, or it stores none: messages may be missing")
    elif found.since_ms and (wanted.since is None or wanted.since.timestamp() * 1000 < found.since_ms):
        lines.append(f"complete since {utc(found.since_ms)}; of the time before, messages may be missing")
    if found.unrecorded:
        brokers = " and ".join(map(str, found.unrecorded))
        lines.append(f"not recorded at broker {brokers}: add {wanted.name!r} to [tracking] keys there")
    if found.unasked:
        lines.append(f"not asked: broker {' and '.join(map(str, found.unasked))} (no answer)")
    return ["\n".join(lines)]


def show(path: Path, form: TraceForm, output: FilePath | None = None, *, times: bool = False) -> None:
    match form:
        case TraceForm.JSON:
            text = found_json(to_dict(path)) + "\n"
        case TraceForm.DOT:
            text = to_dot(path)
        case TraceForm.SVG:
            text = to_svg(path)
        case TraceForm.TREE:
            text = to_text(path, times=times) + "\n"
    if output is not None:
        output.write_text(text)
    elif form is TraceForm.TREE and (console := Console()).is_terminal:  # elsewhere lines are not to be wrapped
        console.print(as_tree(path, times=times))
    else:
        typer.echo(text, nl=False)


def as_tree(path: Path, *, times: bool = False) -> Group:
    """The path as a tree for a terminal, with the content of `to_text`."""
    trees: list[RenderableType] = [Text(line) for line in heading(path)]
    branches: dict[int, Tree] = {}
    for hop in path.hops:
        line = Text(hop_line(hop, path, times=times), style=_style(hop))
        if hop.sender is None:
            branches[hop.broker] = Tree(line)
            trees.append(branches[hop.broker])
        else:
            branches[hop.broker] = branches[hop.sender].add(line)
        for one in hop.subscribers:
            branches[hop.broker].add(Text(subscriber_line(one, path, times=times), style="green"))
    return Group(*trees, *(Text(line, style="red") for line in notes(path)))


def _style(hop: Hop) -> str:
    return "dim" if hop.opaque else "yellow" if hop.suspect else "bold"
