"""Mutated streams of clients to a real broker's ports, native and STOMP, while another client goes on undisturbed.

Streams come by many connections at a time, one stream a connection. The broker may refuse a stream in any way, but it
must end the connection when its client has nothing more to say, hold bounded memory, report no internal error, live on,
and answer the other client within a second. Only seconds in which it could run count (`patience`).
"""

import asyncio
import os
import socket
import struct
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hardening.fuzz.mutate import mutated
from hardening.fuzz.patience import TICK_SECONDS, Patience
from tidings.client import Client, Subscription, connect
from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.protocols.native.frames import FrameType, control
from tidings.testing.broker_process import BrokerProcess

AT_A_TIME = 32
END_SECONDS_MAX = 60.0  # a connection that has not ended by then never will
ANSWER_SECONDS_MAX = 1.0
MEMORY_BYTES_MAX = 32 << 20
GROWTH_BYTES_MAX = 4 * MEMORY_BYTES_MAX  # of the process, after the first tenth
ATTACHMENTS_MAX = 5_000  # reached in the first tenth of a long run
WRITES_BYTES = 64 << 10
ASK_AGAIN_SECONDS = 5.0
WATCHER = -1  # where streams have numbers
CONFIG = f"""
[[listeners]]
port = 0
protocol = "stomp"
[limits]
memory_bytes_max = {MEMORY_BYTES_MAX}
messages_bytes_max = {MEMORY_BYTES_MAX}
pinned_bytes_max = {MEMORY_BYTES_MAX // 2}
connections_max = 10000
[tracking]
attachments_max = {ATTACHMENTS_MAX}
"""
FAULTS = ("Traceback", '"level": "error"', '"level": "critical"')
RESET = struct.pack("ii", 1, 0)  # leave no port waiting behind


def native() -> list[bytes]:
    """Frames of a valid native conversation; the first one is the login."""
    receipts = iter(range(1, 100))

    def said(type: FrameType, session: int = 0, **fields: str | int | bool | bytes) -> bytes:
        return control(type, {"receipt": next(receipts), **fields}, session=session)

    def publish(destination: str, session: int = 0, **more: int | str) -> bytes:
        message = encode_message(
            Message(Destination.parse(destination), {"n": 3, "s": "abc", "x": 1.5, **more}, b"body")
        )
        return encode_frame(FrameType.PUBLISH, next(receipts).to_bytes(4, "little") + message, session=session)

    return [
        control(FrameType.HELLO, {"version": 1, "client": ""}),
        said(FrameType.SUBSCRIBE, subscription=1, destination="a.>", selector="n > 2 AND s LIKE 'a%'", credit=10),
        said(FrameType.SUBSCRIBE, subscription=2, destination="a.b", ack="client", credit=5, policy="drop-oldest"),
        publish("a.b"),
        publish("a.c", u=7),
        encode_frame(FrameType.CREDIT, struct.pack("<II", 1, 5)),
        encode_frame(FrameType.ACK, struct.pack("<IBIQ", 2, 1, 1, 1)),
        said(FrameType.BEGIN, 7),
        publish("a.b", 7),
        said(FrameType.COMMIT, 7, key="k", number=1),
        said(FrameType.TEMPORARY, queue="reply"),
        said(FrameType.DRAIN, subscription=1),
        said(FrameType.BROWSE, subscription=9, queue="nothing", count=5),
        said(FrameType.INSPECT, part="queues", count=5),
        said(FrameType.ADVERTISE, number=1, destination="a.>", selector="n = 1"),
        said(FrameType.CLOCK, number=3),
        said(FrameType.UNSUBSCRIBE, subscription=2),
        encode_frame(FrameType.PING, b""),
        encode_frame(FrameType.CLOSE, b""),
    ]


def stomp() -> list[bytes]:
    return [
        b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:h\nheart-beat:0,0\n\n\0\n",
        b"SUBSCRIBE\nid:1\ndestination:/topic/a.>\nselector:n > 2 AND s LIKE 'a%'\nack:client\nreceipt:r1\n\n\0",
        b"SUBSCRIBE\nid:2\ndestination:/temp-queue/q\nack:client-individual\n\n\0",
        b"SEND\ndestination:/topic/a.b\nn:3\ns:abc\nreceipt:r2\n\nbody\0\n",
        b"SEND\r\ndestination:/topic/a.c\r\ncontent-length:4\r\nn:7\r\n\r\na\0b\n\0",
        b"SEND\ndestination:/temp-queue/q\nreply-to:/temp-topic/t\nexpires:5000\nk\\c1:\\n\\\\\n\n\0",
        b"BEGIN\ntransaction:t\n\n\0",
        b"SEND\ndestination:/topic/a\ntransaction:t\nn:1\n\n\0",
        b"COMMIT\ntransaction:t\nreceipt:r3\n\n\0",
        b"ACK\nid:1\n\n\0",
        b"NACK\nid:2\n\n\0",
        b"\n\n",
        b"UNSUBSCRIBE\nid:1\n\n\0",
        b"DISCONNECT\nreceipt:r4\n\n\0",
    ]


CONVERSATIONS = (native(), stomp())


