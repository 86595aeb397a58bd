"""A message as a JSON object: for command lines and the management API.

JSON has neither bytes nor infinite numbers: as properties they are objects, {"base64": "/w=="} and {"float": "-inf"}.
"""

import base64
import math
from typing import Any

from tidings.model.message import PRIORITY_DEFAULT, Message
from tidings.model.values import Value

BASE64, FLOAT = "base64", "float"


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


def _json_value(value: Value) -> object:
    if isinstance(value, float) and math.isinf(value):
        return {FLOAT: str(value)}
    return {BASE64: base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _text(body: bytes) -> tuple[str, str]:
    try:
        return body.decode(), ""
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), BASE64
