"""Measures the time to subscribe: all clients at once (a flash crowd), and until the first message (section 3.4.2).

*Registration*: all subscriptions are sent together over many connections; the time until the last one is confirmed,
with publishers at rest or sending messages that nobody wants as fast as the server takes them. *First message*: while
the server is busy with others, one subscriber after another comes; the time until its subscription is confirmed, and
from then until its first message. A server that confirms before the subscription is active loses what is sent between.
"""

import select
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tidings.lab.connections import BLOCK, WINDOW, ConnectionSetup, WantedMessages, ask, connected
from tidings.lab.generator import Sender, saturate
from tidings.lab.load_protocols import Counter, LoadPlan
from tidings.lab.run_verdict import Found
from tidings.lab.saturation import blocks_of
from tidings.lab.servers import LOAD_CORE, Server, on_core
from tidings.lab.workloads import FirstMessage, Parameters, Registration

CONNECTIONS = 64
BUFFER_BYTES = 1 << 16
SILENCE_S_MAX = 60.0
WARM_S, PAUSE_S = 0.5, 0.05


def register(server: Server, parameters: Parameters, topic: str) -> Found:
    asked = Registration.of(parameters)
    count = asked.subscriptions
    wanted = [_selector(asked.form, number) for number in range(count)]
    setup = ConnectionSetup((LoadPlan(topic, properties=(("id", "-"),)),), ((),) * min(CONNECTIONS, count))
    wire = server.wire
    with on_core(LOAD_CORE), connected(server, setup) as bench:
        asking = {}
        for number, one in enumerate(bench.subscribers):
            texts = enumerate(wanted[number :: len(bench.subscribers)], 1)
            output = b"".join(wire.subscribe(i, topic, text) for i, text in texts)
            asking[one.socket.fileno()] = _Asking(one.socket, memoryview(output), wire.answers())
        sender = Sender(bench.publisher.socket, blocks_of(wire, setup.plans, BLOCK))
        begin, cpu = time.perf_counter(), time.process_time()
        sent = _until_confirmed(asking, count, sender if asked.active else None)
        seconds = time.perf_counter() - begin
        share = (time.process_time() - cpu) / seconds
    return Found([("registration_s", seconds), ("published_messages", float(sent)), ("generator_share", share)])


def _selector(form: str, number: int) -> str:
    first, second = f"'a{number}'", f"'b{number}'"
    texts = {"simple": f"id = {first}", "or": f"id = {first} OR id = {second}", "in": f"id IN ({first}, {second})"}
    return texts[form]


@dataclass(slots=True)
class _Asking:
    """A connection that sends all its subscriptions and counts the answers."""

    socket: socket.socket
    output: memoryview
    answers: Counter

    def write(self) -> bool:
        """True if bytes are left to write."""
        self.output = self.output[self.socket.send(self.output) :]
        return bool(self.output)

    def read(self) -> int:
        data = bytearray(_read(self.socket))
        return self.answers.feed(data, len(data))


def _until_confirmed(asking: Mapping[int, _Asking], count: int, sender: Sender | None) -> int:
    """Write all, read all; beside it publish, as long as the server takes it. How many were published?

    Every byte is read once, and waiting threads sleep: the generator must not be what takes the time.
    """
    poller = select.epoll()
    for number in asking:
        poller.register(number, select.EPOLLIN | select.EPOLLOUT)
    if sender is not None:
        poller.register(sender.socket.fileno(), select.EPOLLOUT)
    confirmed, moved = 0, time.perf_counter()
    while confirmed < count:
        for number, event in poller.poll(0.5):
            if sender is not None and number == sender.socket.fileno():
                sender.send(sender.messages)
                continue
            moved = time.perf_counter()
            if event & select.EPOLLOUT and not asking[number].write():
                poller.modify(number, select.EPOLLIN)
            if event & ~select.EPOLLOUT:
                confirmed += asking[number].read()
        if time.perf_counter() - moved > SILENCE_S_MAX:
            raise RuntimeError(f"no subscription was confirmed for {SILENCE_S_MAX:.0f} s")
    poller.close()
    return 0 if sender is None else sender.sent


def _read(one: socket.socket) -> bytes:
    data = one.recv(BUFFER_BYTES)
    if not data:
        raise RuntimeError("the server closed a connection")
    return data


def first_message(server: Server, parameters: Parameters, topic: str) -> Found:
    asked, wire = FirstMessage.of(parameters), server.wire
    ids = [f"{number:04d}" for number in range(asked.groups)]
    plans = tuple(LoadPlan(topic, properties=(("id", one),)) for one in ids)
    residents = tuple((WantedMessages(topic, f"id = '{one}'"),) for one in ids)
    with on_core(LOAD_CORE), connected(server, ConnectionSetup(plans, residents)) as bench:
        arrivals = _Arrivals(server, topic, [ids[number % asked.groups] for number in range(asked.subscribers)])
        try:
            sender = Sender(bench.publisher.socket, blocks_of(wire, plans, BLOCK))
            done = lambda: sum(one.count for one in bench.subscribers)  # noqa: E731
            saturate(bench, [sender], lambda: WINDOW, done, arrivals.over)
        finally:
            arrivals.close()
    return Found(arrivals.found)


class _Arrivals:
    """One newcomer after another, each gone when its first message has come."""

    def __init__(self, server: Server, topic: str, ids: list[str]) -> None:
        self._server, self._topic, self._ids = server, topic, ids
        self._socket: socket.socket | None = None
        self._next = time.perf_counter() + WARM_S
        self._got = b""
        self._asked = self._confirmed = 0.0
        self.found: list[tuple[str, float]] = []

    def over(self, _: int) -> bool:
        now = time.perf_counter()
        if self._socket is not None:
            self._look(self._socket, now)
        elif now >= self._next:
            if not self._ids:
                return True
            self._come(self._ids.pop())
        return False

    def _come(self, id: str) -> None:
        wire = self._server.wire
        one = self._socket = socket.create_connection(("127.0.0.1", self._server.port))
        ask(one, wire, [wire.hello("")])
        one.setblocking(False)
        self._got, self._confirmed, self._asked = b"", 0.0, time.perf_counter()
        one.send(wire.subscribe(1, self._topic, f"id = '{id}'"))

    def _look(self, one: socket.socket, now: float) -> None:
        if now - self._asked > SILENCE_S_MAX:
            raise RuntimeError("a new subscriber got no message")
        try:
            self._got += _read(one)
        except BlockingIOError:
            return
        confirmed, message = self._server.wire.seen(self._got)
        if confirmed and not self._confirmed:
            self._confirmed = now
            self.found.append(("subscribe_s", now - self._asked))
        if confirmed and message:
            self.found.append(("first_message_s", now - self._confirmed))
            self.close()
            self._next = now + PAUSE_S

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
