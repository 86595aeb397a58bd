"""How the broker's STOMP frames are cut into WebSocket messages."""

from itertools import pairwise
from random import Random

import pytest

from tidings.protocols.websocket.messages import MESSAGE_BYTES_MAX, Cutter

WORDS = "é€😀"


def frame(body: bytes) -> bytes:
    return b"MESSAGE\nsubscription:1\ncontent-length:%d\n\n%s\0" % (len(body), body)


RECEIPT = b"RECEIPT\nreceipt-id:1\n\n\0"
TEXT = frame(WORDS.encode())
NULS = frame(b"\0MESS\0AGE\n\0\0")
BYTES = frame(b"\xff\0\n\n\0RECEIPT \0")


def cut(*pieces: bytes) -> list[tuple[bool, bytes]]:
    cutter = Cutter()
    return [message for piece in pieces for message in cutter.cut(piece)]


def test_text_is_one_message() -> None:
    whole = b"\n" + RECEIPT + TEXT + NULS + b"\n"
    assert cut(whole) == [(True, whole)]


def test_text_is_text_wherever_it_breaks_off() -> None:
    whole = RECEIPT + TEXT + NULS
    for first in range(len(whole)):
        for second in range(first, min(first + 4, len(whole))):
            sent = cut(whole[:first], whole[first:second], whole[second:])
            assert all(text for text, _ in sent)
            assert [content.decode() for _, content in sent]
            assert b"".join(content for _, content in sent) == whole


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([TEXT, BYTES], [(True, TEXT), (False, BYTES)]),
        ([BYTES, BYTES, TEXT, RECEIPT], [(False, BYTES * 2), (True, TEXT + RECEIPT)]),
        ([NULS, BYTES, NULS], [(True, NULS), (False, BYTES), (True, NULS)]),
        ([BYTES, b"\n"], [(False, BYTES), (True, b"\n")]),
        ([b"\n\n", RECEIPT, b"\n", BYTES], [(True, b"\n\n" + RECEIPT), (False, b"\n" + BYTES)]),
        ([TEXT[20:], BYTES, TEXT[:-3]], [(True, TEXT[20:]), (False, BYTES), (True, TEXT[:-5])]),
        ([BYTES[-9:], BYTES, RECEIPT[:6]], [(True, BYTES[-9:]), (False, BYTES), (True, RECEIPT[:6])]),
        ([b"\xff\xfe"], [(False, b"\xff\xfe")]),
        ([b"\0MESSAGE\ncontent-length:x\n\n\xff\0"], [(True, b"\0"), (False, b"MESSAGE\ncontent-length:x\n\n\xff\0")]),
    ],
)
def test_a_body_of_bytes_does_not_make_bytes_of_its_neighbours(
    frames: list[bytes], expected: list[tuple[bool, bytes]]
) -> None:
    assert cut(b"".join(frames)) == expected


def test_nothing_is_lost_wherever_a_stream_breaks_off() -> None:
    random = Random(7)
    for _ in range(300):
        whole = b"".join(random.choices([RECEIPT, TEXT, NULS, BYTES, b"\n"], k=12))
        places = sorted([0, len(whole), *random.choices(range(len(whole)), k=4)])
        sent = cut(*(whole[start:end] for start, end in pairwise(places)))
        assert b"".join(content for _, content in sent) == whole
        for text, content in sent:
            assert content
            assert not text or content.decode()


def test_messages_have_a_largest_size_and_end_with_a_character() -> None:
    body = WORDS.encode() * 200_000
    sent = cut(frame(body), frame(b"\xff" * MESSAGE_BYTES_MAX))
    assert [text for text, _ in sent] == [True, True, False, False]
    assert max(len(content) for _, content in sent) <= MESSAGE_BYTES_MAX
    assert b"".join(content for text, content in sent if text).decode().endswith(WORDS + "\0")
