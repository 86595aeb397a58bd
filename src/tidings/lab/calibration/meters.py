"""Measures the CPU time of a running broker: by its metrics, by its process, or by its throughput at saturation.

Asking costs the broker time as well, and a broker with nothing to do is not idle; both are measured first and taken
off.
"""

import re
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidings.errors import UsageError

SECONDS_MAX = 20.0
IDLE_S = 1.0
ASKED = 5  # times, to know what asking costs
_CPU = re.compile(r"^tidings_cpu_seconds_total ([0-9.eE+-]+)$", re.MULTILINE)
_IO = re.compile(r"^tidings_(reads|writes)_total ([0-9.eE+-]+)$", re.MULTILINE)
_WAIT = re.compile(
    r'^tidings_socket_waiting_seconds_(sum|count|bucket)(?:\{le="([^"]+)"\})? ([0-9.eE+-]+)$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class SocketWaits:
    """Waiting times in sockets, as the broker's histogram has them: cumulative counts by upper bound."""

    total_s: float
    count: float
    below: tuple[tuple[float, float], ...]  # (bound, count)

    def since(self, before: "SocketWaits") -> "SocketWaits":
        old = dict(before.below)
        below = tuple((bound, count - old.get(bound, 0.0)) for bound, count in self.below)
        return SocketWaits(self.total_s - before.total_s, self.count - before.count, below)

    @property
    def mean(self) -> float | None:
        return self.total_s / self.count if self.count else None

    def quantile(self, p: float) -> float | None:
        """Within its bucket as if the logarithms of waiting times were equally distributed there."""
        if not self.count:
            return None
        low, counted = 0.0, 0.0
        for bound, count in self.below:
            if count >= p * self.count:
                share = (p * self.count - counted) / (count - counted) if count > counted else 1.0
                if bound == float("inf"):
                    return low
                return bound * share if low == 0 else low * (bound / low) ** share
            low, counted = bound, count
        return low


@dataclass(frozen=True, slots=True)
class MeterReading:
    """At one moment. None: the broker does not publish it."""

    cpu_s: float
    at: float
    waits: SocketWaits | None = None
    reads: float | None = None  # from sockets
    writes: float | None = None


class CpuMeter(Protocol):
    """Interface of what reads a broker's CPU time."""

    def read(self) -> MeterReading: ...


@dataclass(frozen=True, slots=True)
class MetricsMeter:
    """HOST:PORT of a Tidings broker's metrics."""

    address: str

    def read(self) -> MeterReading:
        url = self.address if "://" in self.address else f"http://{self.address}"
        try:
            with urllib.request.urlopen(f"{url.rstrip('/')}/metrics", timeout=SECONDS_MAX) as page:
                text = page.read().decode(errors="replace")
        except (OSError, ValueError) as error:
            reason = f"cannot read the metrics at {url}: {error}; give --metrics HOST:PORT, or --pid for another broker"
            raise UsageError("E_LAB_METRICS", reason) from None
        found = _CPU.search(text)
        if found is None:
            raise UsageError("E_LAB_METRICS", f"{url} has no tidings_cpu_seconds_total; give --pid for another broker")
        counted = {name: float(value) for name, value in _IO.findall(text)}
        reads, writes = counted.get("reads"), counted.get("writes")
        return MeterReading(float(found[1]), time.perf_counter(), _waits(text), reads, writes)


def _waits(text: str) -> SocketWaits | None:
    sums, below = {"sum": 0.0, "count": 0.0}, []
    for kind, bound, value in _WAIT.findall(text):
        if kind == "bucket":
            below.append((float(bound), float(value)))
        else:
            sums[kind] = float(value)
    return SocketWaits(sums["sum"], sums["count"], tuple(below)) if below else None


@dataclass(frozen=True, slots=True)
class ProcessMeter:
    """Any broker on this machine, of whatever processes: all their threads."""

    pids: Sequence[int]

    def read(self) -> MeterReading:
        nanoseconds = 0
        for pid in self.pids:
            try:
                threads = list(Path(f"/proc/{pid}/task").iterdir())
                nanoseconds += sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)
            except (OSError, ValueError, IndexError) as error:
                raise UsageError("E_LAB_PID", f"cannot read the CPU time of process {pid}: {error}") from None
        return MeterReading(nanoseconds / 1e9, time.perf_counter())


@dataclass(frozen=True, slots=True)
class WallMeter:
    """A broker that tells nothing: saturated, it is taken to use one core all the time. Only for a quiet machine."""

    def read(self) -> MeterReading:
        now = time.perf_counter()
        return MeterReading(now, now)


@dataclass(frozen=True, slots=True)
class MeterOverhead:
    """CPU time that is not the load's: of one reading, and of a second in which nothing happens."""

    reading_s: float = 0.0
    idle_share: float = 0.0

    @classmethod
    def of(cls, meter: CpuMeter, idle_s: float = IDLE_S) -> "MeterOverhead":
        if isinstance(meter, WallMeter):
            return cls()
        readings = [meter.read() for _ in range(ASKED)]
        each = max(0.0, (readings[-1].cpu_s - readings[0].cpu_s) / (ASKED - 1))
        time.sleep(idle_s)
        after = meter.read()
        idle = max(0.0, after.cpu_s - readings[-1].cpu_s - each) / (after.at - readings[-1].at)
        return cls(each, idle)

    def used(self, before: MeterReading, after: MeterReading) -> float:
        return after.cpu_s - before.cpu_s - self.reading_s - self.idle_share * (after.at - before.at)


@dataclass(frozen=True, slots=True)
class MeasuredStretch:
    """Messages, duration and CPU time of a stretch of load."""

    messages: int
    seconds: float
    cpu_s: float
    waits: SocketWaits | None = None
    reads: float | None = None
    writes: float | None = None
    client_s: float | None = None  # CPU seconds of the clients


def difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before
