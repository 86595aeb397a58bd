"""Bodies of messages by content type: bytes as they are, text, and what JSON can express.

The content type is the property `content-type`, which STOMP, AMQP and MQTT clients see as theirs.

>>> encode_body({"total": 5}, {})
(b'{"total":5}', {'content-type': 'application/json'})
>>> decode_body(*encode_body("Grüße", {}))
'Grüße'
>>> decode_body(b"plain", {})
b'plain'
"""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from tidings.errors import CodecError, UsageError
from tidings.model.values import Value

Body: TypeAlias = bytes | str | dict[str, Any] | list[Any]
CONTENT_TYPE, JSON, TEXT = "content-type", "application/json", "text/plain; charset=utf-8"


def encode_body(body: object, properties: Mapping[str, Value]) -> tuple[bytes, Mapping[str, Value]]:
    """The bytes of a body, and the properties with its content type; one that is given stays."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body), properties
    if isinstance(body, str):
        kind, encoded = TEXT, _utf8(body)
    elif isinstance(body, dict | list):
        kind, encoded = JSON, _json(body)
    else:
        reason = f"the body must be bytes, str, or a dict or list for JSON, not {type(body).__name__}"
        raise UsageError("E_MESSAGE_FIELD", reason)
    return encoded, properties if CONTENT_TYPE in properties else {**properties, CONTENT_TYPE: kind}


def decode_body(body: bytes, properties: Mapping[str, Value]) -> Any:
    """The body as its content type says: a str for text, values for JSON, otherwise bytes."""
    given = properties.get(CONTENT_TYPE)
    kind, _, parameters = (given if isinstance(given, str) else "").partition(";")
    kind = kind.strip().lower()
    try:
        if kind == JSON or kind.endswith("+json"):
            return json.loads(body.decode())
        if kind.startswith("text/"):
            return body.decode(_charset(parameters))
    except (ValueError, LookupError, RecursionError) as error:  # of bytes, characters or JSON; an unknown character set
        raise CodecError("E_BODY", f"the body is not {kind}: {error}", position=0) from None
    return body


def _charset(parameters: str) -> str:
    for one in parameters.split(";"):
        name, _, value = one.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"')
    return "utf-8"


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError("E_MESSAGE_FIELD", "the body holds a lone surrogate, which UTF-8 cannot express") from None


def _json(value: object) -> bytes:
    try:
        return _utf8(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError("E_MESSAGE_FIELD", f"the body cannot be written as JSON: {error}") from None
