"""The kernel's codec against the reference, and what only batches do."""

import struct
import threading
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hardening.contracts.codec import check_codec, mutated, outcome, random_message
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError, UsageError
from tidings.kernel import codec
from tidings.kernel.codec import MessageBatch
from tidings.model import codec as reference
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId

PUBLISH, DELIVER, CONTROL = 0x10, 0x11, 0x20
EMPTY = Message(Destination("a"))


def publish(message: bytes, receipt: int = 0) -> bytes:
    return reference.encode_frame(PUBLISH, struct.pack("<I", receipt) + message, session=7)


@given(st.randoms(use_true_random=False))
def test_same_bytes_same_messages_same_refusals(rng: Random) -> None:
    check_codec(codec, rng)


def test_same_refusals_in_the_long_run() -> None:
    check_codec(codec, Random(20260101), rounds=1500)


@given(st.binary(max_size=80))
def test_any_text_is_judged_alike(text: bytes) -> None:
    data = reference.encode_message(EMPTY)[:20] + struct.pack("<HHI", 1, 1, len(text) + 4) + b"a\x01n\x04"
    data += bytes((len(text),)) + text
    assert outcome(codec.decode_message, data) == outcome(reference.decode_message, data)


@given(st.integers(0x80, 0x10FFFF), st.binary(max_size=3))
def test_utf8_beyond_ascii(point: int, tail: bytes) -> None:
    text = chr(point).encode("utf-8", "surrogatepass") + tail
    data = reference.encode_message(EMPTY)[:20] + struct.pack("<HHI", 0, len(text), 0) + text
    assert outcome(codec.decode_message, data) == outcome(reference.decode_message, data)


@given(st.randoms(use_true_random=False))
def test_a_batch_shows_what_routing_sees(rng: Random) -> None:
    messages = [random_message(rng) for _ in range(rng.randrange(5))]
    encoded = codec.encode_messages(messages)
    batch = MessageBatch.from_messages(encoded)
    assert (len(batch), batch.consumed, batch.fatal) == (len(messages), len(encoded), None)
    for i, message in enumerate(messages):
        assert batch.message(i) == message
        seen, expected = batch.attributes(i), message.attributes()
        assert {name: (type(value), value) for name, value in seen.items()} == {
            name: (type(value), value) for name, value in expected.items()
        }


@given(st.randoms(use_true_random=False))
def test_a_broken_message_does_not_stop_the_others(rng: Random) -> None:
    whole = [reference.encode_message(random_message(rng)) for _ in range(3)]
    messages = [mutated(rng, one) if rng.random() < 0.5 else one for one in whole]
    data = b"".join(map(publish, messages))
    batch = MessageBatch.from_frames(data)
    assert (len(batch), batch.consumed) == (3, len(data))
    for i, one in enumerate(messages):
        expected = outcome(reference.decode_message, one)
        error = batch.error(i)
        assert (batch.message(i) if error is None else (error.code, error.position)) == expected
        assert batch.is_message(i) == (error is None)
        assert data[batch.offset(i) :].startswith(one)
        assert batch.payload(i) == one


def test_frames_of_all_kinds() -> None:
    message = reference.encode_message(EMPTY)
    frames = [
        publish(message, receipt=9),
        reference.encode_frame(CONTROL, b"hello", flags=3, session=2),
        reference.encode_frame(DELIVER, struct.pack("<IIQ", 1, 2, 3) + message),
    ]
    data = b"".join(frames)
    batch = MessageBatch.from_frames(bytearray(data) + b"\x05\x00")
    assert (len(batch), batch.consumed, batch.fatal) == (3, len(data), None)
    assert batch.frame(0) == (PUBLISH, 0, 7, struct.pack("<I", 9))
    assert batch.frame(1) == (CONTROL, 3, 2, b"")
    assert batch.frame(2) == (DELIVER, 0, 0, struct.pack("<IIQ", 1, 2, 3))
    assert [batch.is_message(i) for i in range(3)] == [True, False, True]
    assert batch.payload(1) == b"hello"
    with pytest.raises(UsageError, match="E_NO_MESSAGE"):
        batch.message(1)
    with pytest.raises(IndexError):
        batch.message(3)
    first = MessageBatch.from_frames(data, stop_at_control=True)
    assert (len(first), first.consumed) == (2, len(frames[0]) + len(frames[1]))


def test_a_frame_too_short_for_what_stands_before_the_message() -> None:
    batch = MessageBatch.from_frames(reference.encode_frame(PUBLISH, b"\x00\x00"))
    error = batch.error(0)
    assert error is not None
    assert (error.code, error.position) == ("E_CODEC_TRUNCATED", 2)


