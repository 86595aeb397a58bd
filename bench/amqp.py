"""CPU time per message of AMQP beside STOMP, without sockets: `python -m bench.amqp [--save]`.

A publisher and its subscribers on a topic, from the bytes that the publisher sends to those that the subscribers get:
gateway and forwarding plane for AMQP, the forwarding plane alone for STOMP, which it speaks itself. "outcomes": the
publisher asks for the outcome of every message (dispositions; receipts with STOMP). "consumed": messages of a queue,
from those that the broker delivers to the acknowledgements that it gets. The two are measured in turns.
"""

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from hardening.fuzz.amqp_streams import ACCEPT, LOG_IN, TARGET, attach, begin, transfer

from bench.harness import save, table
from tidings.kernel.codec import encode_message
from tidings.kernel.events import Acknowledged
from tidings.kernel.forwarder import DirectSink, Forwarder
from tidings.kernel.heap import keep_large_blocks
from tidings.model.codec import encode_predicate
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.model.values import Value
from tidings.protocols.amqp.sasl import amqp_frame
from tidings.protocols.amqp.sections import MessageSection, encode
from tidings.protocols.amqp.session import AmqpSession
from tidings.protocols.amqp.wire.types import Described, ubyte, uint
from tidings.protocols.native.frames import FrameSplitter, FrameType, control, decode_fields
from tidings.protocols.session import Caller

NOW_MS = 1_700_000_000_000
BATCH, BATCHES, ROUNDS = 200, 100, 7
MANY = uint(0x7FFF_FFFF)
TOPIC = encode_predicate(Predicate.of(DestinationPattern.parse("topic:ticks.xyz").constraint))
PROPERTIES: dict[str, Value] = {"stock": "XYZ", "price": 50}
TAKE_BYTES = 1 << 22


# A disposition of one delivery, whose number is missing.
_ACCEPTED = amqp_frame(0x15, [True, uint(0x7EADBEEF), None, True, ACCEPT]).replace(b"\x7e\xad\xbe\xef", b"%b")


class Load(NamedTuple):
    subscribers: int
    body_bytes: int
    outcomes: bool


def stomp(load: Load) -> Callable[[], None]:
    """Publishes one batch."""
    forwarder = Forwarder(memory_bytes_max=1 << 30)
    publisher, readers = forwarder.open(), [forwarder.open() for _ in range(load.subscribers)]
    for number in (publisher, *readers):
        forwarder.speak_stomp(number)
        forwarder.stomp_version(number, 2)
        forwarder.stomp_publisher(number, number, 1, "tmp.")
        forwarder.log_in(number, 1 << 20, False)
    for number in readers:
        forwarder.stomp_label(number, 1, b"MESSAGE\nsubscription:1\n")
        forwarder.subscribe(DirectSink(number, 1, TOPIC))
    head = b"SEND\ndestination:/topic/ticks.xyz\n" + b"".join(
        b"%s:%s\n" % (n.encode(), str(v).encode()) for n, v in PROPERTIES.items()
    )
    body = b"content-length:%d\n\n" % load.body_bytes + bytes(load.body_bytes) + b"\0"
    frames = [head + (b"receipt:%d\n" % one if load.outcomes else b"") + body for one in range(BATCH)]
    data = b"".join(frames)

    def work() -> None:
        forwarder.feed_bytes(publisher, data, NOW_MS)
        for number in readers:
            output = forwarder.take(number, TAKE_BYTES, NOW_MS)
            assert output.count(b"MESSAGE") >= BATCH
        answer = forwarder.take(publisher, TAKE_BYTES, NOW_MS)
        assert answer.count(b"RECEIPT") == (BATCH if load.outcomes else 0)

    return work


class Gateway:
    """An AMQP session on a connection of the forwarder; Python's part of the broker is left out."""

    def __init__(self, forwarder: Forwarder, number: int, *frames: bytes) -> None:
        self._forwarder, self.number = forwarder, number
        forwarder.log_in(number, 1 << 20, False)
        self.session = AmqpSession(Caller("", True, 1 << 20, lambda *_: True))
        self.session.receive(b"".join(LOG_IN), NOW_MS)
        welcome = {"publisher": number + 1, "broker": 1, "frame_max": 1 << 20, "heartbeat_ms": 0}
        self.session.frames(control(FrameType.WELCOME, welcome), NOW_MS)
        self.session.receive(amqp_frame(0x10, ["bench", "host"]) + begin(), NOW_MS)
        self.session.receive(b"".join(frames), NOW_MS)
        self.consent()

    def consent(self) -> None:
        for frame in FrameSplitter(1 << 20).feed(self.session.take_frames()):
            if frame.type == FrameType.SUBSCRIBE:
                self._forwarder.subscribe(DirectSink(self.number, 1, TOPIC))
                receipt = decode_fields(frame.payload)["receipt"]
                self.session.frames(control(FrameType.OK, {"receipt": receipt}), NOW_MS)
        self.session.take_frames()
        self.session.take_output()

    def receive(self, data: bytes) -> None:
        self.session.receive(data, NOW_MS)
        if frames := self.session.take_frames():
            self._forwarder.feed_bytes(self.number, frames, NOW_MS)

    def answer(self) -> bytes:
        """What the forwarder has for it, as the client gets it."""
        self.session.frames(self._forwarder.take(self.number, TAKE_BYTES, NOW_MS), NOW_MS)
        self.session.take_frames()
        return self.session.take_output()


