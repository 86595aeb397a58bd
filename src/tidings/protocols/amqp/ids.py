"""Message ids and correlation ids of AMQP as text, and back: the prefixes of the AMQP binding of JMS.

AMQP allows text, an unsigned number, a UUID or bytes; everybody else knows text only.

>>> id_text(ulong(7)), id_text("order-7"), id_text(b"\\x01\\xff")
('ID:AMQP_ULONG:7', 'order-7', 'ID:AMQP_BINARY:01FF')
>>> id_value("ID:AMQP_ULONG:7"), id_value("order-7"), id_value("ID:AMQP_ULONG:seven")
(ulong(7), 'order-7', 'ID:AMQP_ULONG:seven')
"""

import re
from uuid import UUID

from tidings.protocols.amqp.wire.types import AmqpValue, ulong

_PREFIX = "ID:AMQP_"
_STRING, _UUID, _ULONG, _BINARY = (f"{_PREFIX}{kind}:" for kind in ("STRING", "UUID", "ULONG", "BINARY"))
_UUID_FORM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ULONG_FORM = re.compile(r"0|[1-9][0-9]{0,19}")
_BINARY_FORM = re.compile(r"([0-9A-F]{2})*")


def id_text(value: AmqpValue) -> str | None:
    """None: it is none of the four kinds."""
    match value:
        case ulong():
            return f"{_ULONG}{int(value)}"
        case UUID():
            return f"{_UUID}{value}"
        case bytes():
            return f"{_BINARY}{value.hex().upper()}"
        case str() if type(value) is str:
            return _STRING + value if value.startswith(_PREFIX) else value
        case _:
            return None


def id_value(text: str) -> AmqpValue:
    """The inverse of `id_text`; text that it does not produce stands for itself."""
    if not text.startswith(_PREFIX):
        return text
    if text.startswith(_STRING):
        return text.removeprefix(_STRING)
    if text.startswith(_UUID) and _UUID_FORM.fullmatch(body := text.removeprefix(_UUID)):
        return UUID(body)
    if text.startswith(_ULONG) and _ULONG_FORM.fullmatch(body := text.removeprefix(_ULONG)) and int(body) < 1 << 64:
        return ulong(int(body))
    if text.startswith(_BINARY) and _BINARY_FORM.fullmatch(body := text.removeprefix(_BINARY)):
        return bytes.fromhex(body)
    return text
