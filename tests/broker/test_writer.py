"""On which thread batches are written, and that each is answered once, in order."""

import asyncio
import threading
from collections.abc import Sequence

from tidings.broker import writer as module
from tidings.broker.writer import LONE_MESSAGES_MIN, LONE_READS_MAX, TRUST, Lone, StoreWriter
from tidings.delivery.store import MailboxAdded, MemoryStore, Record, Stored
from tidings.errors import StoreError, TidingsError
from tidings.testing.local_broker import run


class WatchedStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []
        self.cared: list[int] = []
        self.failure: StoreError | None = None

    def maintain(self) -> bool:
        self.cared.append(threading.get_ident())
        return False

    def append(self, batch: Sequence[Record]) -> None:
        self.threads.append(threading.get_ident())
        if self.failure is not None:
            raise self.failure
        super().append(batch)


class Bench:
    def __init__(self) -> None:
        self.store = WatchedStore()
        self.answers: list[tuple[int, TidingsError | None]] = []
        self._answered = asyncio.Event()
        self.writer = StoreWriter(
            self.store, asyncio.get_running_loop(), on_written=self._written, on_read=lambda *_: None
        )

    def _written(self, tickets: list[int], error: TidingsError | None) -> None:
        self.answers += [(ticket, error) for ticket in tickets]
        self._answered.set()

    async def write(self, ticket: int, *, quiet: bool = True) -> bool:
        """Whether it was written on the loop's own thread."""
        self._answered.clear()
        while quiet and (self.writer.busy or self.writer._turn.locked()):
            await asyncio.sleep(0.001)
        record: Record = Stored(ticket, b"12345", (1,)) if ticket > 1 else MailboxAdded(1, "queue:a", "queue")
        self.writer.write(ticket, [record], quiet=quiet)
        self.writer.answer()
        await self._answered.wait()
        return self.store.threads[-1] == threading.get_ident()


def test_a_quick_store_is_written_on_the_loops_thread_once_it_is_trusted() -> None:
    async def check() -> None:
        bench = Bench()
        bench.writer.quick_seconds = 60.0
        here = [await bench.write(ticket) for ticket in range(1, TRUST + 4)]
        assert here == [False] * TRUST + [True] * 3
        assert not await bench.write(TRUST + 4, quiet=False)
        assert bench.answers == [(ticket, None) for ticket in range(1, TRUST + 5)]
        await bench.writer.close()

    run(check())


def test_a_slow_answer_or_an_error_costs_the_trust() -> None:
    async def check() -> None:
        bench = Bench()
        bench.writer.quick_seconds = 60.0
        for ticket in range(1, TRUST + 1):
            await bench.write(ticket)
        bench.store.failure = StoreError("E_STORE_FULL", "no space")
        assert await bench.write(TRUST + 1)
        assert bench.answers[-1] == (TRUST + 1, bench.store.failure)
        bench.store.failure = None
        assert not await bench.write(TRUST + 2)
        bench.writer.quick_seconds = 0.0  # nothing is that quick
        assert not any([await bench.write(ticket) for ticket in range(TRUST + 3, 3 * TRUST)])
        await bench.writer.close()

    run(check())


def test_the_thread_still_looks_after_the_store() -> None:
    async def check() -> None:
        bench = Bench()
        bench.writer.quick_seconds = 60.0
        cared = bench.store.cared
        for ticket in range(1, TRUST + 1):
            await bench.write(ticket)
        before = len(cared)
        for ticket in range(TRUST + 1, TRUST + 2 + module.TIDY_BATCHES):
            await bench.write(ticket)
        while len(cared) == before:
            await asyncio.sleep(0.001)
        assert threading.get_ident() not in cared
        await bench.writer.close()

    run(check())


def test_only_a_lone_publisher_has_quiet() -> None:
    lone = Lone()
    for _ in range(LONE_MESSAGES_MIN + 1):
        lone.published(1)
    assert lone.quiet(LONE_READS_MAX)
    assert not lone.quiet(2 * LONE_READS_MAX + 1), "others are read"
    lone.published(2)
    assert not lone.quiet(2 * LONE_READS_MAX + 2), "somebody else has published"
