"""A broker process whose event loop's longest turn is measured.

    python -m hardening.innocent.broker broker.toml gauge [stacks]

Every millisecond the loop notes how much CPU time its thread has used since the last note: that is at most one turn
and a millisecond. The longest is in the file `gauge` (`Gauge`). With `stacks`, another thread looks where the loop is
while a turn takes long, and writes the places to that file: the cause of a long turn.
"""

import asyncio
import mmap
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.server import Broker
from tidings.cli import main as command

NOTE_SECONDS = 0.001
STACK_SECONDS, LATE_SECONDS, STACK_DEPTH = 0.004, 0.02, 12
_VALUES = struct.Struct("<ddd")  # the longest turn's CPU time, wall time; 1: begin again


class Gauge:
    """Two processes share it as a file."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(_VALUES.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _VALUES.size)

    def begin_again(self) -> None:
        self._memory[:] = _VALUES.pack(0, 0, 1)

    def longest(self) -> tuple[float, float]:
        """Seconds of CPU time, and of time, of the longest turn."""
        cpu, wall, _ = _VALUES.unpack(self._memory)
        return cpu, wall

    def note(self, cpu: float, wall: float) -> None:
        longest_cpu, longest_wall, again = _VALUES.unpack(self._memory)
        if again:
            self._memory[:] = bytes(_VALUES.size)
        elif cpu > longest_cpu or wall > longest_wall:
            self._memory[:] = _VALUES.pack(max(cpu, longest_cpu), max(wall, longest_wall), 0)


class TurnWatch:
    """Runs on the loop of the broker."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._loop = asyncio.get_running_loop()
        self.cpu, self.wall = time.thread_time(), time.monotonic()
        self._note()

    def _note(self) -> None:
        cpu, wall = time.thread_time(), time.monotonic()
        self._gauge.note(cpu - self.cpu, wall - self.wall)
        self.cpu, self.wall = cpu, wall
        self._loop.call_later(NOTE_SECONDS, self._note)


def watch_stacks(turns: TurnWatch, thread: int, path: Path) -> None:
    """Writes where the loop's thread is while a turn takes long, the most frequent places first."""
    places: Counter[str] = Counter()
    written = time.monotonic()
    while True:
        time.sleep(STACK_SECONDS)
        if time.monotonic() - turns.wall > LATE_SECONDS:
            frame, lines = sys._current_frames().get(thread), list[str]()
            while frame is not None and len(lines) < STACK_DEPTH:
                lines.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}:{frame.f_lineno}")
                frame = frame.f_back
            places[" < ".join(lines)] += 1
        if places and time.monotonic() - written > 1:
            path.write_text("".join(f"{count} {place}\n" for place, count in places.most_common(20)))
            written = time.monotonic()


def main(config: str, gauge: str, stacks: str = "") -> None:
    start = Broker.start

    async def watched(self: Broker, listeners: Iterable[ListenerSettings]) -> None:
        await start(self, listeners)
        turns = TurnWatch(Gauge(Path(gauge)))
        if stacks:
            watcher = threading.Thread(
                target=watch_stacks, args=(turns, threading.get_ident(), Path(stacks)), daemon=True
            )
            watcher.start()

    Broker.start = watched  # type: ignore[method-assign]
    sys.argv[1:] = ["broker", "--config", config]
    command()


if __name__ == "__main__":
    main(*sys.argv[1:])
