"""The loop waits for a lone publisher's messages to be written: that must make no difference but to the time."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

import tidings
from tidings.broker.store_thread import TRUST
from tidings.broker.waited_write import WAIT_MS
from tidings.delivery.store import Record
from tidings.errors import StoreError
from tidings.node.clients.solo_publisher import MESSAGES_MIN
from tidings.store.sqlite.store import SqliteStore
from tidings.testing.local_broker import Local, local_broker, run

FIRST = MESSAGES_MIN + TRUST  # messages until a publisher is known to be alone


class Watched(SqliteStore):
    """Knows for which messages the loop waited; refuses some if told so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.waited: list[bool] = []
        self.error: StoreError | None = None

    def append(self, batch: Sequence[Record]) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.waited.append(threading.current_thread().name == "store-waited")
        if self.error is not None:
            raise self.error
        super().append(batch)


def trusting(here: Local) -> str:
    """Its url; the disk is quick enough, whatever it does."""
    assert here.broker.writer is not None
    here.broker.writer.quick_seconds = 60.0
    here.broker.writer.waited.wait_ms = 60_000
    return here.url


async def taken(subscription: tidings.Subscription, count: int) -> list[int]:
    """The numbers of so many messages, each acknowledged."""
    numbers = []
    for _ in range(count):
        message = await subscription.receive(10)
        assert message is not None
        assert not message.redelivered
        numbers.append(int(message.properties["n"]))
        await message.ack()
    return numbers


@pytest.mark.parametrize("seed", range(8))
def test_each_message_comes_once_and_stays_until_acknowledged(seed: int, tmp_path: Path) -> None:
    rng, path = Random(seed), tmp_path / "store.db"
    accepted: list[int] = []

    async def publish_all(store: Watched) -> None:
        async with (
            local_broker(store) as here,
            tidings.connect(trusting(here)) as writer,
            tidings.connect(here.url, client_id="a") as a,
            tidings.connect(here.url, client_id="b") as b,
            tidings.connect(here.url) as other,
        ):
            first = await a.subscribe("t.>", durable="first", ack="client")
            await b.subscribe("t.>", durable="second", ack="client")  # reads nothing
            if rng.random() < 0.5:
                await b.subscribe("t.odd", ack="client")
            read = 0
            for number in range(FIRST + 60):
                topic = "t.odd" if rng.random() < 0.2 else "t.even"
                store.error = StoreError("E_STORE_FULL", "no space") if rng.random() < 0.1 else None
                if store.error is not None:
                    with pytest.raises(tidings.RemoteError, match="E_STORE_FULL"):
                        await writer.publish(topic, {"n": number}, persistent=True, wait=True)
                else:
                    await writer.publish(topic, {"n": number}, persistent=True, wait=True)
                    accepted.append(number)
                store.error = None
                if rng.random() < 0.05:
                    await other.publish("elsewhere", {"n": 0}, persistent=True, wait=True)
                if rng.random() < 0.7:
                    count = len(accepted) - read
                    assert await taken(first, count) == accepted[read:]
                    read += count
            assert await taken(first, len(accepted) - read) == accepted[read:]

    store = Watched(path)
    run(publish_all(store))
    assert store.waited[0] is False
    assert any(store.waited), "the loop never waited"

    async def read_rest() -> None:
        async with (
            local_broker(SqliteStore(path)) as here,
            tidings.connect(here.url, client_id="a") as a,
            tidings.connect(here.url, client_id="b") as b,
        ):
            second = await b.subscribe("t.>", durable="second", ack="client")
            again = [await second.receive(10) for _ in accepted]
            assert [one.properties["n"] for one in again if one is not None] == accepted
            assert await second.receive(0.05) is None
            first = await a.subscribe("t.>", durable="first", ack="client")
            left = await first.receive(0.2)
            assert left is None or left.redelivered, "an acknowledgement may be lost with the end, but not in silence"

    run(read_rest())


def test_what_was_given_out_and_not_acknowledged_comes_again_from_the_store(tmp_path: Path) -> None:
    count = FIRST + 40

    async def check() -> None:
        store = Watched(tmp_path / "store.db")
        async with local_broker(store) as here, tidings.connect(trusting(here)) as writer:
            async with tidings.connect(here.url, client_id="a") as a:
                subscription = await a.subscribe("t", durable="d", ack="client")
                for number in range(count):
                    await writer.publish("t", {"n": number}, persistent=True, wait=True)
                seen = [await subscription.receive(10) for _ in range(count)]
                assert [one.properties["n"] for one in seen if one is not None] == list(range(count))
                assert store.waited[-1]
                assert len(here.broker.engine.node.mailbox_service.message_cache) <= FIRST, (
                    "memory has no copy of what goes straight on"
                )
            async with tidings.connect(here.url, client_id="a") as a:
                subscription = await a.subscribe("t", durable="d", ack="client")
                again = [await subscription.receive(10) for _ in range(count)]
                assert [(one.properties["n"], one.redelivered) for one in again if one] == [
                    (number, True) for number in range(count)
                ]

    run(check())


def test_who_waits_for_others_goes_with_them(tmp_path: Path) -> None:
    """Not alone: without a durable subscriber, not persistent, or among others that are gathered."""

    async def check() -> None:
        store = Watched(tmp_path / "store.db")
        async with local_broker(store) as here, tidings.connect(trusting(here), client_id="a") as client:
            queue = await client.subscribe("queue:q", ack="client")
            for number in range(FIRST + 5):
                await client.publish("queue:q", {"n": number}, persistent=True, wait=True)
            assert store.waited[-1]
            assert await taken(queue, FIRST + 5) == list(range(FIRST + 5))
            batches = len(store.waited)
            await client.publish("nobody", {"n": 1}, persistent=True, wait=True)
            for number in range(20):
                await client.publish("queue:q", {"n": number}, persistent=True, wait=False)
            assert await taken(queue, 20) == list(range(20))
            assert not all(store.waited[batches:])

    run(check())


def test_a_disk_that_stalls_stops_nobody_else(tmp_path: Path) -> None:
    class Stalling(Watched):
        stalled, goes_on = threading.Event(), threading.Event()
        stalls = False

        def append(self, batch: Sequence[Record]) -> None:
            if self.stalls:
                self.stalled.set()
                assert self.goes_on.wait(60)
            super().append(batch)

    async def check() -> None:
        store = Stalling(tmp_path / "store.db")
        async with (
            local_broker(store) as here,
            tidings.connect(trusting(here)) as writer,
            tidings.connect(here.url) as other,
        ):
            queue = await other.subscribe("queue:q", ack="client")
            plain = await other.subscribe("plain")
            for number in range(FIRST + 5):
                await writer.publish("queue:q", {"n": number}, persistent=True, wait=True)
            assert store.waited[-1]
            store.stalls = True
            assert here.broker.writer is not None
            here.broker.writer.waited.wait_ms = WAIT_MS
            late = asyncio.ensure_future(writer.publish("queue:q", {"n": FIRST + 5}, persistent=True, wait=True))
            while not store.stalled.is_set():
                await asyncio.sleep(0.001)
            await other.publish("plain", {"n": 1})
            assert await plain.receive(10) is not None
            next_one = asyncio.ensure_future(writer.publish("queue:q", {"n": FIRST + 6}, persistent=True, wait=True))
            await other.publish("plain", {"n": 2}, wait=True)
            assert not late.done()
            assert not next_one.done()
            store.stalls = False
            store.goes_on.set()
            await asyncio.gather(late, next_one)
            assert await taken(queue, FIRST + 7) == list(range(FIRST + 7))

    run(check())
