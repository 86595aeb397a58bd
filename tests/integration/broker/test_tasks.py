"""What a broker does by itself goes on after a fault of ours, or the broker says that it does not."""

import asyncio
import json
from collections.abc import Callable
from typing import cast

import pytest
from hardening.support.raw_connection import RawConnection

from tidings.broker.connections.connection import ClientConnection, Silence
from tidings.broker.http import console_process
from tidings.broker.http.console_process import USED_WRONGLY, ConsoleChild
from tidings.broker.http.metrics import Metrics
from tidings.broker.tasks import Steps, Tasks
from tidings.broker.tuning import capacity_observer as observing
from tidings.delivery.store import MemoryStore, Record
from tidings.kernel.clock import now_ms
from tidings.testing.local_broker import local_broker, run


def failing(calls: list[int], then: asyncio.Event) -> Callable[[int], None]:
    """The third call is made although the others have failed."""

    def work(now_ms: int) -> None:
        calls.append(now_ms)
        if len(calls) == 3:
            then.set()
        raise ZeroDivisionError

    return work


def test_the_clock_goes_on(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        again, checked = asyncio.Event(), asyncio.Event()
        async with local_broker() as (broker, _):
            calls: list[int] = []
            monkeypatch.setattr(broker.engine.node.tracking, "tick", failing(calls, again))
            monkeypatch.setattr(broker.engine.node, "tick", failing([], asyncio.Event()))

            def check_silence(*_: object, brisk: bool = False) -> None:
                if not brisk:
                    checked.set()

            monkeypatch.setattr(broker.clients, "check_silence", check_silence)
            await again.wait()
            await checked.wait()
            assert Metrics(broker.view).health().status == 200
            monkeypatch.undo()

    run(check())
    failed = [one for one in caplog.records if "the broker continues" in one.getMessage()]
    assert len(failed) == 2, "each sort is logged, but not each time"
    assert all(one.exc_info for one in failed)


def test_a_connection_that_cannot_be_judged_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        async with local_broker() as (broker, url):
            one, other = [await RawConnection.open(url) for _ in range(2)]
            while len(broker.clients.connections) < 2:
                await asyncio.sleep(0)
            first = min(broker.clients.connections)
            seen = []

            def silence(connection: ClientConnection, *_: object) -> Silence:
                if connection.number == first:
                    raise ZeroDivisionError
                seen.append(connection.number)
                return Silence.NONE

            monkeypatch.setattr(ClientConnection, "silence", silence)
            broker.clients.check_silence(now_ms(), broker.limits)
            assert len(seen) == 1
            while first in broker.clients.connections:
                await asyncio.sleep(0)
            assert len(broker.clients.connections) == 1
            for raw in (one, other):
                raw.writer.close()

    run(check())


def test_the_end_of_what_had_to_go_on_is_told_in_health() -> None:
    async def ends() -> None:
        await asyncio.sleep(0)

    async def check() -> None:
        async with local_broker() as (broker, _):
            assert "failure" not in json.loads(Metrics(broker.view).health().body)
            broker.tasks.spawn(ends())
            broker.tasks.spawn(ends(), essential="the work")
            while not broker.tasks.failure:
                await asyncio.sleep(0)
            page = Metrics(broker.view).health()
            state = json.loads(page.body)
            assert (page.status, state["live"], state["ready"]) == (503, False, False)
            assert state["failure"] == "the work has ended"

    run(check())


class Faulty(MemoryStore):
    def append(self, records: object) -> None:
        raise ZeroDivisionError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_end_of_the_stores_thread_is_told_in_health() -> None:
    async def check() -> None:
        async with local_broker(store=Faulty()) as (broker, _):
            assert broker.writer is not None
            records: list[Record] = []
            broker.writer.write(1, records)
            while broker.writer.alive:
                await asyncio.sleep(0)
            page = Metrics(broker.view).health()
            assert (page.status, json.loads(page.body)["failure"]) == (503, "the store's thread has ended")

    run(check())


def test_tasks_that_are_cancelled_are_no_failure() -> None:
    async def check() -> None:
        tasks = Tasks()
        tasks.spawn(asyncio.Event().wait(), essential="waiting")  # type: ignore[arg-type]
        await tasks.cancel()
        assert tasks.failure == ""

    run(check())


def test_steps_do_not_swallow_the_end() -> None:
    async def check() -> None:
        with pytest.raises(asyncio.CancelledError), Steps().going_on("work"):
            raise asyncio.CancelledError

    run(check())


def test_the_observer_is_told_again_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        monkeypatch.setattr(observing, "SECONDS", 0.0)
        calls: list[int] = []
        twice = asyncio.Event()
        loop = asyncio.get_running_loop()

        def observed(*_: object) -> float:
            calls.append(1)
            if len(calls) == 2:
                loop.call_soon_threadsafe(twice.set)
            raise ZeroDivisionError

        monkeypatch.setattr(observing, "_observed", observed)
        async with local_broker() as (broker, _):
            broker.tasks.spawn(observing.watch(cast(observing.Observer, None), broker.counting(), None))
            await twice.wait()

    run(check())


def test_a_console_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        child = ConsoleChild(["never run"])
        outcomes = iter((OSError("no process to spare"), ZeroDivisionError()))

        async def serve() -> int:
            error = next(outcomes, None)
            if error is not None:
                raise error
            return USED_WRONGLY

        monkeypatch.setattr(console_process, "PAUSE_SECONDS_MAX", 0.0)
        monkeypatch.setattr(child, "_pause", 0.0)
        monkeypatch.setattr(child, "_serve", serve)
        await child._run()

    run(check())
