"""Puts a load on a running broker: publishers that send one message a time, subscribers that count what they get.

In a closed loop `in_flight` messages are on their way, sent by the publishers in turn; the next one is sent when one
has arrived at the *probe*, a subscriber that gets every message, or, if it is persistent, was confirmed. In an open
loop messages come as a Poisson process of a given rate. A stretch begins and ends with nothing on its way, so its
messages are exactly those that the broker spent its CPU time on.

Plain messages over sockets without TLS are sent and counted by `tidings.kernel.load_pump`: what saturates must be the
broker, not its clients. Persistent messages, which cost a broker a hundred times as much, need a client that reads
answers.
"""

import random
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidings.capacity.traffic import Interests, Traffic
from tidings.errors import UsageError
from tidings.kernel.load_pump import LoadPump
from tidings.lab.calibration.meters import CpuMeter, MeasuredStretch, MeterOverhead, difference
from tidings.lab.calibration.wires import LoadMessage, LoadSubscription, WireClient

KINDS = 20  # of messages; a subscriber that matches 25 % gets 5 of them
BUFFER_BYTES = 1 << 18
ANSWERS_S, STUCK_S = 60.0, 20.0
SUBSCRIPTIONS_AT_ONCE = 100
OTHERS_PER_CONNECTION = 200
NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
SENDS_A_TURN = 16  # before it reads what has come
MARK = b"kind"  # the name of a property that every message has, and that nothing else contains
SLICE_S = 0.5  # after which a pump may be interrupted


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One load. `rate`: messages a second, or 0: closed loop."""

    protocol: str = "native"
    persistent: bool = False
    body: int = 0
    properties: int = 1
    others: int = 0  # filters that match nothing
    components: int = 1  # of each of those
    subscribers: int = 1  # the probe included
    match: float = 1.0  # of the others
    together: bool = False
    publishers: int = 1
    in_flight: int = 1
    rate: float = 0.0

    @property
    def traffic(self) -> Traffic:
        match = round(self.match * KINDS) / KINDS
        return Traffic(
            protocol=self.protocol,
            persistent=self.persistent,
            body=self.body,
            properties=self.properties,
            filters=self.subscribers + self.others,
            components=self.components,
            interests=Interests(self.subscribers - 1, match, together=self.together, always=1),
            publishers=self.publishers,
            in_flight=self.in_flight,
        )

    def messages(self, topic: str) -> list[LoadMessage]:
        more = tuple((f"p{number}", f"value {number}") for number in range(self.properties - 1))
        body = b"x" * self.body
        return [LoadMessage(topic, kind, body, (("kind", str(kind)), *more), self.persistent) for kind in range(KINDS)]

    def subscriptions(self, topic: str, rng: random.Random) -> list[LoadSubscription]:
        """The probe first."""
        every, count = tuple(range(KINDS)), round(self.match * KINDS)
        same = tuple(rng.sample(every, count))
        found = []
        for number in range(self.subscribers):
            kinds = every if number == 0 else same if self.together else tuple(rng.sample(every, count))
            named = ", ".join(f"'{kind}'" for kind in kinds or ("none",))
            selector = "" if len(kinds) == KINDS else f"kind IN ({named})"
            durable = f"{topic}-{number}" if self.persistent else ""
            found.append(LoadSubscription(topic, kinds, selector, durable))
        return found

    def idle(self, topic: str) -> list[LoadSubscription]:
        more = "".join(f" AND p{number % 30} <> 'none'" for number in range(self.components - 1))
        return [LoadSubscription(topic, (), f"kind = 'none {number}'{more}") for number in range(self.others)]


@dataclass(slots=True)
class LoadConnection:
    socket: socket.socket
    client: WireClient
    parsed: bool = True  # otherwise what comes is thrown away
    messages: int = 0
    confirmations: int = 0

    def ask(self, asked: Sequence[tuple[bytes, int]]) -> None:
        """Send, and wait for the answers."""
        self.socket.settimeout(ANSWERS_S)
        missing = sum(answers for _, answers in asked)
        try:
            self.socket.sendall(b"".join(data for data, _ in asked))
            while missing > 0:
                if not (data := self.socket.recv(1 << 16)):
                    raise ConnectionResetError
                missing -= self.client.feed(data).answers
        except ConnectionError:
            raise UsageError("E_LAB_REFUSED", "the broker closed a connection of the calibration") from None
        self.socket.setblocking(False)

    def read(self, buffer: memoryview) -> None:
        while self._read(buffer) and isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
            pass  # what is decrypted already makes no socket ready

    def _read(self, buffer: memoryview) -> bool:
        try:
            size = self.socket.recv_into(buffer)
        except NOT_NOW:
            return False
        if not size:
            raise UsageError("E_LAB_REFUSED", "the broker closed a connection of the calibration")
        if self.parsed:
            self._count(buffer, size)
        return True

    def _count(self, buffer: memoryview, size: int) -> None:
        found = self.client.feed(bytes(buffer[:size]))
        self.messages += found.messages
        self.confirmations += found.confirmations
        if found.reply:
            send_whole(self.socket, found.reply)


def send_whole(one: socket.socket, data: bytes) -> None:
    """On a socket that does not block; what it does not take is waited for."""
    deadline = time.perf_counter() + STUCK_S
    while data:
        try:
            data = data[one.send(data) :]
        except NOT_NOW:
            if time.perf_counter() > deadline:
                raise UsageError("E_LAB_STUCK", f"the broker read nothing for {STUCK_S:g} s") from None
            time.sleep(0.0005)


@dataclass(slots=True)
class BrokerLoad:
    """The connections of one point."""

    point: LoadPoint
    publishers: list[LoadConnection]
    probe: LoadConnection
    others: list[LoadConnection]
    frame: Callable[[int, int], bytes]
    rng: random.Random
    plain: bool = True  # sockets without TLS
    sent: int = 0
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(BUFFER_BYTES)))
    _pump: LoadPump | None = None

    def __post_init__(self) -> None:
        if self.plain and not self.point.persistent:
            self._pump = pump_of(self.publishers, self.probe, self.others, self.frame, self.rng.getrandbits(32))
            return
        for one in (*self.publishers, self.probe, *self.others):
            self._selector.register(one.socket, selectors.EVENT_READ, one)

    def measure(
        self, meter: CpuMeter, overhead: MeterOverhead, seconds: float, messages_min: int = 20
    ) -> MeasuredStretch:
        """A stretch of about this length, in which nothing is lost."""
        first, before, busy, begun = self.sent, meter.read(), time.thread_time(), time.perf_counter()
        self.run(seconds, messages_min)
        client_s, took, after = time.thread_time() - busy, time.perf_counter() - begun, meter.read()
        waits = None if before.waits is None or after.waits is None else after.waits.since(before.waits)
        reads, writes = difference(after.reads, before.reads), difference(after.writes, before.writes)
        used = overhead.used(before, after)
        return MeasuredStretch(self.sent - first, took, used, waits, reads, writes, client_s)

    def run(self, seconds: float, messages_min: int = 0) -> None:
        if self._pump is not None:
            self._run_pump(self._pump, seconds, messages_min)
            return
        end, least = time.perf_counter() + seconds, self.sent + messages_min
        if self.point.rate:
            self._paced(end)
        else:
            while time.perf_counter() < end or self.sent < least:
                self._turn(self.point.in_flight)
        self._drain()

    def _run_pump(self, pump: LoadPump, seconds: float, messages_min: int) -> None:
        end, least = time.perf_counter() + seconds, pump.sent + messages_min
        while (left := end - time.perf_counter()) > 0 or pump.sent < least:
            missing = max(0, least - pump.sent) if left <= SLICE_S else 0
            pump.run(max(0.0, min(left, SLICE_S)), self.point.in_flight, self.point.rate, missing)
        self.sent = pump.sent
        if not pump.drain(STUCK_S):
            missing = pump.sent - pump.arrived
            raise UsageError("E_LAB_STUCK", f"{missing} messages did not arrive within {STUCK_S:g} s")

    def _paced(self, end: float) -> None:
        due = time.perf_counter()
        while due < end:
            due += self.rng.expovariate(self.point.rate)
            while (now := time.perf_counter()) < due:
                self._read(max(0.0, due - now) if due - now > 0.001 else 0.0)
            self._send()

    def _turn(self, limit: int) -> None:
        for _ in range(SENDS_A_TURN):
            if self.in_flight >= limit:
                break
            self._send()
        self._read(0.05 if self.in_flight >= limit else 0.0)

    @property
    def arrived(self) -> int:
        """Messages at the probe."""
        return self.probe.messages if self._pump is None else self._pump.arrived

    @property
    def in_flight(self) -> int:
        done = self.arrived
        if self.point.persistent:
            done = sum(one.confirmations for one in self.publishers)
        return self.sent - done

    def _send(self) -> None:
        turn, place = divmod(self.sent, len(self.publishers))
        send_whole(self.publishers[place].socket, self.frame(self.rng.randrange(KINDS), turn))
        self.sent += 1

    def _read(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            key.data.read(self._buffer)

    def _drain(self) -> None:
        last, known = time.perf_counter(), -1
        while self.in_flight > 0 or self.arrived < self.sent:
            self._read(0.05)
            if (now := self.arrived + self.in_flight) != known:
                last, known = time.perf_counter(), now
            elif time.perf_counter() - last > STUCK_S:
                raise UsageError("E_LAB_STUCK", f"{self.in_flight} messages did not arrive within {STUCK_S:g} s")


def pump_of(
    publishers: Sequence[LoadConnection],
    probe: LoadConnection,
    others: Sequence[LoadConnection],
    frame: Callable[[int, int], bytes],
    seed: int,
) -> LoadPump:
    frames = [frame(kind, 0) for kind in range(KINDS)]
    differs = [one != other for one, other in zip(frames[0], frame(0, 0x7FFF_FFFF), strict=True)]
    numbered = differs.index(True) if any(differs) else -1
    descriptors = [[one.socket.fileno() for one in part] for part in (publishers, others)]
    return LoadPump(descriptors[0], probe.socket.fileno(), descriptors[1], frames, MARK, number_at=numbered, seed=seed)


@contextmanager
def connected_load(
    address: tuple[str, int],
    point: LoadPoint,
    client: Callable[[], WireClient],
    topic: str,
    *,
    tls: ssl.SSLContext | None = None,
    seed: int = 0,
) -> Iterator[BrokerLoad]:
    """Connections with everything subscribed; durable subscriptions are deleted at the end."""
    opened: list[LoadConnection] = []
    rng = random.Random(f"{seed} {topic}")

    def connect(plans: Sequence[LoadSubscription], name: str = "", publishes: str = "") -> LoadConnection:
        one = LoadConnection(_socket(address, tls), client())
        opened.append(one)
        one.ask([one.client.login(name, publishes=publishes)])
        for start in range(0, len(plans), SUBSCRIPTIONS_AT_ONCE):
            part = plans[start : start + SUBSCRIPTIONS_AT_ONCE]
            one.ask([one.client.subscribe(start + number, plan) for number, plan in enumerate(part, 1)])
        return one

    plans, durable = point.subscriptions(topic, rng), point.persistent
    readers: list[LoadConnection] = []
    try:
        for number, plan in enumerate(plans):
            readers.append(connect([plan], f"{topic}-{number}" if durable else f"{topic}-r{number}"))
            readers[-1].parsed = durable or number == 0
        idle = point.idle(topic)
        for start in range(0, len(idle), OTHERS_PER_CONNECTION):
            connect(idle[start : start + OTHERS_PER_CONNECTION], f"{topic}-i{start}")
        publishers = [connect((), f"{topic}-p{number}", topic) for number in range(point.publishers)]
        frame = publishers[0].client.publisher(point.messages(topic))
        yield BrokerLoad(point, publishers, readers[0], readers[1:], frame, rng, tls is None)
    finally:
        if durable:
            for one, plan in zip(readers, plans, strict=False):
                one.ask([one.client.forget(1, plan)])
        for one in opened:
            one.socket.close()


def _socket(address: tuple[str, int], tls: ssl.SSLContext | None) -> socket.socket:
    try:
        found = socket.create_connection(address, ANSWERS_S)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found if tls is None else tls.wrap_socket(found, server_hostname=address[0])
    except OSError as error:
        raise UsageError("E_LAB_REFUSED", f"cannot connect to {address[0]}:{address[1]}: {error}") from None
