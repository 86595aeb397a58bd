import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.model.selector.wire import Cursor, put_list, put_name, put_value, put_varint
from tidings.model.values import Value
from tidings.testing.strategies import names, values


@given(values())
def test_values(value: Value) -> None:
    cursor = Cursor(put_value(value))
    found = cursor.value()
    assert cursor.done
    assert (type(found), str(found)) == (type(value), str(value))


@given(st.lists(values()))
def test_lists(choices: list[Value]) -> None:
    assert list(Cursor(put_list(choices)).values()) == choices


@given(names())
def test_names(name: str) -> None:
    assert Cursor(put_name(name)).name() == name


@given(st.integers(0, 2**64 - 1))
def test_varints(number: int) -> None:
    encoded = put_varint(number)
    assert Cursor(encoded).varint() == number
    assert len(encoded) == max(1, math.ceil(number.bit_length() / 7))


@given(values())
def test_every_cut_is_noticed(value: Value) -> None:
    encoded = put_value(value)
    for size in range(len(encoded)):
        with pytest.raises(CodecError) as caught:
            Cursor(encoded[:size]).value()
        assert (caught.value.code, caught.value.position) == ("E_CODEC_TRUNCATED", size)


@pytest.mark.parametrize(
    ("data", "code", "position"),
    [
        (b"\x02\x80\x00", "E_CODEC_VARINT", 1),
        (b"\x02" + b"\xff" * 9 + b"\x02", "E_CODEC_VARINT", 1),
        (b"\x02" + b"\xff" * 10, "E_CODEC_VARINT", 1),
        (b"\x03" + struct.pack("<d", math.nan), "E_CODEC_NAN", 1),
        (b"\x04\x03ab\xff", "E_CODEC_UTF8", 4),
        (b"\x04\x03\xed\xa0\x80", "E_CODEC_UTF8", 2),
        (b"\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "E_CODEC_TRUNCATED", 11),
        (b"\x07", "E_CODEC_TYPE", 0),
    ],
)
def test_what_is_refused(data: bytes, code: str, position: int) -> None:
    with pytest.raises(CodecError) as caught:
        Cursor(data).value()
    assert (caught.value.code, caught.value.position) == (code, position)
