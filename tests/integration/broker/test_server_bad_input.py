"""Bytes that are not what they should be, over real sockets: that connection ends with a reason, no other notices."""

import asyncio
import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.client import connect
from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.node.limits import BrokerLimits
from tidings.protocols.native.frames import (
    FrameSplitter,
    FrameType,
    RawFrame,
    control,
    decode_fields,
    encode_ack,
    encode_credit,
)
from tidings.testing.local_broker import Local, local_broker, run

HELLO = control(FrameType.HELLO, {"version": 1, "user": "u"})
MESSAGE = encode_message(Message(Destination.parse("a.b"), {"n": 1, "s": "text"}, b"body"))
GOOD = [
    control(
        FrameType.SUBSCRIBE, {"receipt": 1, "subscription": 1, "destination": "a.>", "credit": 10, "selector": "n = 1"}
    ),
    control(FrameType.SUBSCRIBE, {"receipt": 2, "subscription": 2, "destination": "queue:q", "credit": 10}),
    encode_frame(FrameType.PUBLISH, struct.pack("<I", 3) + MESSAGE),
    control(FrameType.BEGIN, {"receipt": 4}, session=1),
    encode_frame(FrameType.PUBLISH, struct.pack("<I", 5) + MESSAGE, session=1),
    control(FrameType.COMMIT, {"receipt": 6}, session=1),
    encode_ack(2, (1, 2)),
    encode_credit(1, 5),
    control(FrameType.UNSUBSCRIBE, {"receipt": 7, "subscription": 1}),
    encode_frame(FrameType.PING, b""),
]
FRAMES = st.one_of(
    st.binary(max_size=40),
    st.builds(encode_frame, st.integers(0, 255), st.binary(max_size=40)),
    st.sampled_from(GOOD),
    st.tuples(st.sampled_from([HELLO, *GOOD]), st.integers(0, 1 << 30), st.integers(1, 255)).map(
        lambda one: _flipped(*one)
    ),
)


def _flipped(frame: bytes, at: int, bits: int) -> bytes:
    at %= len(frame)
    return frame[:at] + bytes((frame[at] ^ bits,)) + frame[at + 1 :]


async def send(here: Local, data: bytes) -> list[RawFrame]:
    """What the broker answers until it, or we, have had enough."""
    reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
    writer.write(data)
    writer.write_eof()
    splitter, frames = FrameSplitter(1 << 20), list[RawFrame]()
    try:
        while got := await asyncio.wait_for(reader.read(65536), 20):
            frames += splitter.feed(got)
    except ConnectionError:
        pass
    writer.close()
    return frames


@pytest.mark.parametrize("first", [b"", HELLO])
def test_garbage_hurts_nobody_else(first: bytes, caplog: pytest.LogCaptureFixture) -> None:
    inputs: list[bytes] = []

    @settings(max_examples=150, database=None)
    @given(st.lists(FRAMES, max_size=6).map(b"".join))
    def gather(data: bytes) -> None:
        inputs.append(data)

    gather()

    async def check() -> None:
        async with local_broker(limits=BrokerLimits(login_seconds=1)) as here, connect(here.url) as witness:
            seen = await witness.subscribe("witness")
            for start in range(0, len(inputs), 50):
                await asyncio.gather(*(send(here, first + data) for data in inputs[start : start + 50]))
            await witness.publish("witness", wait=True)
            assert await seen.receive(10) is not None
            assert witness.generation == 1
            assert len(here.broker.clients.connections) == 1

    run(check())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (struct.pack("<IBBH", 0xFFFF_FFFF, FrameType.HELLO, 0, 0), "E_CODEC_LIMIT"),
        (struct.pack("<IBBH", (64 << 10) + 1, FrameType.HELLO, 0, 0), "E_CODEC_LIMIT"),
        (encode_frame(FrameType.PING, b""), "E_FRAME_UNEXPECTED"),
        (encode_frame(0x7F, b""), "E_FRAME_TYPE"),
        (encode_frame(FrameType.PUBLISH, struct.pack("<I", 1) + MESSAGE), "E_"),
        (encode_frame(FrameType.HELLO, b"\xff"), "E_CODEC"),
        (control(FrameType.HELLO, {"version": 99}), "E_VERSION"),
        (HELLO + HELLO, "E_FRAME_UNEXPECTED"),
        (HELLO + encode_frame(FrameType.PUBLISH, b"\x01\x00\x00\x00" + MESSAGE[:-6]), "E_CODEC"),
        (HELLO + struct.pack("<IBBH", 0xFFFF_FFFF, FrameType.PUBLISH, 0, 0), "E_CODEC_LIMIT"),
    ],
)
def test_what_is_wrong_is_answered_with_a_code(data: bytes, code: str) -> None:
    async def check() -> RawFrame:
        async with local_broker() as here:
            frames = await send(here, data)
            return frames[-1]

    last = run(check())
    fields = decode_fields(last.payload)
    assert last.type == FrameType.ERROR
    assert str(fields["code"]).startswith(code)
    assert fields["fatal"] is True


def test_a_frame_in_any_pieces_is_the_same_frame() -> None:
    async def check() -> None:
        async with local_broker() as here:
            data, rng = HELLO + GOOD[0] + GOOD[2], random.Random(7)
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            while data:
                size = rng.randint(1, 7)
                writer.write(data[:size])
                await writer.drain()
                await asyncio.sleep(0)
                data = data[size:]
            splitter, types = FrameSplitter(1 << 20), list[int]()
            while len(types) < 4:
                types += [frame.type for frame in splitter.feed(await asyncio.wait_for(reader.read(65536), 30))]
            assert sorted(types) == sorted([FrameType.WELCOME, FrameType.OK, FrameType.DELIVER, FrameType.RECEIPTS])
            writer.close()

    run(check())
