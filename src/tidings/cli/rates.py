"""`--stats`: how many messages a second, on the error output once a second and in sum at the end."""

import sys
import time


class RatePrinter:
    def __init__(self, enabled: bool, verb: str) -> None:
        self.count = 0
        self.bytes = 0
        self._enabled = enabled
        self._verb = verb
        self._began = self._last = time.monotonic()
        self._last_count = 0

    def add(self, size: int) -> None:
        if not self.count:
            self._began = self._last = time.monotonic()
        self.count += 1
        self.bytes += size
        if self._enabled and self.count & 63 == 0:
            self._maybe_show()

    def _maybe_show(self) -> None:
        now = time.monotonic()
        if now - self._last >= 1:
            rate = (self.count - self._last_count) / (now - self._last)
            self._last, self._last_count = now, self.count
            print(f"{self._verb} {self.count}, {rate:.0f}/s", file=sys.stderr, flush=True)  # noqa: T201

    def finish(self) -> None:
        if self._enabled:
            seconds = max(time.monotonic() - self._began, 1e-9)
            rate, megabytes = self.count / seconds, self.bytes / seconds / 1e6
            line = f"{self._verb} {self.count} in {seconds:.3f} s: {rate:.0f}/s, {megabytes:.1f} MB/s"
            print(line, file=sys.stderr, flush=True)  # noqa: T201
