import struct

import pytest
from hardening.support.strategies_model import messages, operands, predicates
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.model import codec
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.model.reader import Reader, varint
from tidings.model.values import INT_MAX, INT_MIN, Value


def decode_value(data: bytes) -> Value:
    reader = Reader(data)
    value = reader.value()
    reader.finish("a value")
    return value


READERS = {
    decode_value: codec.encode_value,
    codec.decode_message: codec.encode_message,
    codec.decode_predicate: codec.encode_predicate,
}


@given(operands)
def test_values_both_ways(value: Value) -> None:
    back = decode_value(codec.encode_value(value))
    assert (type(back), back) == (type(value), value)


@given(messages)
def test_messages_both_ways(message: Message) -> None:
    data = codec.encode_message(message)
    back = codec.decode_message(data)
    assert back == message
    assert codec.encode_message(back) == data


@given(predicates)
def test_predicates_both_ways(predicate: Predicate) -> None:
    assert codec.decode_predicate(codec.encode_predicate(predicate)) == predicate


def accept_or_refuse(decode: object, data: bytes) -> None:
    """What is accepted has no other spelling; what is refused says where."""
    for reader, write in READERS.items():
        if reader is decode:
            try:
                found = reader(data)
            except CodecError as error:
                position = error.position
                if position is None or not (error.code.startswith("E_CODEC_") and 0 <= position <= len(data)):
                    raise
            else:
                assert write(found) == data  # type: ignore[operator]


@given(st.sampled_from(list(READERS)), st.binary(max_size=80))
@settings(max_examples=300)
def test_arbitrary_bytes(decode: object, data: bytes) -> None:
    accept_or_refuse(decode, data)


@given(st.one_of(messages, predicates, operands), st.data())
@settings(max_examples=400)
def test_damaged_bytes(thing: Message | Predicate | Value, data: st.DataObject) -> None:
    if isinstance(thing, Message):
        decode, good = codec.decode_message, bytearray(codec.encode_message(thing))
    elif isinstance(thing, Predicate):
        decode, good = codec.decode_predicate, bytearray(codec.encode_predicate(thing))  # type: ignore[assignment]
    else:
        decode, good = decode_value, bytearray(codec.encode_value(thing))  # type: ignore[assignment]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(good) - 1))
        good[at] = data.draw(st.integers(0, 255))
    accept_or_refuse(decode, bytes(good[: data.draw(st.integers(0, len(good)))]))


@given(st.integers(0, 2**64 - 1))
@example(2**64 - 1)
def test_varints(number: int) -> None:
    signed = (number >> 1) ^ -(number & 1)
    assert INT_MIN <= signed <= INT_MAX
    assert codec.encode_value(signed) == b"\x02" + varint(number)


def message(attributes: bytes = b"", count: int = 0, name: bytes = b"a", **changed: int) -> bytes:
    fixed = {"version": 1, "flags": 0, "priority": 4, "reserved": 0, **changed}
    return struct.pack("<BBBB16xHHI", *fixed.values(), count, len(name), len(attributes)) + name + attributes


