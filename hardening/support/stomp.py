"""STOMP for tests: a client that says anything, and in plain Python what the kernel makes of SEND and MESSAGE.

`message_of` and `frame_of` are the reference for native/include/tidings/stomp/send.hpp and stomp_message.hpp.
"""

import asyncio
import base64
from collections.abc import Mapping
from contextlib import suppress

from tidings.errors import CodecError, UsageError
from tidings.model.destination import Destination
from tidings.model.message import PRIORITY_DEFAULT, Message
from tidings.model.message_id import MessageId
from tidings.model.values import INT_MAX, Untyped, Value, reading
from tidings.protocols.stomp.frames import StompFrame, StompVersion, encode, escape, unescape

PREFIX = "attribute/"
DROPPED = frozenset({"ack", "content-length", "message-id", "receipt-id", "redelivered", "subscription"})
REFUSED = frozenset({"AMQ_SCHEDULED_CRON", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT"})
MEANING = frozenset(
    {"destination", "correlation-id", "type", "reply-to", "timestamp", "expires", "priority", "persistent"}
    | {"receipt", "transaction", "AMQ_SCHEDULED_DELAY"}
    | REFUSED
)
KINDS = {"/topic/": False, "/queue/": True}  # as a broker writes them
DELAY_MS_MAX = 10 * 366 * 24 * 3_600_000
_READ = KINDS | {"topic://": False, "queue://": True, "topic:": False, "queue:": True}


def message_of(headers: Mapping[str, str], body: bytes, id: MessageId = MessageId.NONE) -> Message:
    """The message that a SEND frame with these headers stands for."""
    properties: dict[str, Value] = {}
    for name, value in headers.items():
        if name not in DROPPED and name not in MEANING:
            properties.setdefault(name.removeprefix(PREFIX), Untyped(value))
    if not REFUSED.isdisjoint(headers):
        raise CodecError("E_STOMP_HEADER", "repeated delivery is not supported")
    reply_to = headers.get("reply-to")
    delay_ms = _number(headers.get("AMQ_SCHEDULED_DELAY", "0"), DELAY_MS_MAX)
    return Message(
        _destination(headers["destination"]),
        properties,
        body,
        id,
        persistent=_persistent(headers.get("persistent", "false")),
        priority=_number(headers.get("priority", str(PRIORITY_DEFAULT)), 9),
        timestamp_ms=None if "timestamp" not in headers else _number(headers["timestamp"], INT_MAX),
        expiration_ms=_number(headers.get("expires", "0"), INT_MAX) or None,
        correlation_id=headers.get("correlation-id"),
        reply_to=None if reply_to is None else _destination(reply_to),
        type=headers.get("type"),
        deliver_at_ms=id.ms + delay_ms if delay_ms else None,
    )


def _destination(text: str) -> Destination:
    for prefix, queue in _READ.items():
        if text.startswith(prefix):
            try:
                if text == prefix:
                    raise UsageError("E_DESTINATION_EMPTY", "no name")
                return Destination(text[len(prefix) :], queue)
            except UsageError as error:
                raise CodecError("E_STOMP_DESTINATION", error.reason) from None
    raise CodecError("E_STOMP_DESTINATION", "neither topic nor queue")


def _number(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > most or (most == 9 and len(text) > 1):
        raise CodecError("E_STOMP_HEADER", "not such a number")
    return int(text)


def _persistent(text: str) -> bool:
    read = reading(text)
    if not isinstance(read, bool):
        raise CodecError("E_STOMP_HEADER", "neither true nor false")
    return read


def text_of(value: Value) -> str:
    """An attribute as a header."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return str(value)


def headers_of(message: Message) -> dict[str, str]:
    """The headers of a MESSAGE, those apart that belong to one delivery."""
    kind = {queue: prefix for prefix, queue in KINDS.items()}
    headers = {
        "destination": kind[message.destination.queue] + message.destination.name,
    }
    if message.priority != PRIORITY_DEFAULT:
        headers["priority"] = str(message.priority)
    if message.persistent:
        headers["persistent"] = "true"
    if message.correlation_id is not None:
        headers["correlation-id"] = message.correlation_id
    if message.type is not None:
        headers["type"] = message.type
    if message.reply_to is not None:
        headers["reply-to"] = kind[message.reply_to.queue] + message.reply_to.name
    if message.timestamp_ms is not None:
        headers["timestamp"] = str(message.timestamp_ms)
    if message.expiration_ms is not None:
        headers["expires"] = str(message.expiration_ms)
    if message.deliver_at_ms is not None:
        headers["delivery-time"] = str(message.deliver_at_ms)
    for name, value in message.properties.items():
        taken = name in DROPPED or name in MEANING or name.startswith(PREFIX)
        headers[PREFIX + name if taken else name] = text_of(value)
    if message.body:
        headers["content-length"] = str(len(message.body))
    return headers


def frame_of(message: Message, version: StompVersion) -> bytes:
    """The part of a MESSAGE that all who receive it have in common: from `destination` to the NUL."""
    lines = [
        f"{escape(name, version, name=True)}:{escape(value, version)}\n" for name, value in headers_of(message).items()
    ]
    return "".join([*lines, "\n"]).encode() + message.body + b"\0"


class RawStomp:
    """Frames as they come and go, whatever they say."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: StompVersion = StompVersion.V12
    ) -> None:
        self.reader, self.writer, self.version = reader, writer, version

    @classmethod
    async def open(cls, port: int, version: StompVersion = StompVersion.V12, *, host: str = "127.0.0.1") -> "RawStomp":
        return cls(*await asyncio.open_connection(host, port), version)

    async def connect(self, **headers: str) -> StompFrame:
        given = {"accept-version": str(self.version), "host": "test"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        await self.send("CONNECT", given)
        return await self.expect("CONNECTED")

    async def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        await self.write(encode(command, headers, self.version, body))

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def frame(self) -> StompFrame:
        """The next frame; heartbeats are skipped."""
        while (line := await self.reader.readline()) == b"\n":
            pass
        if not line:
            raise ConnectionError("the broker closed the connection")
        headers: dict[str, str] = {}
        while (text := (await self.reader.readline()).decode().rstrip("\n")) != "":
            name, _, value = text.partition(":")
            if self.version is not StompVersion.V10 and line != b"CONNECTED\n":
                name, value = unescape(name, self.version), unescape(value, self.version)
            headers.setdefault(name, value)
        if "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
            assert await self.reader.readexactly(1) == b"\0"
        else:
            body = (await self.reader.readuntil(b"\0"))[:-1]
        return StompFrame(line.decode().strip(), headers, body)

    async def expect(self, command: str) -> StompFrame:
        frame = await self.frame()
        assert frame.command == command, frame
        return frame

    async def error(self) -> StompFrame:
        """The ERROR that comes before the broker closes the connection."""
        while (frame := await self.frame()).command != "ERROR":
            pass
        assert await self.reader.read(1) == b"", "closed after the error"
        self.writer.close()
        return frame

    async def subscribe(self, destination: str, id: str = "1", **headers: str) -> None:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.send("SUBSCRIBE", {"destination": destination, "id": id, "receipt": f"subscribe-{id}"} | given)
        assert (await self.expect("RECEIPT")).headers == {"receipt-id": f"subscribe-{id}"}

    def close(self) -> None:
        self.writer.close()

    async def leave(self) -> None:
        """Close, and wait until it is."""
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()
