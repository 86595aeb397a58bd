"""Hermes' messages as bytes: what is written is read again, and nothing else is."""

from dataclasses import fields
from pathlib import Path

import pytest
from hardening.support.strategies_model import names, predicates
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.model.event_type import AttributeType, EventType
from tidings.routing.hermes.codec import (
    LAYOUTS,
    REQUESTS,
    decode,
    decode_answer,
    decode_request,
    decode_types,
    encode,
    encode_types,
)
from tidings.routing.hermes.messages import (
    EchoEvent,
    Estate,
    HermesMessage,
    HermesPublication,
    InterestKind,
    Settled,
    Tell,
    TypeAnswer,
    TypeRequest,
    Untell,
    Verb,
)

U64 = st.integers(0, 2**64 - 1)
TEXTS = st.text(max_size=20)
KINDS, FLAGS, BYTES = st.sampled_from(InterestKind), st.booleans(), st.binary(max_size=40)
TYPES = st.builds(
    EventType,
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters=".*>"), min_size=1, max_size=9),
    st.none() | names,
    st.dictionaries(names, st.sampled_from(AttributeType), max_size=3),
)
CHAINS = st.lists(TYPES, max_size=3).map(tuple)
MESSAGES = st.one_of(
    st.builds(Tell, TEXTS, KINDS, predicates, U64),
    st.builds(Untell, TEXTS, KINDS, predicates, FLAGS),
    st.builds(HermesPublication, TEXTS, FLAGS, FLAGS, FLAGS, BYTES, BYTES),
    st.builds(Settled, TEXTS, BYTES),
    st.builds(EchoEvent, TEXTS, U64, FLAGS),
    st.builds(Estate, TEXTS, CHAINS, st.lists(CHAINS, max_size=3).map(tuple), st.lists(st.integers(1, 99)).map(tuple)),
)


@given(MESSAGES)
def test_what_is_written_is_read_again(message: HermesMessage) -> None:
    assert decode(encode(message)) == message


@given(st.sampled_from(Verb), TEXTS, CHAINS, st.integers(0, 2**32 - 1))
def test_requests_and_answers_too(verb: Verb, text: str, chain: tuple[EventType, ...], router: int) -> None:
    request, answer = TypeRequest(verb, text, chain, router), TypeAnswer(chain, text, text)
    assert decode_request(encode(request)) == request
    assert decode_answer(encode(answer)) == answer
    assert decode_types(encode_types(chain)) == chain


@pytest.mark.parametrize("read", [decode, decode_request, decode_answer])
@given(data=st.binary(max_size=60))
def test_other_bytes_are_refused_or_mean_the_same(read: object, data: bytes) -> None:
    try:
        message = read(data)  # type: ignore[operator]
    except CodecError:
        return
    assert read(encode(message)) == message  # type: ignore[operator]


def test_every_message_has_a_layout_and_bytes_left_over_are_refused() -> None:
    assert {kind.__name__ for kind in LAYOUTS} == {kind.__name__ for kind in HermesMessage.__args__}
    with pytest.raises(CodecError, match="E_CONTROL_TRAILING"):
        decode(encode(Settled("Trade", b"")) + b"x")
    with pytest.raises(CodecError, match="unexpected TypeAnswer"):
        decode_request(encode(TypeAnswer()))


def test_the_documentation_has_every_message_and_field() -> None:
    text = (Path(__file__).parents[4] / "docs" / "wire.md").read_text()
    for kind, (number, layout) in {**LAYOUTS, **REQUESTS}.items():
        said = ", ".join(f"{one.name} {part.name}" for one, part in zip(fields(kind), layout, strict=True))
        assert f"| {number} | {kind.__name__} | {said} |" in text
