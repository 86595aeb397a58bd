"""A disk that is full or broken: persistent messages are refused, all else goes on, until space returns."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

import tidings
from tidings.delivery.store import MemoryStore, Record
from tidings.errors import StoreError
from tidings.store.sqlite.store import SqliteStore
from tidings.testing.local_broker import local_broker
from tidings.testing.local_broker import run_plain as run


class Failing(MemoryStore):
    """Refuses to write while `error` is set."""

    error: StoreError | None = None
    refused = 0

    def append(self, batch: Sequence[Record]) -> None:
        if self.error is not None:
            self.refused += 1
            raise self.error
        super().append(batch)


@pytest.mark.parametrize("code", ["E_STORE_FULL", "E_STORE_IO"])
def test_publishers_are_told_and_the_rest_goes_on(code: str) -> None:
    async def scenario() -> None:
        store = Failing()
        async with local_broker(store) as (_, url), tidings.connect(url, client_id="me") as client:
            queue = await client.subscribe("queue:q")
            ticks = await client.subscribe("t")
            await client.publish("queue:q", {"n": 0}, persistent=True)
            first = await queue.receive(30)
            store.error = StoreError(code, "the disk refused")
            with pytest.raises(tidings.RemoteError) as caught:
                await client.publish("queue:q", {"n": 1}, persistent=True)
            assert caught.value.code == code
            with pytest.raises(tidings.RemoteError):
                await client.subscribe("x", durable="new")
            with pytest.raises(tidings.RemoteError):
                async with client.transaction() as work:
                    await work.publish("queue:q", {"n": 2}, persistent=True)
            await client.publish("t", {"light": True}, wait=True)
            await client.publish("queue:q", {"n": 3}, wait=True)
            light, third = await ticks.receive(30), await queue.receive(30)
            assert first is not None
            assert light is not None
            assert third is not None
            assert (first.properties, third.properties) == ({"n": 0}, {"n": 3})
            await queue.receive(0.05)  # acknowledges both: the record waits for the disk
            store.error = None
            await client.publish("queue:q", {"n": 4}, persistent=True)
            fourth = await queue.receive(30)
            assert fourth is not None
            assert fourth.properties == {"n": 4}
            await queue.receive(0.05)
            async with asyncio.timeout(10):  # acknowledgements are written within about a second
                while any(len(waiting) for waiting in store.recover().waiting.values()):
                    await asyncio.sleep(0.05)
            assert store.refused > 0

    run(scenario())


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore(tmp_path / "store")
        async with local_broker(store) as (_, url), tidings.connect(url) as client:
            pages = store._file._db.execute("PRAGMA page_count").fetchone()[0]
            store._file._db.execute(f"PRAGMA max_page_count={pages + 60}")
            kept = 0

            async def fill() -> None:
                nonlocal kept
                while kept < 10_000:
                    await client.publish("queue:q", {"n": kept}, bytes(5_000), persistent=True)
                    kept += 1

            with pytest.raises(tidings.RemoteError) as caught:
                await fill()
            assert caught.value.code == "E_STORE_FULL"
            assert kept > 0
            store._file._db.execute("PRAGMA max_page_count=1000000")
            await client.publish("queue:q", {"n": kept}, persistent=True)
            queue = await client.subscribe("queue:q")
            got = [await queue.receive(30) for _ in range(kept + 1)]
            assert [one.properties["n"] for one in got if one is not None] == list(range(kept + 1))

    run(scenario())
