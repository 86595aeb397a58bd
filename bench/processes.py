"""CPU time and memory of this process and all below it: a Spark session is a JVM and its Python workers."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


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
