"""Frames out of bytes that come in any pieces."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.model.codec import encode_frame
from tidings.protocols.native.frames import FrameSplitter, FrameType, RawFrame, decode_fields
from tidings.protocols.native.session import NativeSession
from tidings.protocols.stomp.session import StompSession

FRAMES = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=6)


@given(FRAMES, st.lists(st.integers(1, 30), min_size=1))
def test_pieces_make_no_difference(frames: list[tuple[int, bytes]], sizes: list[int]) -> None:
    stream = b"".join(encode_frame(type, payload) for type, payload in frames)
    splitter, found, at = FrameSplitter(64), list[RawFrame](), 0
    while at < len(stream):
        size = sizes[at % len(sizes)]
        found += splitter.feed(stream[at : at + size])
        at += size
    assert [(one.type, one.payload) for one in found] == frames


def test_a_huge_frame_is_not_copied_for_each_piece_of_it() -> None:
    frame = encode_frame(1, bytes(1 << 22))
    splitter = FrameSplitter(1 << 22)
    buffers: list[bytearray] = []
    found: list[RawFrame] = []
    for at in range(0, len(frame), 4096):
        found += splitter.feed(frame[at : at + 4096])
        if not any(one is splitter._rest for one in buffers):
            buffers.append(splitter._rest)
    assert [len(one.payload) for one in found] == [1 << 22]
    assert len(buffers) == 2, "one that grew in place, and the empty one after it"


def test_a_notice_of_dropped_messages_names_subscription_count_and_reason() -> None:
    (frame,) = FrameSplitter(64).feed(NativeSession().dropped(7, 2**40, "stalled"))
    assert frame.type == FrameType.DROPPED
    assert decode_fields(frame.payload) == {"subscription": 7, "count": 2**40, "reason": "stalled"}


def test_stomp_has_no_place_for_a_notice() -> None:
    assert StompSession().dropped(7, 1, "stalled") == b""