def amqp(load: Load) -> Callable[[], None]:
    forwarder = Forwarder(memory_bytes_max=1 << 30)
    link = attach("out", 0, receives=False, source=[], target=Described(TARGET, ["topic://ticks.xyz"]))
    publisher = Gateway(forwarder, forwarder.open(), link)
    reads = attach("in", 0, receives=True, source=["topic://ticks.xyz"], target=None, settle=ubyte(1))
    flow = amqp_frame(0x13, [uint(0), MANY, uint(0), MANY, uint(0), uint(0), MANY])
    readers = [Gateway(forwarder, forwarder.open(), reads, flow) for _ in range(load.subscribers)]
    content = encode(MessageSection.APPLICATION_PROPERTIES, PROPERTIES)
    content += encode(MessageSection.DATA, bytes(load.body_bytes))
    sent = 0

    def batch(first: int) -> bytes:
        numbers = range(first, first + BATCH)
        frames = [transfer([uint(0), uint(n), b"%d" % n, uint(0), not load.outcomes], content) for n in numbers]
        return b"".join(frames)

    batches = [batch(first * BATCH) for first in range(4)]  # of ids that come again: nobody keeps them

    def work() -> None:
        nonlocal sent
        publisher.receive(batches[sent % len(batches)])
        sent += 1
        for reader in readers:
            assert len(reader.answer()) >= BATCH * (len(content) + 20)
        assert bool(publisher.answer()) or not load.outcomes

    return work


def consumed(body_bytes: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """A batch from a queue that the consumer accepts one by one: AMQP, STOMP."""
    message = Message(Destination("q", True), PROPERTIES, bytes(body_bytes), MessageId(1, 1, NOW_MS), persistent=True)
    messages, ones, tags = [encode_message(message)] * BATCH, [1] * BATCH, list(range(1, BATCH + 1))
    planes = [Forwarder(memory_bytes_max=1 << 30) for _ in range(2)]
    reads = attach("in", 0, receives=True, source=["queue://q"], target=None)
    flow = amqp_frame(0x13, [uint(0), MANY, uint(0), MANY, uint(0), uint(0), MANY])
    gateway = Gateway(planes[0], planes[0].open(), reads, flow)
    number, taken = planes[1].open(), 0
    planes[1].speak_stomp(number)
    planes[1].log_in(number, 1 << 20, False)
    planes[1].stomp_label(number, 1, b"MESSAGE\nsubscription:1\nack:1-", 1)
    acks = b"".join(b"ACK\nid:1-%d\n\n\0" % tag for tag in tags)

    ids = [range(first, first + BATCH) for first in range(0, BATCH * BATCHES * ROUNDS, BATCH)]
    outcomes = [b"".join([_ACCEPTED % one.to_bytes(4, "big") for one in batch]) for batch in ids]

    def accept(place: int) -> int:
        events = planes[place].events()
        return sum(len(one.tags) for one in events if isinstance(one, Acknowledged))

    def by_amqp() -> None:
        nonlocal taken
        planes[0].deliver(gateway.number, 1, ones, tags, messages)
        assert len(gateway.answer()) > BATCH * body_bytes
        gateway.receive(outcomes[taken])
        taken += 1
        assert accept(0) == BATCH

    def by_stomp() -> None:
        planes[1].deliver(number, 1, ones, tags, messages)
        assert len(planes[1].take(number, TAKE_BYTES, NOW_MS)) > BATCH * body_bytes
        planes[1].feed_bytes(number, acks, NOW_MS)
        assert accept(1) == BATCH

    return by_amqp, by_stomp


def measured(works: tuple[Callable[[], None], Callable[[], None]]) -> tuple[float, float]:
    """Microseconds of CPU a message: AMQP, STOMP."""
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for place, work in enumerate(works):
            start = time.process_time()
            for _ in range(BATCHES):
                work()
            best[place] = min(best[place], time.process_time() - start)
    amqp_us, stomp_us = (seconds / (BATCH * BATCHES) * 1e6 for seconds in best)
    return amqp_us, stomp_us


def main() -> None:
    keep_large_blocks()  # as a broker does
    columns = ("subscribers", "body bytes", "outcomes", "AMQP µs", "STOMP µs", "ratio")
    rows: list[tuple[object, ...]] = []
    for outcomes in (False, True):
        for subscribers in (1, 10):
            for body_bytes in (16, 1024):
                load = Load(subscribers, body_bytes, outcomes)
                amqp_us, stomp_us = measured((amqp(load), stomp(load)))
                told = f"{amqp_us:.2f}", f"{stomp_us:.2f}", f"{amqp_us / stomp_us:.2f}"
                rows.append((subscribers, body_bytes, "yes" if outcomes else "no", *told))
    for body_bytes in (16, 1024):
        amqp_us, stomp_us = measured(consumed(body_bytes))
        told = f"{amqp_us:.2f}", f"{stomp_us:.2f}", f"{amqp_us / stomp_us:.2f}"
        rows.append((1, body_bytes, "consumed", *told))
    table(f"CPU a message, batches of {BATCH}", columns, rows)
    if "--save" in sys.argv:
        save("amqp", {"rows": [dict(zip(columns, row, strict=True)) for row in rows]})


if __name__ == "__main__":
    main()
