from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.errors import CodecError, UsageError
from tidings.overlay.link.greeting import Goodbye, Greeting, LinkPing, Pong, Refuse, Welcome
from tidings.routing.control.codec import CONTROL_BYTES_MAX, LAYOUTS, decode, encode
from tidings.routing.control.messages import (
    Control,
    FloodAck,
    FloodItem,
    FloodSummary,
    Known,
    SchemeMessage,
    StoreMarks,
    Taken,
    VectorRequest,
    VectorRoute,
    VectorUpdate,
    Version,
)

u8, u32, u64 = st.integers(0, 255), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
text = st.text(max_size=50)
version = st.builds(Version, u64, u64)
parameters = st.lists(st.tuples(text, text), max_size=3).map(tuple)
messages: st.SearchStrategy[Control] = st.one_of(
    st.builds(Greeting, text, u32, u64, u32, u32, parameters),
    st.just(Welcome()),
    st.builds(Refuse, text, text),
    st.builds(Goodbye, text),
    st.builds(LinkPing, u64),
    st.builds(Pong, u64),
    st.builds(FloodItem, u8, u32, version, u32, st.booleans(), st.binary(max_size=40)),
    st.builds(FloodAck, u8, u32, version),
    st.builds(FloodSummary, st.lists(st.builds(Known, u8, u32, version), max_size=4).map(tuple), st.booleans()),
    st.builds(VectorUpdate, st.lists(st.builds(VectorRoute, u32, version, u32), max_size=4).map(tuple), st.booleans()),
    st.builds(VectorRequest, u32, version, u8),
    st.builds(SchemeMessage, u8, st.binary(max_size=40)),
    st.builds(Taken, st.lists(u64, max_size=5).map(tuple)),
    st.builds(StoreMarks, u64, u64),
)


def attempt(data: bytes) -> Control | CodecError:
    try:
        return decode(data)
    except CodecError as error:
        return error


@given(messages)
def test_there_and_back(message: Control) -> None:
    assert decode(encode(message)) == message


@given(messages, st.data())
def test_a_shortened_message_is_refused_where_it_ends(message: Control, data: st.DataObject) -> None:
    whole = encode(message)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CodecError) as caught:
        decode(whole[:cut])
    assert caught.value.position is not None
    assert 0 <= caught.value.position <= cut


@given(st.binary(max_size=60) | st.builds(lambda m, tail: encode(m) + tail, messages, st.binary(max_size=3)))
@example(b"")
@example(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
@example(b"\x05" + b"\xff" * 10 + b"\x01")
def test_arbitrary_bytes_are_a_message_in_its_only_form_or_refused(data: bytes) -> None:
    found = attempt(data)
    if isinstance(found, CodecError):
        assert found.code.startswith("E_CONTROL_")
        assert found.position is not None
        assert 0 <= found.position <= len(data)
    else:
        assert encode(found) == data


@given(messages, st.data())
def test_a_changed_byte_never_crashes(message: Control, data: st.DataObject) -> None:
    changed = bytearray(encode(message))
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(u8)
    again = attempt(bytes(changed))
    assert isinstance(again, CodecError) or encode(again) == bytes(changed)


@pytest.mark.parametrize(
    ("data", "code", "position"),
    [
        (b"\x63", "E_CONTROL_UNKNOWN", 0),
        (b"\x02\x00", "E_CONTROL_TRAILING", 1),
        (b"\x05\x80\x00", "E_CONTROL_VARINT", 1),
        (b"\x05" + b"\xff" * 9 + b"\x02", "E_CONTROL_VARINT", 1),
        (b"\x04\x02\xc3\x28", "E_CONTROL_UTF8", 2),
        (b"\x12\x00\x02", "E_CONTROL_RANGE", 2),
        (b"\x04\x81\x08", "E_CONTROL_RANGE", 1),
        (b"\x20\x05\x01", "E_CONTROL_TRUNCATED", 3),
    ],
)
def test_each_refusal_has_code_and_position(data: bytes, code: str, position: int) -> None:
    with pytest.raises(CodecError) as caught:
        decode(data)
    assert (caught.value.code, caught.value.position) == (code, position)


def test_as_long_as_the_longest_message_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = SchemeMessage(2, bytes(CONTROL_BYTES_MAX + 1))
    assert decode(encode(longest)) == longest
    monkeypatch.setattr("tidings.routing.control.codec.SCHEME_BYTES_MAX", 100)
    for wrong in (encode(SchemeMessage(2, bytes(101))), bytes(CONTROL_BYTES_MAX + 1)):
        with pytest.raises(CodecError, match="E_CONTROL_SIZE"):
            decode(wrong)


def test_ranges() -> None:
    with pytest.raises(UsageError, match="E_CONTROL_RANGE"):
        encode(LinkPing(2**64))
    with pytest.raises(UsageError, match="E_CONTROL_RANGE"):
        encode(LinkPing(-1))
    long = decode(encode(Goodbye("ä" * 5000)))
    assert long == Goodbye("ä" * 512)


def test_every_message_of_the_union_has_its_number_and_is_documented() -> None:
    assert set(LAYOUTS) == set(get_args(Control))
    assert len({number for number, _ in LAYOUTS.values()}) == len(LAYOUTS)
    documented = (Path(__file__).parents[4] / "docs" / "wire.md").read_text()
    for kind, (number, layout) in LAYOUTS.items():
        parts = ", ".join(f"{f.name} {part.name}" for f, part in zip(fields(kind), layout, strict=True)) or "–"
        assert f"| {number} | {kind.__name__} | {parts} |" in documented
