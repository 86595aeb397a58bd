"""AMQP's values against Proton's codec, and what the bytes of strangers may not do."""

import contextlib
import struct
from typing import Any

import proton
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.protocols.amqp.wire.decode import decode_first
from tidings.protocols.amqp.wire.encode import encode_value
from tidings.protocols.amqp.wire.types import (
    Array,
    Described,
    TypeCode,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

NUMBERS: dict[Any, tuple[int, int]] = {
    ubyte: (0, 2**8 - 1),
    byte: (-(2**7), 2**7 - 1),
    ushort: (0, 2**16 - 1),
    short: (-(2**15), 2**15 - 1),
    uint: (0, 2**32 - 1),
    int32: (-(2**31), 2**31 - 1),
    ulong: (0, 2**64 - 1),
    timestamp: (-(2**63), 2**63 - 1),
    decimal32: (0, 2**32 - 1),
    decimal64: (0, 2**64 - 1),
}
SAME = {float32: "float32", char: "char", symbol: "symbol", decimal128: "decimal128"}
SAME |= {kind: kind.__name__ for kind in NUMBERS}
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.text("ab", min_size=250, max_size=260)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.floats(width=32, allow_nan=False).map(float32),
    texts,
    st.binary(max_size=300),
    st.uuids(),
    st.text("ab-:", min_size=1, max_size=5).map(symbol),
    st.characters(exclude_categories=["Cs"]).map(char),
    st.binary(min_size=16, max_size=16).map(decimal128),
    *(st.integers(*limits).map(kind) for kind, limits in NUMBERS.items()),
)


def plain(value: Any) -> bool:
    """False for what Proton (0.40) reads wrongly within a described value."""
    return value is not None and not isinstance(value, Described)


values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(texts | st.integers(0, 99).map(ulong), inner, max_size=3),
        st.builds(Described, st.integers(0, 2**40).map(ulong) | st.just(symbol("x:y")), inner.filter(plain)),
    ),
    max_leaves=20,
)


def to_proton(value: Any) -> Any:
    match value:
        case Described():
            return proton.Described(to_proton(value.descriptor), to_proton(value.value))
        case list():
            return [to_proton(one) for one in value]
        case dict():
            return {to_proton(name): to_proton(one) for name, one in value.items()}
    name = SAME.get(type(value))
    return value if name is None else getattr(proton, name)(value)


def from_proton(value: Any) -> Any:
    match value:
        case proton.Described():
            return Described(from_proton(value.descriptor), from_proton(value.value))
        case list():
            return [from_proton(one) for one in value]
        case dict():
            return {from_proton(name): from_proton(one) for name, one in value.items()}
        case memoryview():
            return bytes(value)
    for kind, name in SAME.items():
        if type(value) is getattr(proton, name):
            return kind(value)
    return value


def typed(value: Any) -> Any:
    """With the types, which `==` does not look at."""
    match value:
        case Described():
            return "described", typed(value.descriptor), typed(value.value)
        case list():
            return [typed(one) for one in value]
        case dict():
            return [(typed(name), typed(one)) for name, one in value.items()]
        case float():
            return type(value), struct.pack(">d", value)
    return type(value), value


@settings(max_examples=200)
@given(values)
def test_proton_reads_what_is_written(value: Any) -> None:
    data = proton.Data()
    encoded = encode_value(value)
    assert data.decode(encoded) == len(encoded)
    data.rewind()
    data.next()
    assert typed(from_proton(data.get_object())) == typed(value)


@settings(max_examples=200)
@given(values)
def test_what_proton_writes_is_read(value: Any) -> None:
    data = proton.Data()
    data.put_object(to_proton(value))
    encoded = bytes(data.encode())
    read, end = decode_first(encoded)
    assert (typed(read), end) == (typed(value), len(encoded))


@settings(max_examples=200)
@given(values)
def test_a_value_comes_back(value: Any) -> None:
    encoded = encode_value(value)
    assert typed(decode_first(encoded)[0]) == typed(value)
    assert encode_value(decode_first(encoded)[0]) == encoded


@pytest.mark.parametrize(
    "value",
    [
        Array(TypeCode.INT, (int32(1), int32(-2))),
        Array(TypeCode.SYMBOL, (symbol("a"), symbol("b"))),
        Array(TypeCode.STRING, ("x", "y" * 300), symbol("d"), described=True),
        Array(TypeCode.LIST, ([1, None], [])),
        Array(TypeCode.MAP, ({"a": 1}, {})),
        Array(TypeCode.BOOLEAN, (True, False)),
        Array(TypeCode.ARRAY, (Array(TypeCode.UBYTE, (ubyte(1),)), Array(TypeCode.UBYTE, (ubyte(2),) * 300))),
        Array(TypeCode.NULL, (None, None)),
        Array(TypeCode.CHAR, (char("ä"),)),
    ],
)
def test_an_array_comes_back(value: Array) -> None:
    assert decode_first(encode_value(value))[0] == value


@given(st.binary(max_size=60))
def test_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(CodecError):
        _, end = decode_first(data)
        assert 0 < end <= len(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("f0000000000fffffff40", "longer than its frame"),
        ("f000000005ffffffff40", "more elements than bytes"),
        ("d000000004ffffffff", "more elements than bytes"),
        ("c1020140", "a key that has no value"),
        ("c0030140" + "40", "bytes behind"),
        ("5602", "a boolean"),
        ("a101ff", "not UTF-8"),
        ("a30180", "not ASCII"),
        ("7300110000", "a character"),
        ("3f", "unknown constructor"),
        ("", "longer than its frame"),
    ],
)
def test_malformed_values_are_refused(data: str, reason: str) -> None:
    with pytest.raises(CodecError, match=reason):
        decode_first(bytes.fromhex(data))


@pytest.mark.parametrize("value", [object(), [object()], 2**63, uint(2**32), symbol("ä"), ubyte(256)])
def test_what_amqp_has_no_value_for_is_refused(value: Any) -> None:
    with pytest.raises(CodecError, match="E_AMQP_ENCODE"):
        encode_value(value)