def stream(rng: Random, conversation: list[bytes]) -> bytes:
    """Leaves out, doubles or swaps frames and changes bytes; one stream in ten is damaged in its login."""
    frames = conversation[1:]
    for _ in range(rng.choice((0, 1, 2, 4))):
        one, other = rng.randrange(len(frames)), rng.randrange(len(frames))
        match rng.randrange(3):
            case 0 if len(frames) > 2:
                del frames[one]
            case 1:
                frames.insert(one, frames[other])
            case _:
                frames[one], frames[other] = frames[other], frames[one]
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(frames))
        changed = mutated(rng, frames[at], conversation)
        if conversation is CONVERSATIONS[0] and len(changed) >= 8 and rng.random() < 0.7:  # whole frames get further
            changed = (len(changed) - 8).to_bytes(4, "little") + changed[4:]
        frames[at] = changed
    login = mutated(rng, conversation[0], conversation) if rng.random() < 0.1 else conversation[0]
    return login + b"".join(frames)


@dataclass
class Run:
    """Sends a number of streams, distributed over the connections."""

    ports: tuple[int, int]
    seed: int
    number: int
    last: int
    end: float
    patience: Patience = field(default_factory=lambda: Patience(os.getpid()))  # with a broker in this process
    served: int = 0  # messages of the other client that came back
    slowest_s: float = 0.0
    begun: dict[int, float] = field(default_factory=dict)  # streams under way, and when each began

    @property
    def going(self) -> bool:
        return self.number < self.last and time.monotonic() < self.end

    async def send(self) -> None:
        while self.going:
            number, self.number = self.number, self.number + 1
            rng = Random(f"{self.seed}.{number}")
            which = number % 2
            self.begun[number] = self.patience.now
            await _converse(self.ports[which], stream(rng, CONVERSATIONS[which]))
            del self.begun[number]

    async def guard(self) -> None:
        """Whatever has begun must end."""
        while self.going or self.begun:
            await asyncio.sleep(TICK_SECONDS)
            self.patience.tick()
            for number, began in self.begun.items():
                if self.patience.now - began > END_SECONDS_MAX:
                    what = "the other client's message did not come back"
                    if number != WATCHER:
                        again = f"python -m hardening.fuzz sockets 1 {self.seed} --first {number}"
                        what = f"stream {number} has not ended. Repeat with: {again}"
                    raise AssertionError(what)

    async def watch(self, url: str) -> None:
        """The other client: what it publishes comes back, soon."""
        async with connect(url) as client:
            subscription = await client.subscribe("steady")
            while self.going or not self.served:
                began = self.begun[WATCHER] = self.patience.now
                await self._answered(client, subscription)
                del self.begun[WATCHER]
                self.served += 1
                self.slowest_s = max(self.slowest_s, self.patience.now - began)
                await asyncio.sleep(0.01)

    async def _answered(self, client: Client, subscription: Subscription) -> None:
        """One message, there and back. One that was under way while all stood still may have got lost with its
        connection, which looked dead then: it is sent again."""
        stops = -1
        while True:
            if stops != self.patience.stops:
                stops = self.patience.stops
                await client.publish("steady", {"n": self.served}, wait=True)
            received = await subscription.receive(ASK_AGAIN_SECONDS)
            if received is not None and received.properties["n"] == self.served:
                return
            assert received is None or stops, "a message that was not sent"


async def _converse(port: int, data: bytes) -> None:
    """Say it all, and hear the broker out until it hangs up."""
    loop, plain = asyncio.get_running_loop(), socket.socket()
    plain.setblocking(False)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    try:
        await loop.sock_connect(plain, ("127.0.0.1", port))
        await loop.sock_sendall(plain, data)
        plain.shutdown(socket.SHUT_WR)
        while await loop.sock_recv(plain, WRITES_BYTES):
            pass
    except (ConnectionError, OSError):
        pass  # it did not want to hear the rest
    finally:
        plain.close()


def _resident_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * 4096


async def fuzz(
    count: int, seed: int, first: int = 0, end: float = float("inf"), answer_seconds_max: float = ANSWER_SECONDS_MAX
) -> int:
    """Returns how many streams were sent."""
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder), CONFIG, level="info") as broker:
        ports = [int(one["port"]) for one in broker.events("listening")]
        url, pid = f"tidings://127.0.0.1:{ports[0]}", broker.process.pid
        patience = Patience(pid)
        run = Run((ports[0], ports[1]), seed, first, first + count, end, patience)
        warm = Run((ports[0], ports[1]), seed, first, first + count // 10, end, patience)
        await asyncio.gather(warm.watch(url), warm.guard(), *(warm.send() for _ in range(AT_A_TIME)))
        before, run.number = _resident_bytes(pid), warm.number
        await asyncio.gather(run.watch(url), run.guard(), *(run.send() for _ in range(AT_A_TIME)))
        grown = _resident_bytes(pid) - before
        assert grown < GROWTH_BYTES_MAX, f"the broker has grown by {grown >> 20} MiB"
        assert broker.stop() == 0, broker.text()[-2000:]
        faults = [line for line in broker.text().splitlines() if any(fault in line for fault in FAULTS)]
        assert not faults, f"the broker reports: {faults[0][:2000]}"
    slowest_s = max(run.slowest_s, warm.slowest_s)
    assert slowest_s < answer_seconds_max, f"the other client once waited {slowest_s:.1f} s"
    return run.number - first
