"""The native protocol's frames (docs/wire.md): types, and the fields that control frames carry.

>>> decode_fields(encode_fields({"receipt": 7, "destination": "ticks.>"}))
{'receipt': 7, 'destination': 'ticks.>'}
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeVar

from tidings.errors import CodecError, RemoteProtocolError
from tidings.kernel import fields as kernel_fields
from tidings.model.codec import encode_frame
from tidings.model.reader import Reader, value_of, varint
from tidings.model.values import Value

VERSION = 1
HEADER_BYTES = 8
FIELDS_MAX = 64
ACK_CUMULATIVE, ACK_RETRY, ACK_DEAD, ACK_RELEASE, ACK_ELSEWHERE, ACK_WITH_COMMIT = 1, 2, 4, 8, 16, 32
ACK_FLAGS_MAX = 63
_HEADER = struct.Struct("<IBBH")
_ACK = struct.Struct("<IBI")
_PAIR = struct.Struct("<II")
_DELIVERY = struct.Struct("<IIQ")
_RETAINED = struct.Struct("<IQ")


class FrameType(IntEnum):
    HELLO = 0x01
    WELCOME = 0x02
    ERROR = 0x03
    OK = 0x04
    PING = 0x05
    PONG = 0x06
    CLOSE = 0x07
    CLOCK = 0x08
    IDENTIFY = 0x09
    PUBLISH = 0x10
    DELIVER = 0x11
    RECEIPTS = 0x12
    REFUSED = 0x13
    RETAINED = 0x14
    DROPPED = 0x15
    SUBSCRIBE = 0x20
    UNSUBSCRIBE = 0x21
    CREDIT = 0x22
    ACK = 0x23
    BEGIN = 0x24
    COMMIT = 0x25
    ROLLBACK = 0x26
    TRACE = 0x27
    RETAIN = 0x28
    READ = 0x29
    RELEASE = 0x2A
    DRAIN = 0x2B
    TEMPORARY = 0x2C
    BROWSE = 0x2D
    PURGE = 0x2E
    MOVE = 0x2F
    ADVERTISE = 0x30
    INSPECT = 0x31
    TYPE = 0x32
    SYNC = 0x33
    KEEP = 0x34
    RECALL = 0x35
    LINGER = 0x36
    CREATE = 0x37
    DELETE = 0x38
    DISCONNECT = 0x39


class RawFrame(NamedTuple):
    type: int
    flags: int
    session: int
    payload: bytes


def control(type: FrameType, fields: Mapping[str, Value], *, session: int = 0) -> bytes:
    """A control frame; fields that are empty text, 0 or False say nothing and are left out."""
    said = {name: value for name, value in fields.items() if value not in ("", 0, False)}
    return encode_frame(type, encode_fields(said), session=session)


def encode_fields(fields: Mapping[str, Value]) -> bytes:
    parts = [varint(len(fields))]
    for name, value in fields.items():
        encoded = name.encode()
        parts += (bytes((len(encoded),)), encoded, value_of(value))
    return b"".join(parts)


def decode_fields(payload: bytes) -> dict[str, Value]:
    fields = kernel_fields.decode_fields(payload)
    return read_fields(payload) if fields is None else fields


def read_fields(payload: bytes) -> dict[str, Value]:
    """The same in plain Python, which says what is wrong and where."""
    reader = Reader(payload)
    count = reader.varint()
    if count > FIELDS_MAX:
        raise CodecError("E_FRAME_FIELDS", f"a control frame can have at most {FIELDS_MAX} fields", position=0)
    fields: dict[str, Value] = {}
    for _ in range(count):
        name = reader.name()
        fields[name] = reader.value()
    reader.finish("fields")
    return fields


T = TypeVar("T", bool, int, str, bytes)


def field(fields: Mapping[str, Value], name: str, kind: type[T]) -> T:
    """A field of this type; if it is not there, the type's zero."""
    value = fields.get(name)
    if value is None:
        return kind()
    if type(value) is not kind:
        raise RemoteProtocolError("E_FRAME_FIELD", f"{name} must be {kind.__name__}", fatal=False)
    return value


def unsigned(fields: Mapping[str, Value], name: str, bits: int = 32) -> int:
    value = field(fields, name, int)
    if not 0 <= value < 1 << bits:
        raise RemoteProtocolError("E_FRAME_FIELD", f"{name} must be from 0 to 2^{bits} - 1", fatal=False)
    return value


def encode_publish(receipt: int, message: bytes, session: int = 0, flags: int = 0) -> bytes:
    return encode_frame(FrameType.PUBLISH, receipt.to_bytes(4, "little") + message, flags, session)


