"""One run at full load: publishers send as fast as the server lets them, counters are read at intervals.

The generator is this process, one event loop over all sockets, on a core of its own. It sends blocks made beforehand
and counts what comes back by its size; its own CPU time is sampled with the server's, so that a run in which it was the
bottleneck is found out.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidings.lab.connections import Bench, connected
from tidings.lab.experiment import Measure
from tidings.lab.generator import Sender, saturate
from tidings.lab.load_protocols import LoadPlan, LoadProtocol
from tidings.lab.run_verdict import CounterSample
from tidings.lab.servers import LOAD_CORE, Server, on_core
from tidings.lab.stopping_rule import StoppingRule
from tidings.lab.window import SendWindow
from tidings.lab.workloads import Design

SILENCE_S_MAX = 20.0  # a server that gives nothing for so long is stuck
DRAIN_S_MAX = 2.0  # and if after the end nothing more comes for so long, what is still missing is lost
SMALL = 50  # small blocks in a large one, for slow servers


class SaturationWatch:
    """Reads the counters, and says when the run is over."""

    def __init__(
        self, server: Server, bench: Bench, senders: Sequence[Sender], design: Design, measure: Measure
    ) -> None:
        self.window, self._senders = SendWindow(measure.window, 2 * _small(measure)), senders
        self._server, self._bench, self._copies = server, bench, design.copies
        self._receipts = design.setup.plans[0].receipts
        self._interval_s, self.course = measure.interval_s, StoppingRule(measure)
        self._begin = self._next = time.perf_counter()
        self._moved = (0, self._begin)
        self.samples: list[CounterSample] = []

    def done(self) -> int:
        """Messages the server has finished with."""
        if self._receipts:
            return sum(one.count for one in self._bench.publishers)
        return int(self.arrived() / self._copies)

    def arrived(self) -> int:
        return self._bench.arrived

    def over(self, done: int) -> bool:
        now = time.perf_counter()
        if done != self._moved[0]:
            self._moved = (done, now)
        elif now - self._moved[1] > SILENCE_S_MAX:
            raise RuntimeError(f"nothing arrived for {SILENCE_S_MAX:.0f} s after {done} messages")
        if done >= self.window.awaited:
            self.window.update(now, sum(one.sent for one in self._senders), done)
        if now < self._next:
            return False
        self._next = now + self._interval_s
        self.samples.append(self._sample(now - self._begin, done))
        return self.course.over(self.samples)

    def _sample(self, at_s: float, done: int) -> CounterSample:
        server = self._server
        return CounterSample(
            at_s, done, self.arrived(), server.cpu_seconds(), time.process_time(), server.memory_bytes()
        )


@dataclass(frozen=True, slots=True)
class SaturatedRun:
    samples: list[CounterSample]
    lost: int  # messages
    warm_s: float  # how long the warm-up was


def measure_run(server: Server, design: Design, measure: Measure) -> SaturatedRun:
    setup = design.setup
    with on_core(LOAD_CORE), connected(server, setup) as bench:
        sizes = [blocks_of(server.wire, setup.plans, size) for size in (measure.block, _small(measure))]
        senders = [
            Sender(one.socket, *(_from(blocks, number / setup.publishers) for blocks in sizes))
            for number, one in enumerate(bench.publishers)
        ]
        watch = SaturationWatch(server, bench, senders, design, measure)
        saturate(bench, senders, lambda: watch.window.size, watch.done, watch.over, lambda: watch.window.rest_s)

        def copies() -> int:
            begins = [[_begin(blocks, number / setup.publishers) for blocks in sizes] for number in range(len(senders))]
            return sum(
                copies_of(design, begin, sent)
                for sender, places in zip(senders, begins, strict=True)
                for begin, sent in zip(places, sender.sent_of, strict=True)
            )

        lost = _lost(bench, senders, watch, copies)
        return SaturatedRun(watch.samples, lost, watch.course.warm_s)


def _small(measure: Measure) -> int:
    return max(1, measure.block // SMALL)


def _from(blocks: list[tuple[bytes, int]], share: float) -> list[tuple[bytes, int]]:
    """Each publisher begins somewhere else."""
    turn = int(len(blocks) * share)
    return [*blocks[turn:], *blocks[:turn]]


def blocks_of(wire: LoadProtocol, plans: Sequence[LoadPlan], size: int) -> list[tuple[bytes, int]]:
    """The messages in turn, cut into blocks of this number."""
    if len(plans) == 1:
        return [(wire.block(plans[0], size), size)]
    ring = [wire.block(plan, 1) for plan in plans] * max(1, size // len(plans))
    if len({len(one) for one in ring}) > 1:
        raise ValueError("all messages of a run have one size")
    return [(b"".join(ring[i : i + size]), len(ring[i : i + size])) for i in range(0, len(ring), size)]


def copies_of(design: Design, begin: int, messages: int) -> int:
    """Copies of this number of messages, sent in turn from the one at `begin` on: exactly, where they differ."""
    grades = design.grades
    if not grades:
        return round(messages * design.copies)
    turns, rest = divmod(messages, len(grades))
    return turns * sum(grades) + sum(grades[(begin + number) % len(grades)] for number in range(rest))


def _begin(blocks: Sequence[tuple[bytes, int]], share: float) -> int:
    """The first message of a publisher, where `_from` lets it begin."""
    return sum(count for _, count in blocks[: int(len(blocks) * share)])


def _lost(bench: Bench, senders: Sequence[Sender], watch: SaturationWatch, copies: Callable[[], int]) -> int:
    """Finish what was begun, wait for what is on its way, count what did not come."""
    moved = (0, time.perf_counter())
    expected = math.inf

    def over(_: int) -> bool:
        nonlocal expected, moved
        if all(not one.busy for one in senders):
            expected = copies()
        arrived, now = watch.arrived(), time.perf_counter()
        if arrived != moved[0]:
            moved = (arrived, now)
        return arrived >= expected or now - moved[1] > DRAIN_S_MAX

    saturate(bench, senders, lambda: 0, watch.done, over)
    if expected == math.inf:
        raise RuntimeError("the server does not take what was begun")
    return max(0, int(expected) - watch.arrived())
