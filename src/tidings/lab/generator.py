"""The load: one publisher and its subscribers, driven by one event loop on a core of its own.

Two regimes. *Saturated*: the publisher sends blocks as long as no more than `window` messages are on their way to the
slowest subscriber (or without receipt, if receipts are wanted); the same window for every server. *Paced*: one block
(of one message, unless told otherwise) at fixed times; since messages arrive in order, the k-th arrival belongs to the
k-th message sent and latency needs no timestamp in it.

A point counts from the end of its warm-up; the server's CPU time is read at both ends.
"""

import select
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tidings.kernel.block_ring import BlockRing
from tidings.lab.connections import Bench, ConnectionLoad, connected
from tidings.lab.servers import LOAD_CORE, Server, on_core

SILENCE_SECONDS_MAX = 20.0
BUFFER_BYTES = 1 << 20


def run(server: Server, load: ConnectionLoad) -> dict[str, Any]:
    """Measure one point."""
    with on_core(LOAD_CORE), connected(server, load.setup) as bench:
        if load.rate:
            return _paced(server, load, bench)
        return _saturated(server, load, bench) if load.publishers == 1 else _in_turn(server, load, bench)


# --- saturated --------------------------------------------------------------------------------------------------------


class _Marks:
    """Counts at the beginning and the end of what is measured."""

    def __init__(self, server: Server, load: ConnectionLoad, bench: Bench) -> None:
        self._server, self._bench = server, bench
        self._receipts = load.plan.receipts
        self._begin = time.perf_counter() + load.warm_seconds
        self._end = self._begin + load.seconds
        self._first: tuple[float, ...] = ()
        self._moved = (0, time.perf_counter())

    def over(self, done: int) -> bool:
        now = time.perf_counter()
        if done != self._moved[0]:
            self._moved = (done, now)
        elif now - self._moved[1] > SILENCE_SECONDS_MAX:
            raise RuntimeError(f"nothing arrived for {SILENCE_SECONDS_MAX:.0f} s after {done} messages")
        if now < self._begin:
            return False
        if not self._first:
            self._first = self._sample()
        return now >= self._end

    def result(self) -> dict[str, Any]:
        before, after = self._first, self._sample()
        seconds, cpu, own, received, receipts = (b - a for a, b in zip(before, after, strict=True))
        counted = min(received, receipts) if self._receipts else received
        if counted <= 0:
            raise RuntimeError("no message arrived")
        return {
            "received_per_s": counted / seconds,
            "cpu_us": cpu / counted * 1e6,
            "server_share": cpu / seconds,
            "generator_share": own / seconds,
            "memory_mb": self._server.memory_bytes() / 1e6,
            "messages": counted,
        }

    def _sample(self) -> tuple[float, ...]:
        bench = self._bench
        received = sum(one.count for one in bench.subscribers) / len(bench.subscribers)
        return (
            time.perf_counter(),
            self._server.cpu_seconds(),
            time.process_time(),
            received,
            sum(one.count for one in bench.publishers),
        )


class Sender:
    """Sends blocks in turn, again and again; what the socket does not take now is sent later."""

    def __init__(self, one: socket.socket, *sizes: Sequence[tuple[bytes, int]]) -> None:
        """`sizes`: the same messages in blocks of several sizes, the largest first; the largest that may is sent."""
        self.socket = one
        self._rings = [BlockRing(list(blocks)) for blocks in sizes]
        self.sent = 0  # messages, counted when their block is begun
        self.sent_of = [0 for _ in sizes]  # the same, in blocks of each size

    @property
    def busy(self) -> bool:
        return any(ring.busy for ring in self._rings)

    @property
    def messages(self) -> int:
        """Of the next block, if it is one of the largest."""
        return self._rings[0].messages

    @property
    def least(self) -> int:
        """Messages of the smallest block there is next."""
        return min(ring.messages for ring in self._rings)

    def send(self, messages_max: int) -> None:
        """Send blocks of at most this many messages in total, as far as the socket takes them; a partial block first.

        The kernel does it: with one message a block, the generator must be faster than any server.
        """
        number, left = self.socket.fileno(), messages_max
        for ring in self._rings:
            if ring.busy:
                ring.send(number, 0)
                if ring.busy:
                    return
        for place, ring in enumerate(self._rings):
            begun = ring.send(number, left)
            left -= begun
            self.sent += begun
            self.sent_of[place] += begun
            if ring.busy:
                return


def _saturated(server: Server, load: ConnectionLoad, bench: Bench) -> dict[str, Any]:
    marks = _Marks(server, load, bench)
    blocks = [(server.wire.block(load.plan, load.block), load.block) for _ in range(load.blocks)]
    sender = Sender(bench.publisher.socket, blocks)
    subscribers = bench.subscribers
    slowest: Callable[[], int] = lambda: min(one.count for one in subscribers)  # noqa: E731
    if load.plan.receipts:
        slowest = lambda: bench.publisher.count  # noqa: E731
    saturate(bench, [sender], lambda: load.window, slowest, marks.over)
    return marks.result()


