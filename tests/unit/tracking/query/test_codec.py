import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.model.message_id import MessageId
from tidings.tracking.query.codec import Answered, TraceQuestion, decode, encode
from tidings.tracking.query.path import Hop, Path
from tidings.tracking.query.path_json import from_json, to_json
from tidings.tracking.trace_answer import Statement, TraceAnswer, TraceVerdict

ROUTERS = st.lists(st.integers(0, 2**32 - 1), max_size=5).map(tuple)
PROBABILITY = st.floats(0, 1)
STATEMENTS = st.lists(st.builds(Statement, st.text(max_size=50), PROBABILITY), max_size=4).map(tuple)
ANSWERS = st.builds(
    TraceAnswer,
    st.integers(0, 2**32 - 1),
    st.sampled_from(TraceVerdict),
    PROBABILITY,
    ROUTERS,
    st.none() | ROUTERS,
    STATEMENTS,
    st.integers(0, 10**6),
    st.booleans(),
)
IDS = st.binary(min_size=16, max_size=16).map(MessageId.from_bytes)
LETTERS = st.builds(TraceQuestion, st.integers(0, 2**64 - 1), IDS) | st.builds(
    Answered, st.integers(0, 2**64 - 1), ANSWERS
)


@given(LETTERS)
def test_letters_come_back_as_they_were(letter: TraceQuestion | Answered) -> None:
    assert decode(encode(letter)) == letter


@given(LETTERS, st.data())
def test_letters_that_are_cut_or_longer_are_refused(letter: TraceQuestion | Answered, data: st.DataObject) -> None:
    whole = encode(letter)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for wrong in (whole[:cut], whole + b"\x00"):
        with pytest.raises(CodecError):
            decode(wrong)


@given(st.binary(max_size=80))
def test_noise_is_refused_or_read(noise: bytes) -> None:
    try:
        letter = decode(noise)
    except CodecError:
        return
    assert encode(letter) == noise or letter == decode(encode(letter))


def test_numbers_that_are_no_probability_are_refused() -> None:
    wrong = bytearray(encode(Answered(1, TraceAnswer(3, TraceVerdict.HELD, 0.5))))
    wrong[4:12] = b"\xff" * 8
    with pytest.raises(CodecError, match="E_CONTROL_RANGE"):
        decode(bytes(wrong))
    with pytest.raises(CodecError, match="E_TRACE_KIND"):
        decode(b"\x07")


HOPS = st.builds(Hop, st.integers(0, 9), st.none() | st.integers(0, 9), PROBABILITY, STATEMENTS, ROUTERS, st.booleans())


@given(st.lists(HOPS, max_size=3).map(tuple), IDS)
def test_paths_come_back_from_json(hops: tuple[Hop, ...], message: MessageId) -> None:
    path = Path(message, True, hops, hops[:1], {3: "no route"}, (4,), 5, 6)
    assert from_json(to_json(path)) == path


@pytest.mark.parametrize("wrong", ["", "{}", "[]", '{"message": 3}', "7"])
def test_what_is_no_path_is_refused(wrong: str) -> None:
    with pytest.raises(CodecError, match="E_TRACE_REPORT"):
        from_json(wrong)
