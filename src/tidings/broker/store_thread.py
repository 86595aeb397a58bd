"""The store's thread: writes batches and reads messages while the event loop goes on.

Batches that arrive while one is being written are written together as the next, with one fsync. Batches reach the
store in the order of arrival, and are answered in that order.

Handing a batch over and back through queues and the event loop costs as much CPU time as a quick disk takes for it. A
lone publisher that waits for each receipt gains nothing from that: the loop waits for its message (`write_now`), as
long as the disk has answered within QUICK_SECONDS for the last TRUST batches, and never longer than a moment
(`waited_write`). One slow answer, and its messages go the usual way again.
"""

import asyncio
import logging
import queue
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias, assert_never

from tidings.broker.logs import note
from tidings.broker.waited_write import Late, WaitedWrite
from tidings.delivery.store import Record, Store, Stored
from tidings.errors import StoreError, TidingsError

log = logging.getLogger("tidings.broker")

BATCH_RECORDS_MAX = 20_000
NOW_RECORDS_MAX = 8  # of a batch that the loop waits for
QUICK_SECONDS = 1e-3
TRUST = 8
TIDY_BATCHES = 256  # that the loop waited for, before the thread is asked to look whether the store needs care
PAUSE_SECONDS = 50e-6  # without a job, before the store uses the time and holds up the loop
AWAY_SECONDS = 1.0  # between looks at a store that cannot be reached
FULL_SECONDS = 10.0  # without a refusal, before a store that was full is not
AWAY = {"E_STORE_UNAVAILABLE", "E_STORE_ACCESS", "E_STORE_SYNCHRONOUS"}
LATENCY_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)  # bounds of the histogram


@dataclass(slots=True)
class StoreStats:
    """Counters of the store; written by its thread, read by any."""

    batches: int = 0
    records: int = 0
    failures: int = 0
    seconds: float = 0.0  # in `append`, which ends with the fsync
    by_latency: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_SECONDS) + 1))

    def count(self, records: int, seconds: float, *, failed: bool) -> None:
        self.batches += 1
        self.records += records
        self.failures += failed
        self.seconds += seconds
        self.by_latency[bisect_left(LATENCY_SECONDS, seconds)] += 1


