"""`tidings trace --key NAME=VALUE`: finds messages by an attribute, and shows the path of each."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

import typer

from tidings.cli.json_text import found_json
from tidings.client import Client
from tidings.errors import UsageError
from tidings.tracking.draw.text import to_text
from tidings.tracking.moments import utc
from tidings.tracking.query.key_codec import FoundMessages
from tidings.tracking.query.key_codec import to_dict as found_to_dict
from tidings.tracking.query.path_json import to_dict
from tidings.tracking.recording.recorder import TIME_MAX_MS

TIME_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"]


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