def text(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + codec.encode_value(value)


@pytest.mark.parametrize(
    ("data", "code", "position"),
    [
        (b"", "TRUNCATED", 0),
        (message()[:27], "TRUNCATED", 27),
        (message(version=2), "VERSION", 0),
        (message(flags=8), "FLAGS", 1),
        (message(flags=4), "FLAGS", 1),
        (message(priority=10), "PRIORITY", 2),
        (message(reserved=1), "RESERVED", 3),
        (message(name=b""), "DESTINATION", 28),
        (message(name=b"a" * 1025), "DESTINATION", 28),
        (message(name=b"a..b"), "DESTINATION", 30),
        (message(name=b"a."), "DESTINATION", 30),
        (message(name="é*".encode()), "DESTINATION", 30),
        (message(name=b"ab\xff"), "UTF8", 30),
        (message(name=b"a\xed\xa0\x80"), "UTF8", 29),
        (message(b"\x01x\x00")[:-1], "TRUNCATED", 31),
        (message(b"\x01x\x00", 2), "TRUNCATED", 32),
        (message(b"\x01x\x00", 0), "TRAILING", 29),
        (message(b"\x00", 1), "NAME", 29),
        (message(b"\x02x", 1), "TRUNCATED", 31),
        (message(b"\x02@x\x00", 1), "NAME", 30),
        (message(text("JMSPriority", "x"), 1), "NAME", 30),
        (message(b"\x01x\x00\x01x\x01", 2), "DUPLICATE", 33),
        (message(b"\x01x\x00" + text("JMSType", "t"), 2), "ORDER", 33),
        (message(text("JMSType", "t") + text("JMSCorrelationID", "c"), 2), "ORDER", 41),
        (message(text("JMSType", "t") * 2, 2), "DUPLICATE", 41),
        (message(b"\x07JMSType\x01", 1), "TYPE", 37),
        (message(b"\x01x\x06\x00", 1), "TYPE", 31),
        (message(b"\x01x\x08", 1), "TYPE", 31),
        (message(text("JMSReplyTo", "a"), 1), "DESTINATION", 42),
        (message(text("JMSReplyTo", "topic:a.*"), 1), "DESTINATION", 50),
        (message(text("JMSReplyTo", "queue:"), 1), "DESTINATION", 48),
        (message(b"\x0cJMSTimestamp\x02\x01", 1), "RANGE", 42),
        (message(b"\x0dJMSExpiration\x02\x00", 1, flags=4), "RANGE", 43),
        (message(b"\x0dJMSExpiration\x02\x02", 1), "FLAGS", 1),
        (message(b"\x01x\x03" + struct.pack("<d", float("nan")), 1), "NAN", 32),
        (message(b"\x01x\x04\x02a\xff", 1), "UTF8", 34),
        (message(b"\x01x\x05\x02a", 1), "TRUNCATED", 34),
        (message(b"\x01x\x02\x80\x00", 1), "VARINT", 32),
        (message(b"\x01x\x02" + b"\xff" * 9 + b"\x02", 1), "VARINT", 32),
        (message(b"\x01x\x02" + b"\xff" * 10 + b"\x01", 1), "VARINT", 32),
    ],
)
def test_refused_messages(data: bytes, code: str, position: int) -> None:
    with pytest.raises(CodecError) as caught:
        codec.decode_message(data)
    assert (caught.value.code, caught.value.position) == (f"E_CODEC_{code}", position)


EXISTS_A, MISSING_A = b"\x0d\x01a", b"\x0e\x01a"


@pytest.mark.parametrize(
    ("data", "code", "position"),
    [
        (b"", "TRUNCATED", 0),
        (b"\x00", "TRUNCATED", 1),
        (b"\x00\x00\x00", "TRAILING", 2),
        (b"\x00\x01", "TRUNCATED", 2),
        (b"\x00\x81\x80\x04", "LIMIT", 1),
        (b"\xff" * 9 + b"\x01", "TRUNCATED", 10),
        (b"\x02\x00\x00\x00", "ORDER", 2),
        (b"\x01\x02" + MISSING_A + EXISTS_A + b"\x00", "ORDER", 5),
        (b"\x01\x02" + EXISTS_A + EXISTS_A + b"\x00", "ORDER", 5),
        (b"\x01\x01\x00\x01a\x00", "OPERATOR", 2),
        (b"\x01\x01\x0f\x01a\x00", "OPERATOR", 2),
        (b"\x01\x01\x8d\x01a\x00", "OPERATOR", 2),
        (b"\x01\x01\x01\x00\x00", "NAME", 3),
        (b"\x01\x01\x01\x01a\x06\x00\x00", "TYPE", 5),
        (b"\x01\x01\x07\x01a\x00\x00", "TYPE", 5),
        (b"\x01\x01\x08\x01a\x05\x00\x00", "TYPE", 5),
        (b"\x01\x01\x07\x01a\x06\x01\x06\x00\x00", "TYPE", 7),
        (b"\x01\x01\x07\x01a\x06\x02\x02\x04\x02\x02\x00", "ORDER", 9),
        (b"\x01\x01\x01\x01a\x03" + struct.pack("<d", 1.0) + b"\x00", "CANONICAL", 6),
        (b"\x01\x01\x01\x01a\x03" + struct.pack("<d", -0.0) + b"\x00", "CANONICAL", 6),
    ],
)
def test_refused_predicates(data: bytes, code: str, position: int) -> None:
    with pytest.raises(CodecError) as caught:
        codec.decode_predicate(data)
    assert (caught.value.code, caught.value.position) == (f"E_CODEC_{code}", position)


def test_the_bytes_of_a_message() -> None:
    one = Message(
        Destination("a.b", queue=True),
        {"n": -1, "x": 0.5, "s": "é", "b": b"\0", "t": True},
        b"body",
        MessageId(1, 2, 3, 4),
        persistent=True,
        priority=9,
        expiration_ms=150,
    )
    assert codec.encode_message(one).hex(" ", 4) == (
        bytes.fromhex(
            "01070900 00000001 00000002 00000000 00030004 06000300 2e000000 612e62"
            "0d4a4d5345787069726174696f6e 02ac02 016e0201 017803000000000000e03f 01730402c3a9 0162050100 017401"
        )
        + b"body"
    ).hex(" ", 4)


def test_the_bytes_of_a_predicate() -> None:
    predicate = Predicate(
        [[Constraint("b", Op.IN, ("x", 2, True), negated=True), Constraint("a", Op.EXISTS)], []], b"program"
    )
    assert codec.encode_predicate(predicate) == (
        b"\x02\x00\x02\x0d\x01a\x87\x01b\x06\x03\x01\x02\x04\x04\x01x" + b"\x07program"
    )
