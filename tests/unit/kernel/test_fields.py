"""Fields of control frames are read alike by the kernel and in plain Python."""

from hardening.support.strategies_model import operands, property_names
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.kernel.fields import decode_fields
from tidings.model.values import Value
from tidings.protocols.native.frames import encode_fields, read_fields

FIELDS = st.dictionaries(property_names, operands, max_size=6)


@given(FIELDS)
def test_what_was_encoded_is_read(fields: dict[str, Value]) -> None:
    payload = encode_fields(fields)
    assert decode_fields(payload) == read_fields(payload) == fields
    assert [type(one) for one in (decode_fields(payload) or {}).values()] == [type(one) for one in fields.values()]


@given(FIELDS.map(encode_fields), st.data())
def test_what_is_not_in_order_has_no_answer(payload: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(payload)))
    broken = payload[:at] + data.draw(st.binary(max_size=2)) + payload[at + data.draw(st.integers(0, 2)) :]
    try:
        expected = read_fields(broken)
    except CodecError:
        assert decode_fields(broken) is None
    else:
        assert repr(decode_fields(broken)) == repr(expected)
