"""Messages in HTTP: publications from the body of a request, deliveries as server-sent events.

>>> event("message", {"body": "hi"})
b'event: message\\ndata: {"body": "hi"}\\n\\n'
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from tidings.errors import UsageError
from tidings.kernel.codec import decode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.message_json import JsonMessage, message_from_object, message_to_object

PUBLICATIONS_MAX = 256  # in one request
TRACE_PARENT, TRACE_STATE = "traceparent", "tracestate"  # https://www.w3.org/TR/trace-context/
SUBSCRIBE_PARAMETERS = ("destination", "selector", "policy")


def event(name: str, data: dict[str, Any]) -> bytes:
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    return f"event: {name}\ndata: {text}\n\n".encode()


def message_event(encoded: bytes, attempt: int) -> bytes:
    return event("message", message_to_object(decode_message(encoded), attempt))


def publications(body: bytes) -> tuple[list[JsonMessage], bool]:
    """The messages of a request's body: a JSON object, or (True) an array of objects."""
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("E_MESSAGE_JSON", "the body is not valid JSON") from None
    several = isinstance(read, list)
    objects = read if several else [read]
    if not objects or len(objects) > PUBLICATIONS_MAX or not all(isinstance(one, dict) for one in objects):
        raise UsageError(
            "E_MESSAGE_JSON", f"the body must be a JSON object, or an array of 1 to {PUBLICATIONS_MAX} objects"
        )
    found = [message_from_object(one) for one in objects]
    if any(one.destination is None for one in found):
        raise UsageError("E_MESSAGE_JSON", "a message has no destination")
    return found, several


def message_of(read: JsonMessage, message_id: MessageId, trace_context: Mapping[str, str] | None = None) -> Message:
    """`trace_context`: properties from the request's headers, for a message that has none of its own."""
    fields = dict(read.fields)
    expires_in, reply_to = fields.pop("expires_in", None), fields.pop("reply_to", None)
    assert read.destination is not None
    try:
        expiration_ms = None if expires_in is None else message_id.ms + int(expires_in * 1000)
    except (OverflowError, ValueError):
        raise UsageError("E_MESSAGE_FIELD", "expires_in must be a finite number of seconds") from None
    return Message(
        read.destination,
        {**(trace_context or {}), **read.properties} if TRACE_PARENT not in read.properties else read.properties,
        read.body,
        id=message_id,
        expiration_ms=expiration_ms,
        reply_to=None if reply_to is None else Destination.parse(reply_to),
        **fields,
    )


def trace_context(headers: Mapping[str, str]) -> dict[str, str]:
    """
    >>> trace_context({"tracestate": "a=1", "host": "b"}), trace_context({"traceparent": "00-1-2-01", "host": "b"})
    ({}, {'traceparent': '00-1-2-01'})
    """
    names = (TRACE_PARENT, TRACE_STATE) if TRACE_PARENT in headers else ()
    return {name: headers[name] for name in names if name in headers}


def subscription_parameters(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict", max_num_fields=20)
    except ValueError as error:
        raise UsageError("E_HTTP_PARAMETER", f"malformed query: {error}") from None
    found = dict(pairs)
    for name in found:
        if name not in SUBSCRIBE_PARAMETERS:
            known = ", ".join(SUBSCRIBE_PARAMETERS)
            raise UsageError("E_HTTP_PARAMETER", f"unknown query parameter {name[:100]!r}; known: {known}")
    if len(found) < len(pairs):
        raise UsageError("E_HTTP_PARAMETER", "a query parameter is given more than once")
    if not found.get("destination"):
        raise UsageError("E_HTTP_PARAMETER", "the query parameter 'destination' is missing")
    return found
