import pickle
from itertools import pairwise

import pytest
from hardening.support.strategies_model import message_ids
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.model.message_id import MessageId, MessageIdSource


@given(message_ids, message_ids)
def test_order_is_the_order_of_the_bytes(a: MessageId, b: MessageId) -> None:
    assert (a < b) == (bytes(a) < bytes(b)) == (str(a) < str(b))
    assert (a == b) == (bytes(a) == bytes(b))


@given(message_ids)
def test_bytes_and_text_both_ways(one: MessageId) -> None:
    assert len(bytes(one)) == 16
    assert MessageId.from_bytes(bytes(one)) == one
    assert MessageId.parse(str(one)) == MessageId.parse(one.jms) == MessageId.parse(str(one).upper()) == one
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("text", "position"),
    [("", 0), ("0" * 31, 31), ("0" * 33, 32), ("ID:" + "0" * 33, 35), ("0" * 20 + "x", 20), ("id:" + "0" * 32, 0)],
)
def test_wrong_text(text: str, position: int) -> None:
    with pytest.raises(UsageError) as caught:
        MessageId.parse(text)
    assert (caught.value.code, caught.value.position) == ("E_MESSAGE_ID_TEXT", position)


def test_wrong_parts() -> None:
    for parts in ((2**32, 0, 0, 0), (0, -1, 0, 0), (0, 0, 2**48, 0), (0, 0, 0, 2**16)):
        with pytest.raises(UsageError, match="E_MESSAGE_ID_RANGE"):
            MessageId(*parts)
    with pytest.raises(UsageError, match="E_MESSAGE_ID_LENGTH"):
        MessageId.from_bytes(b"short")


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(-1000, 1000)), min_size=1))
def test_strictly_increasing_whatever_the_clock_does(steps: list[tuple[int, int]]) -> None:
    source = MessageIdSource(7, 1)
    ids = []
    for now_ms, delta_ms in steps:
        source.adjust(delta_ms)
        assert source.wait_ms(now_ms) == 0
        ids.append(source.next(now_ms))
    made = [one for one in ids if one is not None]
    assert len(made) == len(ids)
    assert all(a < b for a, b in pairwise(made))
    assert {(one.publisher, one.broker) for one in made} == {(7, 1)}


def test_a_full_millisecond_is_waited_out() -> None:
    source = MessageIdSource(7, 1, delta_ms=5)
    counters = [one.counter for _ in range(2**16) if (one := source.next(1000))]
    assert counters == list(range(2**16))
    assert source.next(1000) is None
    assert source.next(990) is None
    assert (source.wait_ms(1000), source.wait_ms(990), source.wait_ms(1001)) == (1, 11, 0)
    assert source.next(1001) == MessageId(7, 1, 1006, 0)


def test_the_correction_moves_the_time() -> None:
    source = MessageIdSource(7, 1)
    source.adjust(-500)
    assert source.next(1000) == MessageId(7, 1, 500, 0)
