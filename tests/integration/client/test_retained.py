"""Retained subscriptions, and transactions that happen once: over real sockets, through restarts."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

import tidings
from tidings.client.client import Client
from tidings.delivery.store import MemoryStore
from tidings.errors import RemoteError, StoreError
from tidings.model.message import Message
from tidings.node.settings import NodeSettings
from tidings.store.sqlite.store import SqliteStore
from tidings.testing.local_broker import local_broker, run


async def published(client: Client, count: int, *, start: int = 0, size: int = 0) -> None:
    receipts = [
        await client.publish("ticks.a", {"n": n, "odd": n % 2}, bytes(size), persistent=n % 3 > 0, wait=False)
        for n in range(start, start + count)
    ]
    for receipt in receipts:
        await receipt.confirmed()
    await client.publish("elsewhere", {}, wait=True)


def numbers(found: list[tuple[int, Message]]) -> list[object]:
    return [message.properties["n"] for _, message in found]


async def read_all(client: Client, name: str, selector: str = "", after: int = 0) -> list[tuple[int, Message]]:
    return [one async for one in client.retained(name).read_all(after, selector=selector)]


async def eventually_kept(client: Client, name: str, count: int) -> list[tuple[int, Message]]:
    """Messages that are not persistent are there a moment after `publish` has returned."""
    while len(found := await read_all(client, name)) < count:
        await asyncio.sleep(0.01)
    return found


def test_messages_are_read_again_from_any_offset_and_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            await client.retain("log", "ticks.>")
            await published(client, 600)
            found = await eventually_kept(client, "log", 600)
            assert numbers(found) == list(range(600))
            assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})
            assert numbers(await read_all(client, "log", after=found[499][0])) == list(range(500, 600))
            made_ms = (await client.retained("log").read(messages=0)).made_ms
            await client.retain("log", "ticks.>", bytes_max=10**8)
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            assert await read_all(client, "log") == found
            await published(client, 10, start=600)
            assert numbers(await eventually_kept(client, "log", 610)) == list(range(610))
            assert (await client.retained("log").read(messages=0)).made_ms == made_ms > 0
            await client.retained("log").forget()
            again = await client.retain("log", "ticks.>")
            assert (await again.read(messages=0)).made_ms > made_ms, "offsets of another one mean other messages"

    run(scenario())


def test_only_messages_that_match_leave_the_broker() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:
            await client.retain("log", "ticks.>")
            await published(client, 300)
            await eventually_kept(client, "log", 300)
            before = broker.engine.node.retaining.retrieved
            assert numbers(await read_all(client, "log", "n >= 290 AND odd = 1")) == [291, 293, 295, 297, 299]
            assert broker.engine.node.retaining.retrieved == before + 5
            with pytest.raises(RemoteError, match="E_SELECTOR_SYNTAX"):
                await client.retained("log").read(selector="n >")

    run(scenario())


def test_what_is_released_is_gone_for_good(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            log = await client.retain("log", "ticks.>")
            await published(client, 20)
            found = await eventually_kept(client, "log", 20)
            await log.release(found[9][0])
            assert numbers(await read_all(client, "log")) == list(range(10, 20))
            with pytest.raises(RemoteError, match="E_RETAINED_GONE"):
                await log.read(0, strict=True)
            await log.release(found[-1][0])
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            log = client.retained("log")
            assert await read_all(client, "log") == []
            assert await log.range() == (found[-1][0], found[-1][0])  # offsets go on from here
            await log.forget()
            with pytest.raises(RemoteError, match="E_RETAINED_UNKNOWN"):
                await log.range()

    run(scenario())


async def others(client: Client, count: int = 5) -> None:
    """The store gives numbers to these too."""
    for _ in range(count):
        await client.publish("queue:others", {}, persistent=True)


async def tick(client: Client, n: int) -> None:
    await client.publish("ticks.a", {"n": n}, persistent=True)


def test_messages_of_others_are_no_loss_to_a_reader(tmp_path: Path) -> None:
    async def following(client: Client, after: int, n: int) -> int:
        """One message comes, after some for others; where its reader stands then."""
        await others(client)
        await tick(client, n)
        await others(client)
        page = await client.retained("log").read(after, strict=True)
        assert numbers(page.messages) == [n]
        assert page.first <= after
        return page.next

    async def scenario() -> None:
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            await others(client)
            log = await client.retain("log", "ticks.>")
            assert await log.range() == (0, 0)
            at = await following(client, 0, 1)
            await log.release(at)
            assert await log.range() == (at, at)
            at = await following(client, at, 2)
            await log.release(at + 1)  # further than there is anything
            at = await following(client, at, 3)
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            at = await following(client, at, 4)
            await client.retained("log").release(at)
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            await following(client, at, 5)
            with pytest.raises(RemoteError, match=f"E_RETAINED_GONE: offsets up to {at} "):
                await client.retained("log").read(at - 1, strict=True)

    run(scenario())


def test_what_was_too_old_is_a_loss_to_those_who_had_not_read_it_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            log = await client.retain("log", "ticks.>", age_seconds=0.1)
            await others(client)
            await tick(client, 1)
            _, first = await log.range()
            await tick(client, 2)
            _, at = await log.range()
            while (await log.range())[0] < at:  # it looks about once a second
                await asyncio.sleep(0.01)
            await client.retain("log", "ticks.>")
            await others(client)
            await tick(client, 3)
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            log = client.retained("log")
            assert (await log.range())[0] == at
            assert numbers((await log.read(at, strict=True)).messages) == [3]
            with pytest.raises(RemoteError, match="E_RETAINED_GONE"):
                await log.read(first, strict=True)

    run(scenario())


def test_what_was_forgotten_unread_is_a_loss_to_readers_of_the_same_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            log = await client.retain("log", "ticks.>")
            await tick(client, 1)
            _, at = await log.range()
            await tick(client, 2)
            _, last = await log.range()
            await log.forget()
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            log = await client.retain("log", "ticks.>")
            assert await log.range() == (last, last)
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            log = client.retained("log")
            await tick(client, 3)
            with pytest.raises(RemoteError, match="E_RETAINED_GONE"):
                await log.read(at, strict=True)
            assert numbers((await log.read(last, strict=True)).messages) == [3]

    run(scenario())


class HoledStore(MemoryStore):
    """One of its messages is damaged."""

    hole = 0

    def read(self, seqs: Sequence[int]) -> list[bytes]:
        if self.hole in seqs:
            raise StoreError("E_STORE_DAMAGED", "a message is damaged", position=list(seqs).index(self.hole))
        return super().read(seqs)


def test_a_damaged_message_is_a_loss_to_those_who_read_across_it() -> None:
    async def scenario() -> None:
        store = HoledStore()
        async with local_broker(store) as (_, url), tidings.connect(url) as client:
            log = await client.retain("log", "ticks.>")
            for n in range(4):
                await tick(client, n)
            offsets = [offset for offset, _ in (await log.read()).messages]
            store.hole = offsets[2]
            with pytest.raises(RemoteError, match="E_RETAINED_GONE"):
                await log.read(strict=True)
            page = await log.read()
            assert numbers(page.messages) == [0, 1, 3]
            assert page.first == offsets[2]
            assert numbers((await log.read(up_to=offsets[1], strict=True)).messages) == [0, 1]
            with pytest.raises(RemoteError, match="E_RETAINED_GONE"):
                await log.read(offsets[1], strict=True)
            assert numbers((await log.read(offsets[2], strict=True)).messages) == [3]

    run(scenario())


def test_limits_can_be_left_as_they_are() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:
            await client.retain("log", "ticks.>", age_seconds=60, bytes_max=6400, keep_limits=True)
            (mailbox,) = broker.engine.node.mailbox_service.mailboxes.retained.values()
            before = mailbox.retention
            await client.retain("log", "ticks.>", age_seconds=5, keep_limits=True)
            assert mailbox.retention == before
            with pytest.raises(RemoteError, match="E_RETAIN_DIFFERS"):
                await client.retain("log", "other.>", keep_limits=True)
            await client.retain("log", "ticks.>", age_seconds=5)
            assert mailbox.retention.age_ms == 5000

    run(scenario())


def test_the_oldest_go_when_there_is_too_much() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            await client.retain("log", "ticks.>", bytes_max=64_000)
            await published(client, 30, size=1000)
            await eventually_kept(client, "log", 30)
            first, _ = await client.retained("log").range()
            count = 30
            while (await client.retained("log").range())[0] == first:  # it looks about once a second
                await published(client, 10, start=count, size=1000)
                count += 10
            found = await read_all(client, "log")
            assert 40 <= len(found) < count
            assert numbers(found) == list(range(count - len(found), count))

    run(scenario())


def test_others_get_their_messages_as_ever() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url, client_id="c") as client:
            await client.retain("log", "ticks.>")
            durable = await client.subscribe("ticks.>", durable="d", ack="client")
            await published(client, 50)
            got = [await durable.receive(10) for _ in range(50)]
            assert [one.message.properties["n"] for one in got if one is not None] == list(range(50))
            for one in got:
                assert one is not None
                await one.ack()
            assert numbers(await eventually_kept(client, "log", 50)) == list(range(50))

    run(scenario())


def test_what_cannot_be_retained_is_refused() -> None:
    async def scenario() -> None:
        settings = NodeSettings(retained_bytes_max=1 << 20)
        async with local_broker(settings=settings) as (_, url), tidings.connect(url) as client:
            with pytest.raises(RemoteError, match="E_QUEUE_DURABLE"):
                await client.retain("log", "queue:orders")
            with pytest.raises(RemoteError, match="E_RETAIN_LIMIT"):
                await client.retain("log", "ticks.>", bytes_max=2 << 20)
            with pytest.raises(RemoteError, match="E_SUBSCRIBE_NAME"):
                await client.retain("", "ticks.>")
            await client.retain("log", "ticks.>")
            await client.retain("log", "ticks.>", age_seconds=60)  # other limits are fine
            with pytest.raises(RemoteError, match="E_RETAIN_DIFFERS"):
                await client.retain("log", "other.>")

    run(scenario())


def test_a_transaction_with_a_key_happens_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            await client.retain("log", "ticks.>")
            assert await once(client, 7, 1)
            assert not await once(client, 7, 2)
            assert not await once(client, 6, 3)
            assert await once(client, 8, 4)
        async with local_broker(SqliteStore(tmp_path / "s.db")) as (_, url), tidings.connect(url) as client:
            assert not await once(client, 8, 5)
            assert await once(client, 9, 6)
            assert await once(client, 1, 7, key="another")
            assert numbers(await eventually_kept(client, "log", 4)) == [1, 4, 6, 7]

    async def once(client: Client, number: int, n: int, key: str = "query/0") -> bool:
        async with client.transaction() as work:
            await work.publish("ticks.a", {"n": n}, persistent=True)
            return await work.commit(key, number)

    run(scenario())
