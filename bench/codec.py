"""Cost of a message in the codec: `python -m bench.codec`. CPU time of the thread, best of several repetitions."""

import struct
import time
from collections.abc import Callable

from tidings.kernel import codec
from tidings.model import codec as reference
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.selector.parser import parse
from tidings.model.selector.program import assemble

TEN: dict[str, bool | int | float | str | bytes] = {
    "stock": "XYZ",
    "price": 50,
    "volume": 1000.5,
    "region": "europe",
    "urgent": True,
    "exchange": "XETRA",
    "currency": "EUR",
    "bid": 49.75,
    "ask": 50.25,
    "sequence": 123456,
}
SELECTOR = "stock = 'XYZ' AND price > 2 * ask - bid OR region LIKE 'eu%' AND volume < 5"


def best_us(work: Callable[[], object], messages: int, repetitions: int = 300) -> float:
    """Microseconds a message."""
    best = float("inf")
    for _ in range(repetitions):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best * 1e6 / messages


def main() -> None:
    message = Message(Destination("ticks.xyz"), TEN, b"x" * 100, priority=4)
    encoded = codec.encode_message(message)
    count = 200  # about what one socket read of 64 KiB returns
    frames = reference.encode_frame(0x10, struct.pack("<I", 0) + encoded) * count
    messages = [message] * count
    batch = codec.MessageBatch.from_frames(frames)
    program = codec.Program(assemble(parse(SELECTOR)))
    rows: list[tuple[str, Callable[[], object], int]] = [
        (
            "decode a batch of frames, no derived attributes",
            lambda: codec.MessageBatch.from_frames(frames, derived=0),
            count,
        ),
        ("decode a batch of frames, destination", lambda: codec.MessageBatch.from_frames(frames, derived=1), count),
        ("decode a batch of frames, all derived attributes", lambda: codec.MessageBatch.from_frames(frames), count),
        ("evaluate a program over the batch", lambda: program.evaluate(batch), count),
        ("encode one message from Python", lambda: [codec.encode_message(one) for one in messages], count),
        ("encode a batch of messages from Python", lambda: codec.encode_messages(messages), count),
        ("decode one message to Python", lambda: [codec.decode_message(encoded) for _ in messages], count),
        ("reference: encode one message", lambda: [reference.encode_message(one) for one in messages[:20]], 20),
        ("reference: decode one message", lambda: [reference.decode_message(encoded) for _ in messages[:20]], 20),
    ]
    print(f"{len(TEN)} attributes, {len(encoded)} bytes")
    for name, work, size in rows:
        print(f"{best_us(work, size):8.3f} µs  {name}")


if __name__ == "__main__":
    main()
