"""Messages as JSON lines: `tidings sub --json` writes them, `tidings pub --jsonl` reads them.

JSON has neither bytes nor infinite numbers: as properties they are objects, {"base64": "/w=="} and {"float": "-inf"}.

>>> line = to_json(Message(Destination.parse("ticks.xyz"), {"price": 50}, b"hi"), attempt=1)
>>> line[line.index("destination") - 1 :]
'"destination": "topic:ticks.xyz", "properties": {"price": 50}, "body": "hi", "redelivered": false}'
>>> from_json('{"properties": {"price": 50}, "body": "hi"}', 1).body
b'hi'
"""

import asyncio
import base64
import binascii
import json
import math
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tidings.client.message_builder import compose
from tidings.errors import UsageError
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.message_json import BASE64, FLOAT, message_to_object
from tidings.model.values import Value

LINE_BYTES_MAX = 32 << 20
CHUNK_BYTES = 64 << 10
CHUNKS_MAX = 8  # read ahead
_SOME_ID, _SOMEWHERE = MessageId(1, 1, 1 << 40, 0), Destination.parse("somewhere")
_INFINITE = {"inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One line of input: a message to be published."""

    destination: Destination | None = None
    properties: dict[str, Value] = field(default_factory=dict)
    body: bytes = b""
    fields: dict[str, Any] = field(default_factory=dict)  # further arguments of `Client.publish`
    number: int = 0  # in the input, from 1; 0: it was not read


_TYPES: dict[str, tuple[type, ...]] = {
    "persistent": (bool,),
    "priority": (int,),
    "expires_in": (int, float),
    "correlation_id": (str,),
    "reply_to": (str,),
    "type": (str,),
}
_KNOWN = {*_TYPES, "destination", "properties", "body", "body_encoding"}
_IGNORED = {"id", "redelivered", "attempt"}  # written by `sub`; assigned again when published


def to_json(message: Message, attempt: int) -> str:
    return json.dumps(message_to_object(message, attempt), ensure_ascii=False, allow_nan=False)


def from_json(text: str, number: int) -> JsonLine:
    """A line of input; a UsageError names its number."""
    try:
        read = json.loads(text)
        if not isinstance(read, dict):
            raise UsageError("E_JSONL", "not a JSON object")
        return _line(read, number)
    except json.JSONDecodeError as error:
        raise UsageError("E_JSONL", f"line {number}: {error.msg}", position=error.pos) from None
    except RecursionError:
        raise UsageError("E_JSONL", f"line {number}: nested too deeply") from None
    except (UsageError, ValueError) as error:
        reason = error.reason if isinstance(error, UsageError) else str(error)
        raise UsageError("E_JSONL", f"line {number}: {reason}") from None


async def json_lines(descriptor: int = 0) -> AsyncIterator[JsonLine]:
    """The lines of the input as they come."""
    rest, number = b"", 0
    async for chunk in _chunks(descriptor):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield from_json(_decoded(line, number), number)
        if len(rest) > LINE_BYTES_MAX:
            raise UsageError("E_JSONL", f"line {number + 1}: longer than {LINE_BYTES_MAX} bytes")
    if rest.strip():
        yield from_json(_decoded(rest, number + 1), number + 1)


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    """Chunks of the input, read by a thread, so that the connection stays alive meanwhile."""
    loop, chunks = asyncio.get_running_loop(), asyncio.Queue[bytes | OSError]()
    room, ended = threading.Semaphore(CHUNKS_MAX), threading.Event()

    def read() -> None:
        # Not through sys.stdin: its lock could not be taken from a thread that waits when the process ends.
        with suppress(RuntimeError):  # the event loop is closed
            while room.acquire() and not ended.is_set():
                try:
                    chunk: bytes | OSError = os.read(descriptor, CHUNK_BYTES)
                except OSError as error:
                    chunk = error
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
                if not isinstance(chunk, bytes) or not chunk:
                    break

    threading.Thread(target=read, name="input", daemon=True).start()
    try:
        while chunk := await chunks.get():
            if isinstance(chunk, OSError):
                raise UsageError("E_INPUT", f"cannot read the input: {chunk.strerror}")
            room.release()
            yield chunk
    finally:
        ended.set()
        room.release()


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise UsageError("E_JSONL", f"line {number}: not UTF-8", position=error.start) from None


def _line(read: dict[str, Any], number: int) -> JsonLine:
    for name in read:
        if name not in _KNOWN | _IGNORED:
            raise UsageError("E_JSONL", f"{name!r} is unknown; known names: {', '.join(sorted(_KNOWN))}")
    for name, types in _TYPES.items():
        if name in read and type(read[name]) not in types:
            raise UsageError("E_JSONL", f"{name} must be of type {types[-1].__name__}")
    properties, destination = read.get("properties", {}), read.get("destination")
    if not isinstance(properties, dict) or not isinstance(destination, str | None):
        raise UsageError("E_JSONL", "properties must be an object, destination a string")
    line = JsonLine(
        None if destination is None else Destination.parse(destination),
        {name: _value(name, value) for name, value in properties.items()},
        _body(read.get("body", ""), read.get("body_encoding", "")),
        {name: read[name] for name in _TYPES if name in read},
        number,
    )
    # Refuses invalid messages here, before later lines are sent.
    compose(_SOME_ID, line.destination or _SOMEWHERE, line.properties, line.body, **line.fields)
    return line


def _body(body: object, encoding: object) -> bytes:
    if not isinstance(body, str) or encoding not in ("", BASE64):
        raise UsageError("E_JSONL", 'body must be a string; body_encoding, if present, must be "base64"')
    try:
        return base64.b64decode(body, validate=True) if encoding else body.encode()
    except binascii.Error:
        raise UsageError("E_JSONL", "body is not valid base64") from None


def _value(name: str, value: Any) -> Value:
    if isinstance(value, dict) and value.keys() == {BASE64} and isinstance(value[BASE64], str):
        return base64.b64decode(value[BASE64], validate=True)
    if isinstance(value, dict) and value.keys() == {FLOAT} and str(value[FLOAT]) in _INFINITE:
        return _INFINITE[str(value[FLOAT])]
    if isinstance(value, bool | int | float | str):
        return value
    raise UsageError(
        "E_JSONL", f'property {name!r} must be a string, number, boolean, {{"base64": …}} or {{"float": …}}'
    )
