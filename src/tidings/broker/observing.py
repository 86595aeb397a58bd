"""Somebody who watches the broker's counters and has something to add to its metrics, such as what it can carry."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

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


class Observer(Protocol):
    def observe(self, now_s: float, counters: Counters) -> None: ...

    def gauges(self) -> list[Gauge]: ...


async def watch(broker: "Broker", observer: Observer) -> None:
    """Until it is cancelled."""
    while True:
        observer.observe(time.monotonic(), counters(broker))
        await asyncio.sleep(SECONDS)


def counters(broker: "Broker") -> Counters:
    forwarder = broker.forwarder
    stats = forwarder.stats()
    return Counters(
        stats["received"], stats["delivered"], forwarder.filters(), time.process_time(), forwarder.grade_sums()
    )
