"""On which thread batches are written, and that each is answered once, in order."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from contextlib import nullcontext

import pytest
from hardening.support.links import eventually

from tidings.broker import store_thread as module
from tidings.broker.store_thread import FULL_SECONDS, TRUST, StoreHealth, StoreThread, WriteNow
from tidings.delivery.store import Acked, MailboxAdded, MemoryStore, Record, Stored
from tidings.errors import StoreError, TidingsError
from tidings.testing.local_broker import run


class WatchedStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []
        self.cared: list[int] = []
        self.failure: StoreError | None = None
        self.room, self.looks = True, 0
        self.gate = threading.Event()
        self.gate.set()

    def has_room(self) -> bool:
        self.looks += 1
        return self.room

    def maintain(self) -> bool:
        self.cared.append(threading.get_ident())
        return False

    def append(self, batch: Sequence[Record]) -> None:
        self.threads.append(threading.get_ident())
        assert self.gate.wait(60)
        if self.failure is not None:
            raise self.failure
        super().append(batch)


class Bench:
    def __init__(self) -> None:
        self.store = WatchedStore()
        self.answers: list[tuple[int, TidingsError | None]] = []
        self._answered = asyncio.Event()
        self.writer = StoreThread(
            self.store, asyncio.get_running_loop(), on_written=self._written, on_read=lambda *_: None
        )
        self.writer.waited.wait_ms = 60_000

    def _written(self, tickets: list[int], error: TidingsError | None) -> None:
        self.answers += [(ticket, error) for ticket in tickets]
        self._answered.set()

    async def write(self, ticket: int) -> bool:
        """Whether the loop waited for it, as it does if that is likely to be quick."""
        self._answered.clear()
        while self.writer.busy or self.writer._turn.locked():
            await asyncio.sleep(0.001)
        record: Record = Stored(ticket, b"12345", (1,)) if ticket > 1 else MailboxAdded(1, "queue:a", "queue")
        outcome = self.writer.write_now(ticket, [record])
        if outcome is WriteNow.NOT_TRIED:
            self.writer.write(ticket, [record])
            assert self.writer.write_now(ticket, [record]) is WriteNow.NOT_TRIED, "another is under way"
            await self._answered.wait()
        assert outcome is not WriteNow.UNDER_WAY
        assert self.store.threads[-1] != threading.get_ident()
        return outcome is WriteNow.WRITTEN


def test_the_loop_waits_for_a_quick_store_once_it_is_trusted() -> None:
    async def check() -> None:
        bench = Bench()
        bench.writer.quick_seconds = 60.0
        here = [await bench.write(ticket) for ticket in range(1, TRUST + 4)]
        assert here == [False] * TRUST + [True] * 3
        assert bench.answers == [(ticket, None) for ticket in range(1, TRUST + 1)]
        await bench.writer.close()

    run(check())


def test_a_slow_answer_or_an_error_costs_the_trust() -> None:
    async def check() -> None:
        bench = Bench()
        bench.writer.quick_seconds = 60.0
        for ticket in range(1, TRUST + 1):
            await bench.write(ticket)
        bench.store.failure = StoreError("E_STORE_FULL", "no space")
        with pytest.raises(StoreError, match="no space"):
            await bench.write(TRUST + 1)
        bench.store.failure = None
        assert not await bench.write(TRUST + 2)
        bench.writer.quick_seconds = 0.0  # nothing is that quick
        assert not any([await bench.write(ticket) for ticket in range(TRUST + 3, 3 * TRUST)])
        await bench.writer.close()

    run(check())


def test_a_store_that_goes_on_refusing_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        bench = Bench()
        await bench.write(1)
        for code in ("E_STORE_FULL", "E_STORE_FULL", "E_STORE_IO", "E_STORE_IO"):
            bench.store.failure = StoreError(code, "no")
            await bench.write(2)
        bench.store.failure = None
        await bench.write(2)
        await bench.write(3)
        await bench.writer.close()

    with caplog.at_level(logging.INFO, "tidings.broker"):
        run(check())
    told = [(record.levelname, record.getMessage()) for record in caplog.records if "store" in record.getMessage()]
    assert told == [("ERROR", "store refused a batch")] * 2 + [("INFO", "store writes again")]


def test_what_is_written_on_a_full_disk_too_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    complaints = StoreHealth(lambda: now)
    with caplog.at_level(logging.INFO, "tidings.broker"):
        for _ in range(3):
            complaints.written([Stored(2, b"12345", (1,))], StoreError("E_STORE_FULL", "no space"))
            complaints.written([Acked(1, (1,))], None)
            complaints.written([Stored(2, b"12345", (1,))], None)  # it was small
            assert complaints.full
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        now = FULL_SECONDS
        complaints.written([Acked(1, (1,))], None)
        assert complaints.full
        complaints.written([Stored(2, b"12345", (1,))], None)
        assert complaints.error is None
        complaints.written([Stored(3, b"12345", (1,))], StoreError("E_STORE_FULL", "no space"))
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO", "ERROR"]


@pytest.mark.parametrize("trusted", [False, True])
def test_a_full_store_that_nobody_tries_is_looked_at(trusted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FULL_SECONDS", 0.001)

    async def check() -> None:
        bench = Bench()
        bench.writer.quick_seconds = 60.0 if trusted else 0.0
        for ticket in range(1, TRUST + 1):
            await bench.write(ticket)
        bench.store.room = False
        bench.store.failure = StoreError("E_STORE_FULL", "no space")
        with pytest.raises(StoreError) if trusted else nullcontext():
            await bench.write(TRUST + 1)
        await eventually(lambda: bench.store.looks > 2)
        assert bench.writer.health.full
        bench.store.room = True
        await eventually(lambda: bench.writer.health.error is None)
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


def test_the_loop_goes_on_while_a_write_takes_long_and_hears_of_it_later() -> None:
    async def check(failure: StoreError | None) -> None:
        bench = Bench()
        bench.writer.quick_seconds = 60.0
        for ticket in range(1, TRUST + 2):
            await bench.write(ticket)
        answered = len(bench.answers)
        bench.store.gate.clear()
        bench.store.failure = failure
        bench.writer.waited.wait_ms = 0
        record = Stored(TRUST + 2, b"12345", (1,))
        while bench.writer._turn.locked():
            await asyncio.sleep(0.001)
        assert bench.writer.write_now(TRUST + 2, [record]) is WriteNow.UNDER_WAY
        assert bench.writer.busy
        await eventually(lambda: bench.writer.write_seconds > 0)
        assert bench.writer.write_now(TRUST + 3, [record]) is WriteNow.NOT_TRIED
        bench.writer.read([1])
        assert len(bench.answers) == answered
        bench.store.gate.set()
        await eventually(lambda: not bench.writer.busy)
        assert bench.answers[answered:] == [(TRUST + 2, failure)]
        assert bench.writer.write_seconds == 0
        await bench.writer.close()

    run(check(None))
    run(check(StoreError("E_STORE_FULL", "no space")))
