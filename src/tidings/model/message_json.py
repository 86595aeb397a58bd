"""A message as a JSON object: for command lines, HTTP and the management API.

JSON has neither bytes nor infinite numbers: as properties they are objects, {"base64": "/w=="} and {"float": "-inf"}.
"""

import base64
import binascii
import math
from dataclasses import dataclass, field
from typing import Any

from tidings.errors import UsageError
from tidings.model.destination import Destination
from tidings.model.message import PRIORITY_DEFAULT, Message
from tidings.model.values import Value

BASE64, FLOAT = "base64", "float"
_INFINITE = {"inf": math.inf, "-inf": -math.inf}
_TYPES: dict[str, tuple[type, ...]] = {
    "persistent": (bool,),
    "priority": (int,),
    "expires_in": (int, float),
    "deliver_in": (int, float),
    "correlation_id": (str,),
    "reply_to": (str,),
    "type": (str,),
}
_KNOWN = {*_TYPES, "destination", "properties", "body", "body_encoding"}
_IGNORED = {"id", "redelivered", "attempt"}  # of messages that were received; assigned again when published


@dataclass(frozen=True, slots=True)
class JsonMessage:
    """A message to be published, as read from JSON."""

    destination: Destination | None = None
    properties: dict[str, Value] = field(default_factory=dict)
    body: bytes = b""
    fields: dict[str, Any] = field(default_factory=dict)  # further arguments of a publication, `expires_in` in seconds
    number: int = 0  # of its line in the input, from 1; 0: it is not from lines


def message_to_object(message: Message, attempt: int = 1) -> dict[str, Any]:
    body, encoding = _text(message.body)
    document: dict[str, Any] = {
        "id": str(message.id),
        "destination": str(message.destination),
        "properties": {name: _json_value(value) for name, value in message.properties.items()},
        "body": body,
    }
    if encoding:
        document["body_encoding"] = encoding
    document["redelivered"] = attempt > 1
    if attempt > 1:
        document["attempt"] = attempt
    if message.persistent:
        document["persistent"] = True
    if message.priority != PRIORITY_DEFAULT:
        document["priority"] = message.priority
    for name in ("correlation_id", "reply_to", "type"):
        if (value := getattr(message, name)) is not None:
            document[name] = str(value)
    return document


def message_from_object(read: dict[str, Any]) -> JsonMessage:
    for name in read:
        if name not in _KNOWN | _IGNORED:
            raise UsageError("E_MESSAGE_JSON", f"{name!r} is unknown; known names: {', '.join(sorted(_KNOWN))}")
    for name, types in _TYPES.items():
        if name in read and type(read[name]) not in types:
            raise UsageError("E_MESSAGE_JSON", f"{name} must be of type {types[-1].__name__}")
    properties, destination = read.get("properties", {}), read.get("destination")
    if not isinstance(properties, dict) or not isinstance(destination, str | None):
        raise UsageError("E_MESSAGE_JSON", "properties must be an object, destination a string")
    return JsonMessage(
        None if destination is None else Destination.parse(destination),
        {name: _value(name, value) for name, value in properties.items()},
        _body(read.get("body", ""), read.get("body_encoding", "")),
        {name: read[name] for name in _TYPES if name in read},
    )


def _body(body: object, encoding: object) -> bytes:
    if not isinstance(body, str) or encoding not in ("", BASE64):
        raise UsageError("E_MESSAGE_JSON", 'body must be a string; body_encoding, if present, must be "base64"')
    try:
        return base64.b64decode(body, validate=True) if encoding else body.encode()
    except binascii.Error:
        raise UsageError("E_MESSAGE_JSON", "body is not valid base64") from None
    except UnicodeEncodeError:
        raise UsageError("E_MESSAGE_JSON", "body is not valid Unicode") from None


def _value(name: str, value: Any) -> Value:
    try:
        if isinstance(value, dict) and value.keys() == {BASE64} and isinstance(value[BASE64], str):
            return base64.b64decode(value[BASE64], validate=True)
    except binascii.Error:
        raise UsageError("E_MESSAGE_JSON", f"property {name!r} is not valid base64") from None
    if isinstance(value, dict) and value.keys() == {FLOAT} and str(value[FLOAT]) in _INFINITE:
        return _INFINITE[str(value[FLOAT])]
    if isinstance(value, bool | int | float | str):
        return value
    raise UsageError(
        "E_MESSAGE_JSON", f'property {name!r} must be a string, number, boolean, {{"base64": …}} or {{"float": …}}'
    )


def _json_value(value: Value) -> object:
    if isinstance(value, float) and math.isinf(value):
        return {FLOAT: str(value)}
    return {BASE64: base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _text(body: bytes) -> tuple[str, str]:
    try:
        return body.decode(), ""
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), BASE64
