"""CPU time and memory of this process and all below it: a Spark session is a JVM and its Python workers."""

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    rows: int
    cpu_s: float
    wall_s: float

    @property
    def per_cpu_s(self) -> float:
        return self.rows / self.cpu_s

    def shown(self) -> dict[str, float]:
        return asdict(self) | {"per_cpu_s": self.per_cpu_s}


def cost(rows: int, work: Callable[[], object]) -> Cost:
    """CPU and memory of work on this number of rows, in this process and its descendants."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    work()
    return Cost(rows, max(cpu_seconds() - cpu, 1 / _TICKS), time.perf_counter() - wall)


def descendants(root: int) -> list[int]:
    """The process and whatever it has started, as far as that is alive."""
    parents: dict[int, list[int]] = {}
    for one in Path("/proc").iterdir():
        if one.name.isdigit() and (fields := _stat(int(one.name))):
            parents.setdefault(int(fields[1]), []).append(int(one.name))
    found = [root]
    for pid in found:
        found += parents.get(pid, [])
    return found


def cpu_seconds(root: int | None = None) -> float:
    """User and system time of all of them, children that have ended included."""
    total = 0
    for pid in descendants(root or os.getpid()):
        if fields := _stat(pid):
            total += sum(map(int, fields[11:15]))
    return total / _TICKS


def peak_bytes(root: int | None = None) -> int:
    """The sum of the most memory that each of those alive has ever had: at least what all had together."""
    total = 0
    for pid in descendants(root or os.getpid()):
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return total


def _stat(pid: int) -> list[str]:
    """Fields from the state on, which is the first after the name."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
