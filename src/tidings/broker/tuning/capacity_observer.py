"""Somebody who watches the broker's counters and has something to add to its metrics, such as what it can carry."""

import asyncio
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tidings.broker.tasks import Steps
from tidings.kernel.client_input import Pace
from tidings.kernel.forwarder import Forwarder
from tidings.node.clients.admission import Admission

T = TypeVar("T")
SECONDS = 1.0
Gauge = tuple[str, str, Sequence[tuple[Mapping[str, str], float]]]  # name, meaning, samples by labels


@dataclass(frozen=True, slots=True)
class Counters:
    """Since the broker started."""

    received: int
    delivered: int
    filters: int  # installed now
    cpu_s: float
    reads: int
    writes: int
    sleeps: int = 0  # of the event loop's thread: nothing was there to do
    received_bytes: int = 0
    sent_bytes: int = 0
    stored: int = 0  # records
    waited: float = 0.0  # messages whose waiting time at the socket is known, by samples
    wait_seconds: float = 0.0  # theirs together


class ExcludedCpuTime:
    """CPU time of looking at the broker: what it costs must not be taken for what messages cost."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def doing(self, work: Callable[[], T]) -> Callable[[], T]:
        """The same work, for the event loop's thread; how long it takes is noted."""

        def noted() -> T:
            began = time.thread_time()
            try:
                return work()
            finally:
                self.seconds += time.thread_time() - began

        return noted


class Observer(Protocol):
    def observe(self, now_s: float, counters: Counters) -> None: ...

    def gauges(self) -> list[Gauge]: ...

    def rate_allowed(self, waiting_s_max: float, probability: float) -> float | None:
        """Messages per second at which this share of messages waits no longer than that; None: not known yet."""


@dataclass(frozen=True, slots=True)
class CounterSources:
    """The parts of a broker that count."""

    forwarder: Forwarder
    pace: Pace
    aside: ExcludedCpuTime
    stored: Callable[[], int]  # records


async def watch(observer: Observer, counting: CounterSources, admission: Admission | None) -> None:
    """Until it is cancelled. What the observer makes of the counters is computed beside the event loop."""
    steps = Steps()
    while True:
        with steps.going_on("capacity"):
            counted = counters(counting)
            counting.aside.seconds += await asyncio.to_thread(_observed, observer, time.monotonic(), counted, admission)
        await asyncio.sleep(SECONDS)


def _observed(observer: Observer, now_s: float, counted: Counters, admission: Admission | None) -> float:
    """Returns the CPU time that it took."""
    began = time.thread_time()
    observer.observe(now_s, counted)
    if admission is not None:
        admission.rate_allowed = observer.rate_allowed(admission.waiting_s_max, admission.probability)
    return time.thread_time() - began


def counters(counting: CounterSources) -> Counters:
    """On the event loop's thread."""
    forwarder, pace = counting.forwarder, counting.pace
    stats = forwarder.stats()
    return Counters(
        stats["received"],
        stats["delivered"],
        forwarder.filters(),
        time.process_time() - counting.aside.seconds,
        stats["feeds"],
        stats["writes"],
        resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw,
        stats["received_bytes"],
        stats["sent_bytes"],
        counting.stored(),
        sum(pace.wait_counts()),
        pace.wait_seconds,
    )
