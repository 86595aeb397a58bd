"""Pan's messages as bytes: what is written is read again, and nothing else is."""

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.overlay.pan import Contact
from tidings.overlay.pan.messages import (
    Beat,
    Depart,
    Enter,
    Others,
    PanAsk,
    PanHello,
    PanMessage,
    PanReply,
    Probe,
    ProbeEcho,
    Routed,
    Spare,
)
from tidings.routing.control.pan_codec import LAYOUTS, decode, encode

IDS = st.integers(0, 2**128 - 1)
CONTACT = st.builds(Contact, IDS, st.integers(0, 2**32 - 1), st.text(max_size=30))
CONTACTS = st.lists(CONTACT, max_size=4).map(tuple)
U64 = st.integers(0, 2**64 - 1)
MICROS = st.integers(0, 10**9).map(lambda micros: micros / 1000)
BYTE = st.integers(0, 255)
MESSAGES = st.one_of(
    st.builds(Routed, IDS, CONTACT, st.binary(max_size=50), U64, st.integers(0, 64)),
    st.builds(PanReply, U64, st.binary(max_size=50)),
    st.builds(Enter, CONTACT, BYTE, BYTE),
    st.builds(Others, CONTACTS, st.booleans(), st.booleans()),
    st.builds(PanAsk, st.integers(-2, 32)),
    st.builds(PanHello, st.none() | MICROS, st.text(max_size=30)),
    st.builds(Beat, CONTACTS, st.booleans()),
    st.builds(Depart, CONTACTS),
    st.builds(Probe, U64),
    st.builds(ProbeEcho, U64),
    st.builds(Spare),
)


@given(MESSAGES)
def test_what_is_written_is_read_again(message: PanMessage) -> None:
    assert decode(encode(message)) == message


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_mean_the_same(data: bytes) -> None:
    try:
        message = decode(data)
    except CodecError:
        return
    assert decode(encode(message)) == message


def test_every_message_has_a_layout_and_bytes_left_over_are_refused() -> None:
    assert {kind.__name__ for kind in LAYOUTS} == {kind.__name__ for kind in PanMessage.__args__}
    with pytest.raises(CodecError, match="E_CONTROL_TRAILING"):
        decode(encode(Probe(1)) + b"x")


def test_the_documentation_has_every_message_and_field() -> None:
    text = (Path(__file__).parents[4] / "docs" / "wire.md").read_text()
    for kind, (number, layout) in LAYOUTS.items():
        said = ", ".join(f"{one.name} {part.name}" for one, part in zip(fields(kind), layout, strict=True))
        assert f"| {number} | {kind.__name__} | {said} |" in text
