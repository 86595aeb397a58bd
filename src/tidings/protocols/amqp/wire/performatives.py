"""The performatives of AMQP's transport (specification, part 2.7): frame bodies as records, and back.

Absent fields have the specification's default, or None. Which field is of which type is in the annotations; a field of
another type, a missing one that is mandatory, or too many of them make a CodecError.

>>> read_performative(write_performative(AmqpDetach(handle=uint(3), closed=True)))
(AmqpDetach(handle=uint(3), closed=True, error=None), b'')
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from tidings.errors import CodecError
from tidings.protocols.amqp.wire.decode import decode_first
from tidings.protocols.amqp.wire.encode import encode_value
from tidings.protocols.amqp.wire.types import (
    AmqpValue,
    Array,
    Described,
    Pairs,
    TypeCode,
    symbol,
    ubyte,
    uint,
    ulong,
    ushort,
)

UINT_MAX = 0xFFFF_FFFF


class AmqpOpen(NamedTuple):
    container_id: str
    hostname: str | None = None
    max_frame_size: int = UINT_MAX
    channel_max: int = 0xFFFF
    idle_time_out: int | None = None
    outgoing_locales: AmqpValue = None
    incoming_locales: AmqpValue = None
    offered_capabilities: AmqpValue = None
    desired_capabilities: AmqpValue = None
    properties: AmqpValue = None


class AmqpBegin(NamedTuple):
    remote_channel: int | None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = UINT_MAX
    offered_capabilities: AmqpValue = None
    desired_capabilities: AmqpValue = None
    properties: AmqpValue = None


class AmqpAttach(NamedTuple):
    name: str
    handle: int
    role: bool  # True: receiver
    snd_settle_mode: int = 2
    rcv_settle_mode: int = 0
    source: AmqpValue = None
    target: AmqpValue = None
    unsettled: AmqpValue = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int = 0
    offered_capabilities: AmqpValue = None
    desired_capabilities: AmqpValue = None
    properties: AmqpValue = None


class AmqpFlow(NamedTuple):
    next_incoming_id: int | None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool = False
    echo: bool = False
    properties: AmqpValue = None


class AmqpTransfer(NamedTuple):
    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool = False
    rcv_settle_mode: int | None = None
    state: AmqpValue = None
    resume: bool = False
    aborted: bool = False
    batchable: bool = False


class AmqpDisposition(NamedTuple):
    role: bool  # True: receiver
    first: int
    last: int | None = None
    settled: bool = False
    state: AmqpValue = None
    batchable: bool = False


class AmqpDetach(NamedTuple):
    handle: int
    closed: bool = False
    error: AmqpValue = None


class AmqpEnd(NamedTuple):
    error: AmqpValue = None


class AmqpClose(NamedTuple):
    error: AmqpValue = None


Performative: TypeAlias = (
    AmqpOpen | AmqpBegin | AmqpAttach | AmqpFlow | AmqpTransfer | AmqpDisposition | AmqpDetach | AmqpEnd | AmqpClose
)


class _Field(NamedTuple):
    name: str
    fits: Callable[[AmqpValue], bool]
    mandatory: bool = False


def _of(*types: type) -> Callable[[AmqpValue], bool]:
    return lambda value: type(value) in types


def _map(value: AmqpValue) -> bool:
    return isinstance(value, (dict, Pairs))


def _names(value: AmqpValue) -> bool:
    return type(value) is symbol or (type(value) is Array and value.code is TypeCode.SYMBOL)


_UINT, _USHORT, _UBYTE, _ULONG, _BOOL, _TEXT = (_of(kind) for kind in (uint, ushort, ubyte, ulong, bool, str))
_BINARY, _DESCRIBED = _of(bytes), _of(Described)
_NAME = _of(str, symbol)  # some libraries send the one for the other


def _many(value: AmqpValue) -> bool:
    """Capabilities: some libraries send a list of symbols."""
    return _names(value) or isinstance(value, list)


_CAPABILITIES = (_Field("offered_capabilities", _many), _Field("desired_capabilities", _many))
_PROPERTIES = _Field("properties", _map)
_ERROR = _Field("error", _DESCRIBED)
_MODE = ("snd_settle_mode", "rcv_settle_mode")
_PERFORMATIVES: dict[int, tuple[Callable[..., Any], str, tuple[_Field, ...]]] = {
    0x10: (
        AmqpOpen,
        "open",
        (
            _Field("container_id", _NAME, True),
            _Field("hostname", _NAME),
            _Field("max_frame_size", _UINT),
            _Field("channel_max", _USHORT),
            _Field("idle_time_out", _UINT),
            _Field("outgoing_locales", _many),
            _Field("incoming_locales", _many),
            *_CAPABILITIES,
            _PROPERTIES,
        ),
    ),
    0x11: (
        AmqpBegin,
        "begin",
        (
            _Field("remote_channel", _USHORT),
            _Field("next_outgoing_id", _UINT, True),
            _Field("incoming_window", _UINT, True),
            _Field("outgoing_window", _UINT, True),
            _Field("handle_max", _UINT),
            *_CAPABILITIES,
            _PROPERTIES,
        ),
    ),
    0x12: (
        AmqpAttach,
        "attach",
        (
            _Field("name", _NAME, True),
            _Field("handle", _UINT, True),
            _Field("role", _BOOL, True),
            *(_Field(name, _UBYTE) for name in _MODE),
            _Field("source", _DESCRIBED),
            _Field("target", _DESCRIBED),
            _Field("unsettled", _map),
            _Field("incomplete_unsettled", _BOOL),
            _Field("initial_delivery_count", _UINT),
            _Field("max_message_size", _ULONG),
            *_CAPABILITIES,
            _PROPERTIES,
        ),
    ),
    0x13: (
        AmqpFlow,
        "flow",
        (
            _Field("next_incoming_id", _UINT),
            _Field("incoming_window", _UINT, True),
            _Field("next_outgoing_id", _UINT, True),
            _Field("outgoing_window", _UINT, True),
            _Field("handle", _UINT),
            _Field("delivery_count", _UINT),
            _Field("link_credit", _UINT),
            _Field("available", _UINT),
            _Field("drain", _BOOL),
            _Field("echo", _BOOL),
            _PROPERTIES,
        ),
    ),
    0x14: (
        AmqpTransfer,
        "transfer",
        (
            _Field("handle", _UINT, True),
            _Field("delivery_id", _UINT),
            _Field("delivery_tag", _BINARY),
            _Field("message_format", _UINT),
            _Field("settled", _BOOL),
            _Field("more", _BOOL),
            _Field("rcv_settle_mode", _UBYTE),
            _Field("state", _DESCRIBED),
            _Field("resume", _BOOL),
            _Field("aborted", _BOOL),
            _Field("batchable", _BOOL),
        ),
    ),
    0x15: (
        AmqpDisposition,
        "disposition",
        (
            _Field("role", _BOOL, True),
            _Field("first", _UINT, True),
            _Field("last", _UINT),
            _Field("settled", _BOOL),
            _Field("state", _DESCRIBED),
            _Field("batchable", _BOOL),
        ),
    ),
    0x16: (AmqpDetach, "detach", (_Field("handle", _UINT, True), _Field("closed", _BOOL), _ERROR)),
    0x17: (AmqpEnd, "end", (_ERROR,)),
    0x18: (AmqpClose, "close", (_ERROR,)),
}
_CODES = {make: code for code, (make, _, _) in _PERFORMATIVES.items()}
_SYMBOLS = {symbol(f"amqp:{name}:list"): code for code, (_, name, _) in _PERFORMATIVES.items()}


def read_performative(body: bytes) -> tuple[Performative, bytes]:
    """The performative of a frame, and the payload behind it."""
    described, end = decode_first(body)
    descriptor = described.descriptor if isinstance(described, Described) else None
    code = _SYMBOLS.get(descriptor) if type(descriptor) is symbol else descriptor if type(descriptor) is ulong else None
    known = _PERFORMATIVES.get(-1 if code is None else code)
    if known is None or not isinstance(described.value, list):
        raise CodecError("E_AMQP_DECODE", "frame does not contain an AMQP performative")
    make, name, fields = known
    values: list[AmqpValue] = described.value
    if len(values) > len(fields):
        raise CodecError("E_AMQP_DECODE", f"{name} has more than {len(fields)} fields")
    found = {}
    for field, value in zip(fields, values, strict=False):
        if value is None:
            continue
        if not field.fits(value):
            raise CodecError("E_AMQP_DECODE", f"{name}: {field.name} is of a wrong type")
        found[field.name] = value
    for field in fields:
        if field.mandatory and field.name not in found:
            raise CodecError("E_AMQP_DECODE", f"{name} without {field.name}")
    if code == 0x11:
        found.setdefault("remote_channel", None)
    elif code == 0x13:
        found.setdefault("next_incoming_id", None)
    performative: Performative = make(**found)
    return performative, body[end:]


_NUMBER_TYPES = {_UINT: uint, _USHORT: ushort, _UBYTE: ubyte, _ULONG: ulong}


def write_performative(performative: Performative) -> bytes:
    """Plain numbers become those of the field's type; None is left out at the end."""
    code = _CODES[type(performative)]
    fields = _PERFORMATIVES[code][2]
    values: list[AmqpValue] = []
    for field, value in zip(fields, performative, strict=True):
        number = _NUMBER_TYPES.get(field.fits)
        values.append(value if number is None or value is None else number(value))
    while values and values[-1] is None:
        values.pop()
    return encode_value(Described(ulong(code), values))
