"""Exact lists of ids: nothing is lost, nothing is believed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.tracking.ids import as_ids
from tidings.tracking.recording.log_codec import decode_ids, encode_ids

rows = st.lists(st.binary(min_size=16, max_size=16), max_size=50)


def refusal(data: bytes) -> CodecError | None:
    try:
        assert decode_ids(data).shape[1] == 16
    except CodecError as error:
        return error
    return None


@given(rows)
def test_the_ids_come_back_sorted(ids: list[bytes]) -> None:
    decoded = decode_ids(encode_ids(as_ids(b"".join(ids))))
    assert [row.tobytes() for row in decoded] == sorted(ids)


@given(rows, st.data())
def test_any_damage_is_refused_or_gives_as_many_ids(ids: list[bytes], data: st.DataObject) -> None:
    encoded = bytearray(encode_ids(as_ids(b"".join(ids))))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    error = refusal(bytes(encoded))
    if error is None:
        assert len(decode_ids(bytes(encoded))) == len(ids)
    else:
        assert error.position in range(len(encoded) + 1)


@given(st.binary(max_size=60))
def test_any_bytes_are_ids_or_a_codec_error(data: bytes) -> None:
    error = refusal(data)
    assert error is None or error.code in {"E_LOG_SHORT", "E_LOG_DEFLATE", "E_LOG_LENGTH"}


def test_a_bomb_is_not_inflated() -> None:
    bomb = encode_ids(np.zeros((1_000_000, 16), np.uint8))
    assert len(bomb) < 20_000
    with pytest.raises(CodecError, match="E_LOG_LENGTH"):
        decode_ids((3).to_bytes(4, "little") + bomb[4:])