def test_a_long_frame_is_refused_from_its_length_alone() -> None:
    good = publish(reference.encode_message(EMPTY))
    batch = MessageBatch.from_frames(good + b"\xff\xff\xff\xff\x10\x00\x00\x00", payload_bytes_max=100)
    assert (len(batch), batch.consumed) == (1, len(good))
    assert batch.fatal is not None
    assert (batch.fatal.code, batch.fatal.position, batch.fatal.fatal) == ("E_CODEC_LIMIT", len(good), True)
    prefixed = MessageBatch.from_messages(b"\xff\xff\xff\xff", message_bytes_max=100)
    assert prefixed.fatal is not None
    assert prefixed.fatal.code == "E_CODEC_LIMIT"


def test_a_message_that_is_here_already_may_be_of_any_length() -> None:
    long = reference.encode_message(replace(EMPTY, body=bytes(2 << 20)))
    prefixed = MessageBatch.from_messages(len(long).to_bytes(4, "little") + long)
    assert prefixed.is_message(0)
    column = MessageBatch.from_column(long, np.array([len(long)], np.uint64))
    assert column.is_message(0)


def test_only_the_derived_attributes_that_were_asked_for() -> None:
    data = codec.encode_messages([EMPTY])
    assert MessageBatch.from_messages(data, derived=0).attributes(0) == {}
    only = MessageBatch.from_messages(data, derived=codec.DERIVED_DESTINATION | codec.DERIVED_PRIORITY)
    assert only.attributes(0) == {"@topic": "a", "JMSPriority": 4}


def test_the_most_attributes_there_can_be_and_a_duplicate_among_them() -> None:
    names = [f"{i:x}".encode() for i in range(65535)]

    def encode(names: list[bytes]) -> bytes:
        rows = b"".join(bytes((len(name),)) + name + b"\x01" for name in names)
        return reference.encode_message(EMPTY)[:20] + struct.pack("<HHI", len(names), 1, len(rows)) + b"a" + rows

    assert len(codec.decode_message(encode(names)).properties) == 65535
    names[60000] = names[100]
    names[65000] = names[99]
    with pytest.raises(CodecError, match="E_CODEC_DUPLICATE") as caught:
        codec.decode_message(encode(names))
    assert caught.value.position == len(encode(names[:60000])) + 1


def test_a_buffer_that_can_change_is_copied() -> None:
    data = bytearray(codec.encode_messages([EMPTY]))
    batch = MessageBatch.from_messages(data)
    data[:] = bytes(len(data))
    assert batch.message(0) == EMPTY


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"": 1}, "E_NAME_LENGTH"),
        ({"n" * 256: 1}, "E_NAME_LENGTH"),
        ({"@topic": 1}, "E_MESSAGE_NAME"),
        ({"JMSPriority": 1}, "E_MESSAGE_NAME"),
        ({"a": 2**63}, "E_VALUE_RANGE"),
        ({"a": float("nan")}, "E_VALUE_NAN"),
        ({"a": None}, "E_VALUE_TYPE"),
        ({"a": "x\ud800"}, "E_VALUE_TEXT"),
        ({str(i): 1 for i in range(65536)}, "E_MESSAGE_PROPERTIES"),
    ],
)
def test_the_encoder_refuses_what_the_model_refuses(properties: dict[str, object], code: str) -> None:
    message = Message.__new__(Message)
    for field in ("destination", "body", "id", "persistent", "priority"):
        object.__setattr__(message, field, getattr(EMPTY, field))
    for field in ("timestamp_ms", "expiration_ms", "deliver_at_ms", "correlation_id", "reply_to", "type"):
        object.__setattr__(message, field, None)
    object.__setattr__(message, "properties", properties)
    with pytest.raises(UsageError) as kernel:
        codec.encode_message(message)
    assert kernel.value.code == code
    with pytest.raises(UsageError) as model:
        Message(EMPTY.destination, properties)  # type: ignore[arg-type]
    assert (model.value.code, model.value.position) == (code, kernel.value.position)


def test_threads_may_share_a_batch() -> None:
    message = Message(Destination("a"), {"n": 1}, id=MessageId(1, 2, 3))
    batch = MessageBatch.from_messages(codec.encode_messages([message] * 200))
    program = codec.Program(b"\x02\x01n")
    results: list[list[bool | None]] = []
    threads = [threading.Thread(target=lambda: results.append(program.evaluate(batch))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[False] * 200] * 4
