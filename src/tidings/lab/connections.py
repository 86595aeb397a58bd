"""Connections of publishers and subscribers to a server under test."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidings.lab.load_protocols import PROPERTY, Counter, LoadPlan, LoadProtocol
from tidings.lab.servers import Server

WINDOW = 4000
BLOCK = 500  # messages a send
SHARED_FROM = 200  # from this number of non-matching subscriptions on, a connection has a hundred of them
PER_CONNECTION = 100
ASKED_AT_ONCE = 200  # subscriptions sent before their answers are read


@dataclass(frozen=True, slots=True)
class WantedMessages:
    """One subscription."""

    topic: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionSetup:
    """The clients' work: the messages to publish in turn, and the number of subscriptions of each connection."""

    plans: tuple[LoadPlan, ...]
    subscribers: tuple[tuple[WantedMessages, ...], ...]  # messages arrive here
    idle: tuple[tuple[WantedMessages, ...], ...] = ()  # and here none
    publishers: int = 1
    durable: bool = False
    gathers: bool = False  # the sender's TCP may put small sends together while an answer is due (Nagle's algorithm)


@dataclass(frozen=True, slots=True)
class ConnectionLoad:
    """The load of one measured point."""

    plan: LoadPlan
    publishers: int = 1  # more than one: each sends its next message when it has the receipt of the last
    matching: int = 1
    others: int = 0
    durable: bool = False
    window: int = WINDOW
    block: int = BLOCK
    blocks: int = 1  # different ones, sent in turn
    rate: float = 0.0  # messages a second; 0: saturated
    gathers: bool = False  # see `ConnectionSetup`
    seconds: float = 2.0
    warm_seconds: float = 0.7

    @property
    def setup(self) -> ConnectionSetup:
        topic = self.plan.topic
        matching = ((WantedMessages(topic, f"{PROPERTY} = '0'"),),) * self.matching
        idle = idle_filters(topic, self.others)
        return ConnectionSetup((self.plan,), matching, idle, self.publishers, self.durable, self.gathers)


@dataclass(slots=True)
class LoadStream:
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

    publishers: list[LoadStream]
    subscribers: list[LoadStream]
    idle: list[socket.socket] = field(default_factory=list)
    arrived: int = 0  # at all subscribers; of thousands, nobody could add it up at every turn

    @property
    def publisher(self) -> LoadStream:
        return self.publishers[0]


@contextmanager
def connected(server: Server, setup: ConnectionSetup) -> Iterator[Bench]:
    wire = server.wire
    sockets: list[socket.socket] = []

    def connect(wanted: tuple[WantedMessages, ...], client: str = "", durable: str = "") -> socket.socket:
        one = socket.create_connection(("127.0.0.1", server.port))
        sockets.append(one)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, not setup.gathers)
        ask(one, wire, [wire.hello(client)])
        for start in range(0, len(wanted), ASKED_AT_ONCE):
            part = wanted[start : start + ASKED_AT_ONCE]
            numbered = enumerate(part, start + 1)
            ask(one, wire, [wire.subscribe(i, each.topic, each.selector, durable) for i, each in numbered])
        one.setblocking(False)
        return one

    try:
        idle = [connect(wanted) for wanted in setup.idle]
        name = f"c-{setup.plans[0].topic}" if setup.durable else ""
        subscribers = [
            LoadStream(connect(wanted, name, name and "kept"), wire.deliveries(setup.plans[0]), setup.durable)
            for wanted in setup.subscribers
        ]
        yield Bench([LoadStream(connect(()), wire.receipts()) for _ in range(setup.publishers)], subscribers, idle)
    finally:
        for one in sockets:
            one.close()


def idle_filters(topic: str, count: int) -> tuple[tuple[WantedMessages, ...], ...]:
    """Subscriptions that never match, all different, by connection."""
    wanted = [WantedMessages(topic, f"{PROPERTY} = '{number + 1}'") for number in range(count)]
    size = PER_CONNECTION if count >= SHARED_FROM else 1
    return tuple(tuple(wanted[start : start + size]) for start in range(0, count, size))


def ask(one: socket.socket, wire: LoadProtocol, frames: list[bytes]) -> None:
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
