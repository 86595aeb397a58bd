"""The sending half of the load generator, over sockets that do not take everything at once."""

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from tidings.lab.connections import Bench, LoadStream
from tidings.lab.generator import Sender, saturate
from tidings.lab.load_protocols import LoadPlan, NativeLoad, StompLoad
from tidings.lab.saturation import copies_of
from tidings.lab.workloads import SETUPS
from tidings.model.codec import encode_frame
from tidings.protocols.native.frames import FrameType


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("read_bytes", [1, 100, 4095, 4096, 70_000])
def test_frames_of_stomp_are_counted_however_they_come(read_bytes: int) -> None:
    stream = StompLoad().block(LoadPlan("a", b"body"), 3000)
    counter, buffer, count = StompLoad().deliveries(LoadPlan("a")), bytearray(b"\0" * 70_000), 0
    for start in range(0, len(stream), read_bytes):
        part = stream[start : start + read_bytes]
        buffer[: len(part)] = part
        before = count
        count += counter.feed(buffer, len(part))
        assert count - before == part.count(b"\0")
    assert count == 3000


@pytest.mark.parametrize("read_bytes", [1, 30, 100, 1000, 70_000])
def test_the_last_whole_delivery_is_acknowledged_however_it_comes(read_bytes: int) -> None:
    message = NativeLoad().block(LoadPlan("a", b"body"), 1)[12:]  # without the frame's header and the receipt
    first = 5_000_000_000  # a subscription that was there before
    frames = [encode_frame(FrameType.DELIVER, struct.pack("<IIQ", 1, 1, first + n) + message) for n in range(500)]
    stream, counter, buffer, count = (
        b"".join(frames),
        NativeLoad().deliveries(LoadPlan("a", b"body")),
        bytearray(70_000),
        0,
    )
    for start in range(0, len(stream), read_bytes):
        part = stream[start : start + read_bytes]
        buffer[: len(part)] = part
        if new := counter.feed(buffer, len(part)):
            count += new
            assert struct.pack("<Q", first + count - 1) in counter.acknowledgement(new)
    assert count == 500


def test_blocks_are_sent_in_turn_the_largest_that_may_and_a_rest_first(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    large, small = [(b"A" * 3_000_000, 10), (b"B" * 3_000_000, 10)], [(b"c" * 5, 1)]
    sender, received = Sender(ours, large, small), bytearray()
    reader = threading.Thread(target=lambda: _read(theirs, received, 9_000_010))
    sender.send(31)  # three times ten and one, but nobody reads yet
    assert (sender.busy, sender.sent) == (True, 10)
    reader.start()
    deadline = time.monotonic() + 60
    while (sender.busy or sender.sent < 32) and time.monotonic() < deadline:
        sender.send(32 - sender.sent)
    reader.join(60)
    assert bytes(received) == b"A" * 3_000_000 + b"B" * 3_000_000 + b"A" * 3_000_000 + b"c" * 10
    assert sender.sent == 32


def test_what_was_begun_is_finished_without_room_for_more(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    sender, received = Sender(ours, [(bytes(4_000_000), 100)]), bytearray()
    sender.send(100)
    assert (sender.busy, sender.sent) == (True, 100)
    reader = threading.Thread(target=lambda: _read(theirs, received, 4_000_000))
    reader.start()
    deadline = time.monotonic() + 60
    bench = Bench([LoadStream(ours, NativeLoad().receipts())], [])
    saturate(bench, [sender], lambda: 0, lambda: 0, lambda _: not sender.busy or time.monotonic() > deadline)
    reader.join(60)
    assert not sender.busy
    assert sender.sent == 100
    assert len(received) == 4_000_000


def _read(one: socket.socket, into: bytearray, size: int) -> None:
    while len(into) < size and (data := one.recv(1 << 20)):
        into += data


@pytest.mark.parametrize("begin", [0, 3])
def test_copies_of_messages_with_different_receivers_are_counted_exactly(begin: int) -> None:
    """A run that ends within a turn has sent other copies than the mean says."""
    design = SETUPS["mix"]({"subscribers": 7, "match_percent": 35}, "lab.copies")
    grades = design.grades
    assert len(set(grades)) > 1
    for messages in (0, 1, len(grades) - 1, 3 * len(grades) + 2):
        sent = [grades[(begin + number) % len(grades)] for number in range(messages)]
        assert copies_of(design, begin, messages) == sum(sent)
    same = SETUPS["filters"]({"matching": 4}, "lab.copies")
    assert copies_of(same, begin, 25) == 100
