"""Measures waiting times in a broker that is not saturated: Poisson arrivals, single messages, each timed.

The generator is this process, on a core of its own, and never sleeps: it looks at the clock, sends what is due, reads
what has come. Messages are those of the setup `mix`: of many types in random order, with a different number of
receivers each. The broker notes when each of its reads began and how many messages it had by then, so for every message
it is known when its batch began; both processes read the same clock. Waiting is from just before `send` to the
beginning of the message's batch.

Some of that a message suffers though nobody is before it (system calls, waking up). It is measured in the same run, on
those that met an idle broker: everything sent before had arrived everywhere, `SETTLE_NS` ago or longer. Poisson
arrivals do not know that, so those messages are a fair sample.

The generator must not be what is measured. It has a core of its own and, where the system allows it, real-time priority
(as has the server: both are treated alike), and messages are timed from when they were sent, not from when they were
due. If it does not run for `HOLE_NS` all the same, its schedule is moved by as much, that time does not count, nor do
the messages sent shortly before and after.
"""

import gc
import os
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tidings.capacity.arrays import Array, check_finite
from tidings.lab.connections import BLOCK, WINDOW, Bench, LoadStream, connected
from tidings.lab.generator import Sender, saturate
from tidings.lab.run_verdict import Found
from tidings.lab.saturation import blocks_of
from tidings.lab.servers import LOAD_CORE, Server, TidingsServer, on_core
from tidings.lab.workloads import Design, Parameters, WaitingWorkload

BUFFER_BYTES = 1 << 20
HOLE_NS = 300_000
AROUND_NS = 3_000_000  # around a hole, in which nothing counts
SETTLE_NS = 40_000  # after its last write the broker still has to get back to sleep
READS_MAX = 4  # between two looks at the clock
DRAIN_S_MAX = 5.0
PRIORITY = 10
SATURATED_S = 1.5
HOLE_SHARE_MAX = 0.2
WAIT_S_MAX = 0.02  # a longer one comes from who else runs on the machine
IDLE_MIN = 50
QUANTILES = {"waiting_p50_s": 0.5, "waiting_p90_s": 0.9, "waiting_p99_s": 0.99, "waiting_p999_s": 0.999}
_COUNTED = ("feeds", "writes", "received", "delivered")


@dataclass(frozen=True, slots=True)
class PacedCounts:
    """Work of a server in an interval, by its own counters and those of the system."""

    seconds: float  # less those in which the generator did not run
    cpu_s: float
    sleeps: int
    feeds: int
    writes: int
    received: int
    delivered: int


@dataclass(frozen=True, slots=True)
class PacedRun:
    counts: PacedCounts
    waits_s: Array = field(repr=False)  # of each message that counts, from `send` to the beginning of its batch
    met_idle: NDArray[np.bool_] = field(repr=False)  # which of them met an idle broker
    late_s: Array = field(repr=False)  # how much later than planned each of them was sent
    hole_s: float
    generator_share: float  # of its looks at the clock and the sockets, those that found something to do

    @property
    def rate(self) -> float:
        return self.counts.received / self.counts.seconds

    @property
    def busy(self) -> float:
        """The share of its core that the server used."""
        return self.counts.cpu_s / self.counts.seconds

    @property
    def wake_s(self) -> float:
        """The mean wait of those who met nobody."""
        return float(self.waits_s[self.met_idle].mean())

    @property
    def waiting_s(self) -> float:
        """Of all."""
        return float(self.waits_s.mean())


def measure_paced(
    server: TidingsServer, design: Design, rate: float, seconds: float, rng: np.random.Generator, warm_s: float = 0.3
) -> PacedRun:
    """One run at this rate."""
    check_finite("rate", rate, 0, open_low=True)
    check_finite("seconds", seconds, 0, open_low=True)
    frames = [server.wire.block(plan, 1) for plan in design.setup.plans]
    with on_core(LOAD_CORE), _undisturbed(server), connected(server, design.setup) as bench:
        _Sending(bench, frames, design.grades, rate, warm_s, rng).run()
        server.reads()
        before, sending = _counters(server), _Sending(bench, frames, design.grades, rate, seconds, rng)
        sending.run()
        counts = _less(_counters(server), before, sending.hole_s)
        reads = server.reads()
    counted = sending.counted()
    return PacedRun(
        counts,
        sending.waits_s(reads)[counted],
        np.array(sending.met_idle)[counted],
        sending.late_s()[counted],
        sending.hole_s,
        sending.working,
    )


def measure_waiting(server: Server, parameters: Parameters, topic: str) -> Found:
    """A run of an experiment: a mix at a rate; at rate 0 as fast as it goes."""
    if not isinstance(server, TidingsServer):
        raise RuntimeError(f"{server.name} does not count its batches")
    asked = WaitingWorkload.of(parameters, topic)
    if not asked.rate:
        return _saturated(server, asked.design)
    run = measure_paced(server, asked.design, asked.rate, asked.seconds, np.random.default_rng(crc32(topic.encode())))
    if run.hole_s > HOLE_SHARE_MAX * asked.seconds:
        raise RuntimeError(f"the generator did not run for {run.hole_s:.2f} s")
    if (worst := float(run.waits_s.max())) > WAIT_S_MAX:
        raise RuntimeError(f"the server did not run for {worst:.3f} s")
    if run.met_idle.sum() < IDLE_MIN:
        raise RuntimeError(f"only {run.met_idle.sum()} messages met an idle broker")
    metrics = {**asdict(run.counts), "hole_s": run.hole_s, "generator_share": run.generator_share}
    metrics |= {"waiting_s": run.waiting_s, "wake_s": run.wake_s, "late_s": float(run.late_s.mean())}
    metrics |= {name: float(np.quantile(run.waits_s, p)) for name, p in QUANTILES.items()}
    return Found([(name, float(value)) for name, value in metrics.items()])


