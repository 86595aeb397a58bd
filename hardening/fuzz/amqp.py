"""Mutated AMQP streams into a broker, in this process or over sockets.

    python -m hardening.fuzz.amqp 100000 1             this number of streams in this process, from this seed
    python -m hardening.fuzz.amqp 10000 1 --sockets    over sockets, while a client goes on undisturbed
    … --results FILE                                         adds a line to a file of results

A stream is what a client may say, with frames left out, doubled or swapped, and bytes changed, cut out or put in. The
broker may refuse it in any way but these: an internal error, or more than a second.
"""

import asyncio
import logging
import sys
import time
from random import Random
from typing import Any, cast

from hardening.fuzz.amqp_streams import conversations
from hardening.record import note
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.connections.gateway_connection import GatewayConnection
from tidings.broker.server import Broker
from tidings.client import connect
from tidings.delivery.store import MemoryStore
from tidings.kernel.clock import now_ms
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.protocols.amqp.sasl import SASL_HEADER
from tidings.protocols.amqp.session import AmqpSession
from tidings.protocols.native.session import NativeSession

STREAM_SECONDS_MAX = 1.0
CONVERSATIONS = list(conversations().values())
KEPT_FRAMES = 3  # the first of a conversation, without which all that follows is refused


def mutated(rng: Random) -> bytes:
    frames = list(rng.choice(CONVERSATIONS))
    for _ in range(rng.choice((0, 0, 1, 2, 4))):  # of whole frames
        one, other = rng.randrange(KEPT_FRAMES, len(frames)), rng.randrange(KEPT_FRAMES, len(frames))
        match rng.randrange(3):
            case 0:
                del frames[one]
            case 1:
                frames.insert(one, frames[other])
            case _:
                frames[one], frames[other] = frames[other], frames[one]
        if len(frames) < KEPT_FRAMES + 2:
            break
    data = bytearray(b"".join(frames))
    start = 0 if rng.random() < 0.1 else len(SASL_HEADER) + len(frames[1])
    for _ in range(rng.choice((0, 1, 1, 2, 8, 64))):
        at = rng.randrange(start, len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                del data[at : at + rng.randrange(1, 20)]
            case _:
                data[at:at] = rng.randbytes(rng.randrange(1, 20))
        if len(data) <= start + 1:
            break
    return bytes(data)


class _Sink:
    """A transport that leads nowhere."""

    def __init__(self) -> None:
        self.closed = False
        self.written = 0

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Faults(logging.Handler):
    """Internal errors that the broker has survived: they are faults all the same."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))


async def fuzz_here(count: int, seed: int) -> int:
    """Runs `count` streams in this process; returns the number of bytes answered."""
    broker = Broker(NodeSettings(), MemoryStore(), limits=BrokerLimits(memory_bytes_max=64 << 20))
    await broker.start([])
    faults, answered = _watch(), 0
    listener = ListenerSettings(NativeSession, make_gateway=AmqpSession)
    try:
        for number in range(count):
            data, began = mutated(Random(f"{seed}.{number}")), time.thread_time()
            sink = _Sink()
            connection = cast(GatewayConnection, broker.make_connection(listener))
            connection.connection_made(cast(asyncio.BaseTransport, sink))
            rng = Random(number)
            while data and not sink.closed:
                size = rng.randrange(1, 700)
                part, data = data[:size], data[size:]
                broker.forwarder.buffer[: len(part)] = part
                connection.buffer_updated(len(part))
                for _ in range(3):
                    await asyncio.sleep(0)
            connection.tick(now_ms())
            connection.connection_lost(None)
            answered += sink.written
            _judge(faults, time.thread_time() - began, f"{seed}.{number}")
    finally:
        logging.getLogger("tidings").removeHandler(faults)
        await broker.stop()
    return answered


async def fuzz_sockets(count: int, seed: int) -> int:
    """The same over sockets; returns how many messages another client sent and received meanwhile."""
    broker = Broker(NodeSettings(), MemoryStore(), limits=BrokerLimits(memory_bytes_max=64 << 20))
    await broker.start([])
    port = await broker.listen(ListenerSettings(NativeSession, port=0, make_gateway=AmqpSession))
    url = f"tidings://127.0.0.1:{await broker.listen(ListenerSettings(NativeSession, port=0))}"
    faults, served = _watch(), 0
    try:
        async with connect(url) as client:
            subscription = await client.subscribe("steady")
            for number in range(count):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(mutated(Random(f"{seed}.{number}")))
                writer.write_eof()
                await client.publish("steady", {"n": number}, wait=True)
                async with asyncio.timeout(30):
                    received = await subscription.receive()
                    assert received is not None
                    assert received.properties["n"] == number
                    served += 1
                    await _read_all(reader)
                writer.close()
                _judge(faults, 0.0, f"{seed}.{number}")
    finally:
        logging.getLogger("tidings").removeHandler(faults)
        await broker.stop()
    return served


async def _read_all(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(1 << 16):
            pass
    except ConnectionError:
        return


def _watch() -> Faults:
    faults = Faults()
    logging.getLogger("tidings").addHandler(faults)
    return faults


def _judge(faults: Faults, seconds: float, name: str) -> None:
    assert not faults.found, f"stream {name}: {faults.found[0]}"
    assert seconds < STREAM_SECONDS_MAX, f"stream {name} took {seconds:.1f} s"


def main(arguments: list[str]) -> None:
    count, seed = int(arguments[0]), int(arguments[1])
    began = time.monotonic()
    if "--sockets" in arguments:
        asyncio.run(fuzz_sockets(count, seed))
    else:
        asyncio.run(fuzz_here(count, seed))
    if "--results" in arguments:
        parser = "amqp over sockets" if "--sockets" in arguments else "amqp"
        path = arguments[arguments.index("--results") + 1]
        note(path, "fuzzing", parser=parser, seed=seed, inputs=count, wrong=0)
    sys.stdout.write(f"amqp: {count} streams from seed {seed} in {time.monotonic() - began:.0f} s, no fault\n")


if __name__ == "__main__":
    main(sys.argv[1:])
