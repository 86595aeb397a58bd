"""Compares the machine's speed with its first check: a second of computing, copying and loopback traffic.

When runs do not count again and again, either the experiment asks for something the server cannot do or the machine is
disturbed; the second is found out by measuring the machine without any server.
"""

import json
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "calibration.json"
SLOWER_MAX = 0.15  # than the reference, before we speak of it
SECONDS = 0.3  # for each part
CHUNK = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class Speeds:
    """Rounds a second; their units do not matter, only how they change."""

    compute: float
    copy: float
    loopback: float


def measure_speeds() -> Speeds:
    return Speeds(_rounds(lambda: sum(range(20_000))), _rounds(lambda: bytearray(CHUNK)), _loopback())


class Calibration:
    """The folder's reference, measured when it was first used."""

    def __init__(self, reference: Speeds, measure: Callable[[], Speeds] = measure_speeds) -> None:
        self._reference, self._measure = reference, measure

    @classmethod
    def of(cls, folder: Path) -> "Calibration":
        path = folder / FILE
        try:
            return cls(Speeds(**json.loads(path.read_text())))
        except (FileNotFoundError, ValueError, TypeError):  # the first time, or a power failure cut it off
            speeds = measure_speeds()
        temporary = path.with_name(f".{FILE}")
        temporary.write_text(json.dumps(asdict(speeds), indent=1))
        temporary.rename(path)
        return cls(speeds)

    def verdict(self) -> str:
        """In words.

        >>> Calibration(Speeds(100, 100, 100), lambda: Speeds(100, 50, 99)).verdict()
        'the machine is slower than at first: copy 50 %'
        """
        now = asdict(self._measure())
        shares = {part: now[part] / first for part, first in asdict(self._reference).items()}
        slow = [f"{part} {share:.0%}".replace("%", " %") for part, share in shares.items() if share < 1 - SLOWER_MAX]
        return (
            "the machine is slower than at first: " + ", ".join(slow) if slow else "the machine is as fast as at first"
        )


def _rounds(work: Callable[[], object]) -> float:
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < SECONDS:
        work()
        count += 1
    return count / (time.perf_counter() - begin)


def _loopback() -> float:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far:
            return _rounds(lambda: (near.send(b"x"), far.recv(1)))