def saturate(
    bench: Bench,
    senders: Sequence[Sender],
    window: Callable[[], int],
    done: Callable[[], int],
    over: Callable[[int], bool],
    rest_s: Callable[[], float] = lambda: 0.0,
) -> None:
    """Send as long as no more than `window` messages are not `done`, until `over` says it is. `rest_s`: how long not to
    look, when there is work enough for the server meanwhile: a look at each message costs more than the message."""
    poller = select.epoll()
    streams = {one.socket.fileno(): one for one in [*bench.publishers, *bench.subscribers]}
    for number in streams:
        poller.register(number, select.EPOLLIN)
    receiving = {one.socket.fileno() for one in bench.subscribers}
    buffer = bytearray(BUFFER_BYTES)
    waiting: dict[int, bool] = dict.fromkeys(range(len(senders)), False)
    finished, sent = done(), sum(one.sent for one in senders)
    patience = 0.5 if window() > 1 else 0.0  # one at a time: look all the time, or our own waking up is measured
    least = min(one.least for one in senders)
    able = True  # at first, to go on with what was begun before
    while not over(finished):
        for number, sender in enumerate(senders if able else ()):
            before = sender.sent
            sender.send(window() + finished - sent)
            sent += sender.sent - before
            if sender.busy != waiting[number]:
                waiting[number] = sender.busy
                mask = select.EPOLLIN | select.EPOLLOUT if sender.busy else select.EPOLLIN
                poller.modify(sender.socket.fileno(), mask)
        if (rest := rest_s()) > 0:
            time.sleep(rest)
        for number, event in poller.poll(patience):
            if event & ~select.EPOLLOUT:
                new = streams[number].read(buffer)
                bench.arrived += new if number in receiving else 0
        finished = done()
        # A server that writes message by message wakes us for each: then nothing may cost as much as all senders.
        able = window() + finished - sent >= least or any(waiting.values())
    poller.close()


def _in_turn(server: Server, load: ConnectionLoad, bench: Bench) -> dict[str, Any]:
    """Many publishers, each with one message without receipt."""
    message = server.wire.block(load.plan, 1)
    poller = select.epoll()
    publishers = {one.socket.fileno(): one for one in bench.publishers}
    subscribers = {one.socket.fileno(): one for one in bench.subscribers}
    for number in [*publishers, *subscribers]:
        poller.register(number, select.EPOLLIN)
    buffer = bytearray(BUFFER_BYTES)
    marks, done = _Marks(server, load, bench), 0
    for one in bench.publishers:
        one.socket.send(message)
    while not marks.over(done):
        for number, _ in poller.poll(0.5):
            publisher = publishers.get(number)
            if publisher is None:
                subscribers[number].read(buffer)
            elif publisher.read(buffer):
                publisher.socket.send(message)
                done += 1
    poller.close()
    return marks.result()


# --- paced ------------------------------------------------------------------------------------------------------------


def _paced(server: Server, load: ConnectionLoad, bench: Bench) -> dict[str, Any]:
    publisher, (subscriber, *_) = bench.publisher, bench.subscribers
    data = server.wire.block(load.plan, load.block)
    poll = select.poll()
    poll.register(subscriber.socket, select.POLLIN)
    buffer = bytearray(BUFFER_BYTES)
    marks = _Marks(server, load, bench)
    begin = time.perf_counter_ns()
    interval = load.block / load.rate * 1e9
    sent: list[int] = []
    arrived: list[tuple[int, int]] = []
    clock, send = time.perf_counter_ns, publisher.socket.send
    while not marks.over(subscriber.count):
        if clock() >= begin + len(sent) * interval:
            try:
                if send(data) != len(data):
                    raise RuntimeError("the socket is full at this rate")
            except BlockingIOError:
                raise RuntimeError("the socket is full at this rate") from None
            sent.append(clock())
        if poll.poll(0):
            subscriber.read(buffer)
            arrived.append((clock(), subscriber.count))
    return {**marks.result(), **_latency(sent, arrived, load), "offered_per_s": load.rate}


def _latency(sent: list[int], arrived: list[tuple[int, int]], load: ConnectionLoad) -> dict[str, float]:
    """Milliseconds from send to arrival, of the messages sent after the warm-up."""
    times = np.array([when for when, _ in arrived])
    counts = np.array([count for _, count in arrived])
    numbers = np.arange(1, counts[-1] + 1)
    got = times[np.searchsorted(counts, numbers)]
    gone = np.repeat(np.array(sent), load.block)[: len(numbers)]
    measured = ((got - gone) / 1e6)[gone - sent[0] > load.warm_seconds * 1e9]
    p50, p99 = np.quantile(measured, [0.5, 0.99])
    return {"p50_ms": float(p50), "p99_ms": float(p99)}
