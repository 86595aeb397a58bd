"""A process that publishes blocks of small messages and reads all that comes of them: it tires later than the broker.

Raw sockets, ready-made blocks, no parsing: all deliveries to a reader have one size, so bytes are counted instead.
"""

import multiprocessing
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event

from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.protocols.native.frames import HEADER_BYTES, FrameType, control

TOPIC = "stream"
BODY_BYTES = 50
BLOCK_MESSAGES = 50
READ_BYTES = 1 << 20
DELIVER_FIELDS_BYTES = 16  # before the message, docs/wire.md
FLAT_OUT, STOP = -1.0, 0.0
START_SECONDS = DRAIN_SECONDS = 120.0
BEAT_SECONDS = 2.0  # a sign of life of each reader so often, or the broker asks for one and is counted


def connect(port: int, *frames: bytes) -> socket.socket:
    """A connection whose requests, one receipt each, have been answered."""
    hello = control(FrameType.HELLO, {"version": 1, "heartbeat_ms": 600_000})
    one = socket.create_connection(("127.0.0.1", port))
    one.sendall(b"".join((hello, *frames)))
    answer = b""
    while answer.count(b"receipt") < len(frames) or b"server" not in answer:
        answer += one.recv(4096)
    return one


def subscriber(port: int) -> socket.socket:
    return connect(port, control(FrameType.SUBSCRIBE, {"receipt": 1, "subscription": 1, "destination": TOPIC}))


@dataclass(frozen=True)
class Stream:
    readers: int
    rate: "Synchronized[float]"  # blocks a second; FLAT_OUT, STOP
    published: "Synchronized[int]"  # messages
    received: "Synchronized[int]"  # … by all readers together
    ready: Event

    def capacity(self, seconds: float) -> float:
        """Messages a second that reach each reader when nothing holds the publisher but the broker."""
        self.rate.value = FLAT_OUT
        time.sleep(seconds / 4)
        before, began = self.received.value, time.monotonic()
        time.sleep(seconds)
        return (self.received.value - before) / (time.monotonic() - began) / self.readers

    def pace(self, messages_per_s: float) -> None:
        self.rate.value = messages_per_s / BLOCK_MESSAGES

    def finish(self) -> int:
        """Publish no more; the number of messages, all of which every reader has."""
        self.rate.value = STOP
        end = time.monotonic() + DRAIN_SECONDS
        while self.received.value < self.published.value * self.readers:
            assert time.monotonic() < end, f"{self.published.value} published, {self.received.value} received"
            time.sleep(0.1)
        most = self.published.value * self.readers
        assert self.received.value == most, f"{self.received.value} received of {most}"
        return self.published.value


@contextmanager
def stream(port: int, readers: int) -> Iterator[Stream]:
    context = multiprocessing.get_context("spawn")
    one = Stream(readers, context.Value("d", STOP), context.Value("q", 0), context.Value("q", 0), context.Event())
    child = context.Process(target=_run, args=(port, one), daemon=True)
    child.start()
    try:
        assert one.ready.wait(START_SECONDS), "it has no connections yet"
        yield one
    finally:
        child.kill()
        child.join()


def _run(port: int, one: Stream) -> None:
    message = encode_message(Message(Destination(TOPIC), {"x": 1}, bytes(BODY_BYTES)))
    size = HEADER_BYTES + DELIVER_FIELDS_BYTES + len(message)
    block = memoryview(encode_frame(FrameType.PUBLISH, bytes(4) + message) * BLOCK_MESSAGES)
    publisher, ready = connect(port), selectors.DefaultSelector()
    readers = [subscriber(port) for _ in range(one.readers)]
    for reader in readers:
        ready.register(reader, selectors.EVENT_READ, reader)
    for each in (publisher, *readers):
        each.setblocking(False)
    one.ready.set()
    buffer, left, taken, due, beat = bytearray(READ_BYTES), block[:0], 0, 0.0, time.monotonic()
    while True:
        rate, now = one.rate.value, time.monotonic()
        if now >= beat:
            beat = now + BEAT_SECONDS
            for each in readers if left else (publisher, *readers):  # not amid a block
                each.send(encode_frame(FrameType.PONG, b""))
        if not left and (rate == FLAT_OUT or (rate > 0 and now >= due)):
            due = max(due, now - 0.1) + 1 / rate if rate > 0 else now  # what was missed is made up for, within limits
            left = block
            one.published.value += BLOCK_MESSAGES
        if left:
            with suppress(BlockingIOError):
                left = left[publisher.send(left) :]
        wait = 0.001 if left else 0.0 if rate == FLAT_OUT else min(0.01, max(0.0, due - now))
        for key, _ in ready.select(wait):
            got = key.data.recv_into(buffer)
            if not got:
                raise ConnectionError("the broker closed the connection of a reader")
            taken += got
        one.received.value = taken // size
