"""A second thread of the store, for a write whose caller waits for it, but not for long.

A lone publisher gains nothing from group commit: whatever stands between its message and the disk costs rate. Its
message used to be written on the event loop's thread, and a disk that stalled stopped everybody. Now the loop hands it
over and sleeps until it is written, at most `WAIT_MS`; then the loop goes on, and is notified of the write as of any
other.

    loop     ── records ─► eventfd ─┐                    ┌─ poll, at most WAIT_MS ─► written
    thread                          └─► append, fsync ───┴─ after that ────────────► late(error)

Handover. Both directions are an eventfd: its system calls release the GIL, so the thread that wakes can run at once. A
round trip takes about 7 µs of CPU time and 7 to 20 µs of time; with `threading.Lock` or `SimpleQueue` the thread that
wakes finds the GIL taken and sleeps again (20 and 20 to 50 µs). POSIX semaphores used with the GIL released took 9 and
23 µs, and both steps of a side in one call without the GIL gained nothing. Not done: spinning, which would take a core
for as long as the disk works. Measured against a write on the loop's own thread a message takes 16 to 25 µs more: 4 to
5 % of a publication that takes 0.4 ms.
"""

import os
import select
import threading
from collections.abc import Callable, Sequence
from enum import Enum, auto

from tidings.delivery.store import Record
from tidings.errors import TidingsError

WAIT_MS = 2


class Late(Enum):
    """The answer of `WaitedWrite.write` if the write is still under way."""

    LATE = auto()


class WaitedWrite:
    """`append`: called on the thread; returns the error with which the store refused. `late`: called there too, with
    that error, if nobody waits any more."""

    def __init__(
        self,
        append: Callable[[Sequence[Record]], TidingsError | None],
        late: Callable[[TidingsError | None], None],
    ) -> None:
        self.wait_ms = WAIT_MS
        self._append, self._late = append, late
        self._closed = False
        self._records: Sequence[Record] | None = None
        self._error: TidingsError | None = None
        self._begin, self._done = os.eventfd(0), os.eventfd(0)
        self._poll = select.poll()
        self._poll.register(self._done, select.POLLIN)
        self._decided = threading.Lock()  # the first to take it decides whether a write is in time or late
        self._thread = threading.Thread(target=self._run, name="store-waited", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def write(self, records: Sequence[Record]) -> TidingsError | Late | None:
        """Not to be called again before a late one was answered."""
        self._records = records
        os.eventfd_write(self._begin, 1)
        if not self._poll.poll(self.wait_ms) and self._decided.acquire(blocking=False):
            return Late.LATE
        os.eventfd_read(self._done)
        self._decided.release()
        return self._error

    def close(self) -> None:
        """After what is under way; waits for it, so not to be called on the loop's thread."""
        if self._closed:
            return
        self._closed, self._records = True, None
        os.eventfd_write(self._begin, 1)
        self._thread.join()
        os.close(self._begin)
        os.close(self._done)

    def _run(self) -> None:
        while True:
            os.eventfd_read(self._begin)
            records = self._records
            if records is None:
                return
            self._error = error = self._append(records)
            if self._decided.acquire(blocking=False):
                os.eventfd_write(self._done, 1)
            else:
                self._decided.release()
                self._late(error)