class StoreHealth:
    """Remembers the error with which the store refuses, and logs each change once. A store that is almost full takes
    one message and refuses the next: it counts as full until it has refused none for a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused_seconds = 0.0
        self.error: TidingsError | None = None  # with which the store refuses, as far as is known

    @property
    def full(self) -> bool:
        return self.error is not None and self.error.code == "E_STORE_FULL"

    @property
    def retry_seconds(self) -> float | None:
        """Time after which a store that nobody tries is looked at; None: it need not be."""
        if self.error is None:
            return None
        return FULL_SECONDS if self.full else AWAY_SECONDS if self.error.code in AWAY else None

    def written(self, records: Sequence[Record], error: TidingsError | None) -> None:
        if error is not None:
            if self.error is None or error.code != self.error.code:
                note(log, logging.ERROR, "store refused a batch", error=error)
            self.error, self._refused_seconds = error, self._clock()
        elif self.error is not None and (not self.full or (_has_messages(records) and self._refused_long_ago())):
            self.over()

    def over(self) -> None:
        self.error = None
        note(log, logging.INFO, "store writes again")

    def _refused_long_ago(self) -> bool:
        return self._clock() - self._refused_seconds >= FULL_SECONDS


def _has_messages(records: Sequence[Record]) -> bool:
    """On a full disk, what has none is written all the same."""
    return any(type(record) is Stored for record in records)


@dataclass(frozen=True, slots=True)
class _Write:
    ticket: int
    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class _Read:
    seqs: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Tidy:
    pass


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Job: TypeAlias = _Write | _Read | _Tidy | _Stop


class WriteNow(Enum):
    """Outcome of a batch that the loop waits for."""

    WRITTEN = auto()
    UNDER_WAY = auto()  # it takes longer than the loop waits
    NOT_TRIED = auto()


class StoreThread:
    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        *,
        on_written: Callable[[list[int], TidingsError | None], None],
        on_read: Callable[[Sequence[int], dict[int, bytes], Sequence[int]], None],
    ) -> None:
        self._store = store
        self._loop = loop
        self._on_written = on_written
        self._on_read = on_read
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self.stats = StoreStats()
        self.health = StoreHealth()
        self.quick_seconds = QUICK_SECONDS
        self._under_way = 0  # batches given and not answered
        self._turn = threading.Lock()  # held by whoever uses the store
        self._trusted = 0  # batches in a row that were quick
        self._untidy = 0
        self._began: float | None = None  # of the batch that is being written
        self._late_ticket = 0  # of the batch that took longer than the loop waited
        self.waited = WaitedWrite(self._append_and_leave, self._late)
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True while its threads run."""
        return self._thread.is_alive() and self.waited.alive

    @property
    def busy(self) -> bool:
        return self._under_way > 0

    @property
    def write_seconds(self) -> float:
        """Age of the write in progress; 0: none."""
        began = self._began
        return 0.0 if began is None else time.perf_counter() - began

    def write(self, ticket: int, records: Sequence[Record]) -> None:
        self._under_way += 1
        self._jobs.put(_Write(ticket, records))

    def write_now(self, ticket: int, records: Sequence[Record]) -> WriteNow:
        """Write and wait for it, if that is likely to be quick and nothing else is under way. If it takes long all the
        same, the answer is `on_written`, as for `write`. Raises the error with which the store refused."""
        if self._under_way or self._trusted < TRUST or len(records) > NOW_RECORDS_MAX:
            return WriteNow.NOT_TRIED
        if not self._turn.acquire(blocking=False):
            return WriteNow.NOT_TRIED
        self._late_ticket = ticket
        self._under_way += 1
        error = self.waited.write(records)
        if error is Late.LATE:
            return WriteNow.UNDER_WAY
        self._under_way -= 1
        self._maybe_tidy(error)
        if error is not None:
            raise error
        return WriteNow.WRITTEN

    def _append_and_leave(self, records: Sequence[Record]) -> TidingsError | None:
        """On the thread that the loop waits for, which has the turn from `write_now`."""
        try:
            return self._append(records)
        finally:
            self._turn.release()

    def _late(self, error: TidingsError | None) -> None:
        self._maybe_tidy(error)
        self._post(self._written, [self._late_ticket], error)

    def _maybe_tidy(self, error: TidingsError | None) -> None:
        self._untidy += 1
        if self._untidy >= TIDY_BATCHES or error is not None:
            self._untidy = 0
            self._jobs.put(_Tidy())

    def read(self, seqs: Sequence[int]) -> None:
        self._jobs.put(_Read(seqs))

    async def close(self) -> None:
        """Write what was given so far, then end."""
        self._trusted = 0
        self._jobs.put(_Stop())
        await self._loop.run_in_executor(None, self._thread.join)
        await self._loop.run_in_executor(None, self.waited.close)

    def _run(self) -> None:
        carried: _Job | None = None
        while True:
            job, carried = carried or self._next(), None
            match job:
                case _Stop():
                    return
                case _Read(seqs):
                    with self._turn:
                        self._read(seqs)
                case _Tidy():
                    pass  # `_next` does it
                case _Write():
                    writes, carried = self._gather(job)
                    self._write(writes)
                case _:
                    assert_never(job)

    def _next(self) -> _Job:
        """The next job; while there is none, the store puts itself in order, but first the loop may answer."""
        while True:
            try:
                return self._jobs.get(timeout=PAUSE_SECONDS)
            except queue.Empty:
                with self._turn:
                    done = not self._maintain()
                if done and (job := self._awaited()) is not None:
                    return job

    def _awaited(self) -> _Job | None:
        """The next job. If the store was full or away and nobody tries it, look now and then whether it still is."""
        try:
            return self._jobs.get(timeout=self.health.retry_seconds)
        except queue.Empty:
            with self._turn:
                if self._store.has_room():
                    self.health.over()
            return None

    def _maintain(self) -> bool:
        try:
            return self._store.maintain()
        except StoreError:
            return False  # the next write reports it

    def _gather(self, first: _Write) -> tuple[list[_Write], _Job | None]:
        """All writes that wait, up to a limit, and the job that came after them if it is another one."""
        writes, count = [first], len(first.records)
        while count < BATCH_RECORDS_MAX:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if not isinstance(job, _Write):
                return writes, job
            writes.append(job)
            count += len(job.records)
        return writes, None

    def _write(self, writes: list[_Write]) -> None:
        records = [record for write in writes for record in write.records]
        with self._turn:
            error = self._append(records)
        self._post(self._written, [write.ticket for write in writes], error)

    def _append(self, records: Sequence[Record]) -> TidingsError | None:
        error: TidingsError | None = None
        self._began = began = time.perf_counter()
        try:
            self._store.append(records)
        except TidingsError as failure:
            error = failure
        finally:
            self._began = None
        seconds = time.perf_counter() - began
        self.stats.count(len(records), seconds, failed=error is not None)
        self.health.written(records, error)
        self._trusted = self._trusted + 1 if error is None and seconds < self.quick_seconds else 0
        return error

    def _written(self, tickets: list[int], error: TidingsError | None) -> None:
        """On the event loop's thread."""
        self._under_way -= len(tickets)
        self._on_written(tickets, error)

    def _read(self, seqs: Sequence[int]) -> None:
        """Read messages and report those found, and those damaged for good."""
        messages: dict[int, bytes] = {}
        damaged: list[int] = []
        for seq in seqs:  # one at a time: some may have been acknowledged meanwhile, the others are still needed
            try:
                messages[seq] = self._store.read([seq])[0]
            except StoreError as error:
                if error.code == "E_STORE_DAMAGED":
                    damaged.append(seq)
            except TidingsError:
                continue
        self._post(self._on_read, seqs, messages, damaged)

    def _post(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop has ended
            return