def _saturated(server: TidingsServer, design: Design) -> Found:
    """The same messages, sent as fast as the broker takes them."""
    with on_core(LOAD_CORE), _undisturbed(server), connected(server, design.setup) as bench:
        senders = [Sender(bench.publisher.socket, blocks_of(server.wire, design.setup.plans, BLOCK))]

        def run(seconds: float) -> None:
            end = time.perf_counter() + seconds
            probe = bench.subscribers[-1]
            saturate(bench, senders, lambda: WINDOW, lambda: probe.count, lambda _: time.perf_counter() >= end)

        run(SATURATED_S / 4)
        before = _counters(server)
        run(SATURATED_S)
        counts = _less(_counters(server), before)
    return Found([(name, float(value)) for name, value in asdict(counts).items()])


def _less(after: tuple[float, ...], before: tuple[float, ...], hole_s: float = 0.0) -> PacedCounts:
    seconds, cpu_s, *counts = (b - a for a, b in zip(before, after, strict=True))
    return PacedCounts(seconds - hole_s, cpu_s, *map(int, counts))


def _counters(server: TidingsServer) -> tuple[float, ...]:
    counts = server.counters()
    sleeps = next(
        int(line.split()[1])
        for line in Path(f"/proc/{server.pid}/status").read_text().splitlines()
        if line.startswith("voluntary")
    )
    return (time.perf_counter(), server.cpu_seconds(), sleeps, *(counts[name] for name in _COUNTED))


@contextmanager
def _undisturbed(server: TidingsServer) -> Iterator[None]:
    """Both ends before all other processes of the machine, if we may; no garbage collection in the generator."""
    gc.collect()
    gc.disable()
    try:
        with suppress(PermissionError):
            for pid in (server.pid, 0):
                os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(PRIORITY))
        yield
    finally:
        with suppress(PermissionError):
            for pid in (server.pid, 0):
                os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
        gc.enable()


class _Sending:
    """One stretch of Poisson arrivals, until the last message has arrived everywhere."""

    def __init__(
        self,
        bench: Bench,
        frames: Sequence[bytes],
        grades: Sequence[int],
        rate: float,
        seconds: float,
        rng: np.random.Generator,
    ) -> None:
        due = np.cumsum(rng.exponential(1e9 / rate, int(rate * seconds * 1.5) + 100))
        self._due = due[due < seconds * 1e9]
        self._types: list[int] = rng.integers(0, len(frames), len(self._due)).tolist()
        self._frames, self._grades, self._bench = frames, grades, bench
        self._sent: list[int] = []
        self._planned: list[int] = []
        self._holes: list[tuple[int, int]] = []
        self.met_idle: list[bool] = []
        self.working = 0.0

    @property
    def hole_s(self) -> float:
        return sum(end - begin for begin, end in self._holes) / 1e9

    def run(self) -> None:
        poller = select.epoll()
        streams = {one.socket.fileno(): one for one in self._bench.subscribers}
        for number in streams:
            poller.register(number, select.EPOLLIN)
        try:
            self._loop(poller, streams)
        finally:
            poller.close()

    def _loop(self, poller: select.epoll, streams: dict[int, LoadStream]) -> None:
        clock, send = time.perf_counter_ns, self._bench.publisher.socket.send
        buffer = bytearray(BUFFER_BYTES)
        frames, types, grades = self._frames, self._types, self._grades
        due = [*self._due.astype(np.int64).tolist(), 1 << 61]
        expected = len(types)
        number = turns = idle = on_their_way = 0
        start = last = heard = clock()
        while number < expected or on_their_way:
            now = clock()
            if now - last > HOLE_NS:
                self._holes.append((last, now))
                start += now - last
            last = now
            if now >= start + due[number]:
                frame = frames[types[number]]
                if send(frame) != len(frame):
                    raise RuntimeError("the socket is full at this rate")
                self._sent.append(now)
                self._planned.append(start + due[number])
                self.met_idle.append(on_their_way == 0 and now - heard > SETTLE_NS)
                on_their_way += grades[types[number]]
                number += 1
            ready = poller.poll(0, READS_MAX)
            for file, _ in ready:
                on_their_way -= streams[file].read(buffer)
                heard = clock()
            turns += 1
            idle += not ready and now < start + due[number]
            if number == expected and now - heard > DRAIN_S_MAX * 1e9:
                raise RuntimeError(f"{on_their_way} messages did not arrive")
        self.working = 1 - idle / turns

    def waits_s(self, reads: NDArray[np.int64]) -> Array:
        """The k-th message came with the last read before which fewer than k messages had come."""
        before = reads[:, 1] - reads[0, 1]
        own = np.searchsorted(before, np.arange(1, len(self._sent) + 1), side="left") - 1
        return np.asarray((reads[own, 0] - np.array(self._sent)) / 1e9, dtype=np.float64)

    def late_s(self) -> Array:
        return np.asarray((np.array(self._sent) - np.array(self._planned)) / 1e9, dtype=np.float64)

    def counted(self) -> NDArray[np.bool_]:
        """Selects the messages that were not sent near a gap of the generator."""
        sent = np.array(self._sent)
        good = np.ones(len(sent), dtype=np.bool_)
        for begin, end in self._holes:
            good &= (sent < begin - AROUND_NS) | (sent > end + AROUND_NS)
        return good
