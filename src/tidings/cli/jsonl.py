"""Messages as JSON lines: `tidings sub --json` writes them, `tidings pub --jsonl` reads them.

JSON has neither bytes nor infinite numbers: as properties they are objects, {"base64": "/w=="} and {"float": "-inf"}.

>>> line = to_json(Message(Destination.parse("ticks.xyz"), {"price": 50}, b"hi"), attempt=1)
>>> line[line.index("destination") - 1 :]
'"destination": "topic:ticks.xyz", "properties": {"price": 50}, "body": "hi", "redelivered": false}'
>>> from_json('{"properties": {"price": 50}, "body": "hi"}', 1).body
b'hi'
"""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tidings.client.message_builder import compose
from tidings.errors import UsageError
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.message_json import JsonMessage, message_from_object, message_to_object

LINE_BYTES_MAX = 32 << 20
CHUNK_BYTES = 64 << 10
CHUNKS_MAX = 8  # read ahead
_SOME_ID, _SOMEWHERE = MessageId(1, 1, 1 << 40, 0), Destination.parse("somewhere")


def to_json(message: Message, attempt: int) -> str:
    return json.dumps(message_to_object(message, attempt), ensure_ascii=False, allow_nan=False)


def from_json(text: str, number: int) -> JsonMessage:
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


async def json_lines(descriptor: int = 0) -> AsyncIterator[JsonMessage]:
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


def _line(read: dict[str, Any], number: int) -> JsonMessage:
    line = message_from_object(read)
    # Refuses invalid messages here, before later lines are sent.
    compose(_SOME_ID, line.destination or _SOMEWHERE, line.properties, line.body, **line.fields)
    return replace(line, number=number)
