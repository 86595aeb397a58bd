"""The load of a point, and the connections that carry it."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.broker_servers import Server
from bench.broker_wire import PROPERTY, Counter, Plan, Wire

WINDOW = 4000
BLOCK = 500  # messages a send
SHARED_FROM = 200  # beyond so many non-matching subscriptions, a connection has a hundred of them
PER_CONNECTION = 100


@dataclass(frozen=True, slots=True)
class Load:
    """What one point asks of a server."""

    plan: Plan
    publishers: int = 1  # more than one: each sends its next message when it has the receipt of the last
    matching: int = 1
    others: int = 0
    durable: bool = False
    window: int = WINDOW
    block: int = BLOCK
    rate: float = 0.0  # messages a second; 0: saturated
    seconds: float = 2.0
    warm_seconds: float = 0.7


@dataclass(slots=True)
class Stream:
    """A socket whose messages are counted."""

    socket: socket.socket
    counter: Counter
    durable: bool = False
    count: int = 0

    def read(self, buffer: bytearray) -> int:
        try:
            size = self.socket.recv_into(buffer)
        except BlockingIOError:
            return 0
        if size == 0:
            raise RuntimeError("the server closed a connection")
        new = self.counter.feed(buffer, size)
        self.count += new
        if new and self.durable:
            self.socket.send(self.counter.acknowledgement(new))
        return new


@dataclass(slots=True)
class Bench:
    """All connections of one point."""

    publishers: list[Stream]
    subscribers: list[Stream]
    idle: list[socket.socket] = field(default_factory=list)

    @property
    def publisher(self) -> Stream:
        return self.publishers[0]


@contextmanager
def connected(server: Server, load: Load) -> Iterator[Bench]:
    wire, topic = server.wire, load.plan.topic
    sockets: list[socket.socket] = []

    def connect(subscriptions: list[str], client: str = "", durable: str = "") -> socket.socket:
        one = socket.create_connection(("127.0.0.1", server.port))
        sockets.append(one)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _ask(one, wire, [wire.hello(client)])
        _ask(one, wire, [wire.subscribe(i, topic, text, durable) for i, text in enumerate(subscriptions, 1)])
        one.setblocking(False)
        return one

    try:
        idle = [connect(part) for part in _others(load.others)]
        matching = [f"{PROPERTY} = '0'"]
        name = f"c-{topic}" if load.durable else ""
        subscribers = [
            Stream(connect(matching, name, name and "kept"), wire.deliveries(load.plan), load.durable)
            for _ in range(load.matching)
        ]
        yield Bench([Stream(connect([]), wire.receipts()) for _ in range(load.publishers)], subscribers, idle)
    finally:
        for one in sockets:
            one.close()


def _others(count: int) -> list[list[str]]:
    """Selectors that never match, all different, by connection."""
    texts = [f"{PROPERTY} = '{number + 1}'" for number in range(count)]
    size = PER_CONNECTION if count >= SHARED_FROM else 1
    return [texts[start : start + size] for start in range(0, count, size)]


def _ask(one: socket.socket, wire: Wire, frames: list[bytes]) -> None:
    if not frames:
        return
    one.settimeout(60)
    one.sendall(b"".join(frames))
    data = b""
    while wire.replies(data) < len(frames):
        more = one.recv(1 << 16)
        if not more:
            raise RuntimeError(f"the server closed the connection: {data!r}")
        data += more