def encode_ack(subscription: int, tags: Iterable[int], flags: int = 0, *, session: int = 0) -> bytes:
    all_tags = tuple(tags)
    payload = _ACK.pack(subscription, flags, len(all_tags)) + struct.pack(f"<{len(all_tags)}Q", *all_tags)
    return encode_frame(FrameType.ACK, payload, session=session)


def decode_ack(payload: bytes) -> tuple[int, int, tuple[int, ...]]:
    """Subscription, flags, tags."""
    if len(payload) < _ACK.size:
        raise CodecError("E_CODEC_TRUNCATED", "truncated acknowledgement", position=len(payload))
    subscription, flags, count = _ACK.unpack_from(payload)
    if flags > ACK_FLAGS_MAX:
        raise CodecError("E_FRAME_ACK", "unknown flag in an acknowledgement", position=4)
    if len(payload) != _ACK.size + 8 * count:
        raise CodecError("E_FRAME_ACK", "acknowledgement length does not match its number of tags", position=5)
    return subscription, flags, struct.unpack_from(f"<{count}Q", payload, _ACK.size)


def encode_credit(subscription: int, more: int) -> bytes:
    return encode_frame(FrameType.CREDIT, _PAIR.pack(subscription, more))


def decode_credit(payload: bytes) -> tuple[int, int]:
    """Subscription, more."""
    if len(payload) != _PAIR.size:
        raise CodecError("E_FRAME_CREDIT", "CREDIT must have 8 bytes", position=0)
    subscription, more = _PAIR.unpack(payload)
    return subscription, more


def encode_tags(tags: Iterable[int]) -> bytes:
    """Tags as the value of a field."""
    return b"".join(tag.to_bytes(8, "little") for tag in tags)


def decode_tags(value: bytes) -> tuple[int, ...]:
    if len(value) % 8:
        raise RemoteProtocolError("E_FRAME_FIELD", "the length of tags must be a multiple of 8 bytes", fatal=False)
    return struct.unpack(f"<{len(value) // 8}Q", value)


def decode_delivery(payload: bytes) -> tuple[int, int, int, bytes]:
    """Subscription, attempt, tag, message."""
    if len(payload) < _DELIVERY.size:
        raise CodecError("E_CODEC_TRUNCATED", "truncated delivery", position=len(payload))
    subscription, attempt, tag = _DELIVERY.unpack_from(payload)
    return subscription, attempt, tag, payload[_DELIVERY.size :]


def decode_receipts(payload: bytes) -> tuple[int, ...]:
    count = len(payload) // 4 - 1
    if len(payload) % 4 or count < 0 or int.from_bytes(payload[:4], "little") != count:
        raise CodecError("E_FRAME_RECEIPTS", "frame length does not match its number of receipts", position=0)
    return struct.unpack_from(f"<{count}I", payload, 4)


def encode_retained(receipt: int, offset: int, message: bytes) -> bytes:
    return encode_frame(FrameType.RETAINED, _RETAINED.pack(receipt, offset) + message)


def decode_retained(payload: bytes) -> tuple[int, int, bytes]:
    """Receipt, offset, message."""
    if len(payload) < _RETAINED.size:
        raise CodecError("E_CODEC_TRUNCATED", "truncated retained message", position=len(payload))
    receipt, offset = _RETAINED.unpack_from(payload)
    return receipt, offset, payload[_RETAINED.size :]


def whole_frame(data: bytes, at: int) -> int:
    """The size of the frame at this place; 0: it is not complete."""
    if len(data) - at < HEADER_BYTES:
        return 0
    size = HEADER_BYTES + int.from_bytes(data[at : at + 4], "little")
    return size if len(data) - at >= size else 0


class FrameSplitter:
    """Bytes as they come from a socket, frames out. What is incomplete is looked at again only when it is complete."""

    def __init__(self, payload_bytes_max: int) -> None:
        self.payload_bytes_max = payload_bytes_max
        self._rest = bytearray()
        self._needed = 0  # bytes of `_rest` before there is anything to do

    def feed(self, data: bytes) -> Iterator[RawFrame]:
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return
            data = bytes(self._rest)
        start, end, self._needed = 0, len(data), HEADER_BYTES
        while end - start >= HEADER_BYTES:
            length, type, flags, session = _HEADER.unpack_from(data, start)
            if length > self.payload_bytes_max:
                raise RemoteProtocolError("E_CODEC_LIMIT", f"frame of {length} bytes exceeds the agreed maximum")
            stop = start + HEADER_BYTES + length
            if stop > end:
                self._needed = HEADER_BYTES + length
                break
            yield RawFrame(type, flags, session, data[start + HEADER_BYTES : stop])
            start = stop
        self._rest = bytearray(data[start:])
