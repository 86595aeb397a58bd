"""Somebody who watches the broker's counters and has something to add to its metrics, such as what it can carry."""

import asyncio
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidings.broker.admission import Admission

if TYPE_CHECKING:
    from tidings.broker.server import Broker

SECONDS = 1.0
Gauge = tuple[str, str, list[tuple[Mapping[str, str], float]]]  # name, meaning, samples by labels


@dataclass(frozen=True, slots=True)
class Counters:
    """Since the broker started."""

    received: int
    delivered: int
    filters: int  # installed now
    cpu_s: float
    grade_sums: tuple[float, float, float]  # of the replication grade, its square and its cube
    reads: int = 0
    writes: int = 0
    sleeps: int = 0  # of the event loop's thread: nothing was there to do


class Observer(Protocol):
    def observe(self, now_s: float, counters: Counters) -> None: ...

    def gauges(self) -> list[Gauge]: ...

    def rate_allowed(self, waiting_s_max: float, probability: float) -> float | None:
        """Messages a second at which so many wait no longer than that; None: not known yet."""


async def watch(broker: "Broker", observer: Observer) -> None:
    """Until it is cancelled. What the observer makes of the counters is computed beside the event loop."""
    while True:
        await asyncio.to_thread(_observed, observer, time.monotonic(), counters(broker), broker.admission)
        await asyncio.sleep(SECONDS)


def _observed(observer: Observer, now_s: float, counted: Counters, admission: Admission | None) -> None:
    observer.observe(now_s, counted)
    if admission is not None:
        admission.rate_allowed = observer.rate_allowed(admission.waiting_s_max, admission.probability)


def counters(broker: "Broker") -> Counters:
    """On the event loop's thread."""
    forwarder = broker.forwarder
    stats = forwarder.stats()
    return Counters(
        stats["received"],
        stats["delivered"],
        forwarder.filters(),
        time.process_time(),
        forwarder.grade_sums(),
        stats["feeds"],
        stats["writes"],
        resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw,
    )
