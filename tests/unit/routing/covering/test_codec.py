from typing import cast

import pytest
from hardening.support.strategies_model import predicates
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.routing.covering import scheme
from tidings.routing.covering.codec import decode, encode
from tidings.routing.covering.messages import (
    AdvertisementId,
    CoveringAdvertise,
    CoveringMessage,
    CoveringPublication,
    CoveringSubscribe,
    CoveringUnadvertise,
    CoveringUnsubscribe,
    FilterId,
    Join,
    Packed,
    Prune,
)

u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
advertisements = st.builds(AdvertisementId, u32, u64)
subscriptions = st.builds(FilterId, u32, u64)
prunes = st.one_of(st.none(), st.lists(st.builds(Prune, advertisements, u32), max_size=3).map(tuple))
changes = st.one_of(
    st.builds(CoveringSubscribe, subscriptions, predicates), st.builds(CoveringUnsubscribe, subscriptions, prunes)
)
messages: st.SearchStrategy[CoveringMessage] = st.one_of(
    st.builds(Join, u64, u64, u64),
    st.builds(CoveringAdvertise, advertisements, predicates),
    st.builds(CoveringUnadvertise, advertisements),
    changes,
    st.builds(Packed, st.lists(changes, max_size=4).map(tuple)),
    st.builds(CoveringPublication, advertisements, u32, u32, st.binary(max_size=40)),
)


def attempt(data: bytes) -> CoveringMessage | CodecError:
    try:
        return decode(data)
    except CodecError as error:
        return error


@given(messages)
def test_there_and_back(message: CoveringMessage) -> None:
    assert decode(encode(message)) == message


@given(messages, st.data())
def test_a_shortened_message_is_refused(message: CoveringMessage, data: st.DataObject) -> None:
    whole = encode(message)
    with pytest.raises(CodecError) as caught:
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert caught.value.position is not None


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_and_what_is_read_is_written_alike(data: bytes) -> None:
    read = attempt(data)
    if isinstance(read, CodecError):
        assert read.position is None or 0 <= read.position <= len(data)
    else:
        assert encode(read) == data


def test_refusals_say_where() -> None:
    subscribe = encode(CoveringSubscribe(FilterId(1, 1), Predicate.always()))
    for data, code, position in (
        (b"\x09", "E_CONTROL_UNKNOWN", 0),
        (b"\x06\x01\x07", "E_CONTROL_UNKNOWN", 2),
        (encode(CoveringUnadvertise(AdvertisementId(1, 1))) + b"\x00", "E_CONTROL_TRAILING", 3),
        (subscribe[:-1] + b"\x05", "E_CODEC_TRUNCATED", len(subscribe)),
    ):
        with pytest.raises(CodecError) as caught:
            decode(data)
        assert (caught.value.code, caught.value.position) == (code, position)


def test_changes_that_are_too_many_for_one_message_are_said_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheme, "PACKED_BYTES_MAX", 100)
    filter = Predicate.of(Constraint("stock", Op.EQ, "XYZ"))
    changes = [CoveringSubscribe(FilterId(1, number), filter) for number in range(50)]
    said = scheme.encoded(Packed(tuple(changes)))
    assert max(map(len, said)) <= 100
    assert [change for data in said for change in cast("Packed", decode(data)).changes] == changes
    alone = Packed((CoveringSubscribe(FilterId(1, 1), Predicate.of(Constraint("stock", Op.EQ, "x" * 200))),))
    assert scheme.encoded(alone) == [encode(alone)]
