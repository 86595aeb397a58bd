"""Builds a message from the arguments of `publish`."""

import asyncio
import time
from collections.abc import Mapping

from tidings.client.bodies import Body, encode_body
from tidings.errors import UsageError
from tidings.model.destination import Destination
from tidings.model.message import PRIORITY_DEFAULT, Message
from tidings.model.message_id import MessageId, MessageIdSource
from tidings.model.values import Value


async def next_id(ids: MessageIdSource) -> MessageId:
    """The next id; waits when the numbers of this millisecond are used up."""
    while (found := ids.next(now_ms())) is None:
        await asyncio.sleep(ids.wait_ms(now_ms()) / 1000)
    return found


def compose(
    message_id: MessageId,
    destination: str | Destination,
    properties: Mapping[str, Value] | None = None,
    body: Body = b"",
    *,
    persistent: bool = False,
    priority: int = PRIORITY_DEFAULT,
    expires_in: float | None = None,
    correlation_id: str | None = None,
    reply_to: str | Destination | None = None,
    type: str | None = None,
    deliver_in: float | None = None,
) -> Message:
    """A message from the arguments of `Client.publish`; raises UsageError for a wrong one."""
    if properties is not None and not isinstance(properties, Mapping):
        raise UsageError("E_MESSAGE_FIELD", f"properties must be a mapping, not {_kind(properties)}")
    encoded, having = encode_body(body, {} if properties is None else properties)
    return Message(
        _destination("destination", destination),
        having,
        encoded,
        id=message_id,
        persistent=persistent,
        priority=priority,
        expiration_ms=None if expires_in is None else message_id.ms + _milliseconds("expires_in", expires_in),
        correlation_id=correlation_id,
        reply_to=None if reply_to is None else _destination("reply_to", reply_to),
        type=type,
        deliver_at_ms=None if deliver_in is None else message_id.ms + _milliseconds("deliver_in", deliver_in),
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _destination(name: str, given: str | Destination) -> Destination:
    if isinstance(given, Destination):
        return given
    if not isinstance(given, str):
        raise UsageError("E_MESSAGE_FIELD", f"{name} must be text or a Destination, not {_kind(given)}")
    return Destination.parse(given)


def _kind(value: object) -> str:
    return type(value).__name__


def _milliseconds(name: str, seconds: float) -> int:
    try:
        return int(seconds * 1000)
    except (OverflowError, ValueError, TypeError):  # infinite, not a number, something else
        raise UsageError("E_MESSAGE_FIELD", f"{name} must be a finite number of seconds") from None
