"""The client against a real broker: what an application sees, also when the connection breaks."""

import asyncio
import logging
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.broker.server import Broker
from tidings.delivery.store import MemoryStore, Store
from tidings.node.limits import BrokerLimits
from tidings.store.sqlite.store import SqliteStore
from tidings.testing.local_broker import local_broker
from tidings.testing.local_broker import run_plain as run


class Keeping(MemoryStore):
    """Stays as it is when a broker closes it: for the next one."""

    def close(self) -> None:
        return


def drop(broker: Broker) -> None:
    """All connections break."""
    for connection in list(broker.clients.connections.values()):
        connection.abort()


async def connection_lost(broker: Broker, client: tidings.Client) -> None:
    drop(broker)
    while client.connected:
        await asyncio.sleep(0)


def test_the_public_face() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url, client_id="face") as client:
            ticks = await client.subscribe("ticks.>", selector="price > 20", durable="audit", ack="client")
            await client.publish("ticks.abc", {"stock": "ABC", "price": 10}, persistent=True)
            receipt = await client.publish("ticks.xyz", {"stock": "XYZ", "price": 50}, body=b"...", persistent=True)
            async for message in ticks:
                assert message.id == receipt.message_id
                assert (message.body, message.redelivered) == (b"...", False)
                await message.ack()
                break
            await ticks.close()
            await client.forget("audit")

    run(scenario())


def test_all_fields_of_a_message_arrive() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            everything = await client.subscribe(">")
            await client.publish(
                "a.b", {"x": 1.5}, b"body", priority=7, expires_in=60, correlation_id="c", reply_to="queue:r", type="T"
            )
            got = await everything.receive(30)
            assert got is not None
            message = got.message
            assert (message.priority, message.correlation_id, str(message.reply_to)) == (7, "c", "queue:r")
            assert (message.type, message.body, dict(message.properties)) == ("T", b"body", {"x": 1.5})
            assert message.expiration_ms is not None

    run(scenario())


def test_many_under_way_keep_their_order() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            orders = await client.subscribe("queue:orders")
            receipts = [
                await client.publish("queue:orders", {"n": n}, persistent=True, wait=False) for n in range(3000)
            ]
            await asyncio.gather(*(receipt.confirmed() for receipt in receipts))
            got = [await orders.receive(30) for _ in range(3000)]
            assert [one.properties["n"] for one in got if one is not None] == list(range(3000))

    run(scenario())


def test_errors_have_codes() -> None:
    async def scenario() -> None:
        async with (
            local_broker(limits=BrokerLimits(frame_bytes_max=1 << 16)) as (_, url),
            tidings.connect(url) as client,
        ):
            with pytest.raises(tidings.LimitError) as size:
                await client.publish("t", body=bytes(1 << 17))
            assert size.value.code == "E_MESSAGE_SIZE"
            with pytest.raises(tidings.RemoteError) as selector:
                await client.subscribe("t", selector="a = = b")
            assert (selector.value.code, selector.value.position) == ("E_SELECTOR_SYNTAX", 4)
            direct = await client.subscribe("t")
            await client.publish("t")
            got = await direct.receive(30)
            assert got is not None
            with pytest.raises(tidings.UsageError):
                await got.ack()
        with pytest.raises(tidings.ConnectionLostError):
            await client.publish("t")
        with pytest.raises(tidings.ConnectionLostError):
            await tidings.connect(url)
        with pytest.raises(tidings.UsageError):
            tidings.connect("http://127.0.0.1")

    run(scenario())


def test_transactions() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client, tidings.connect(url) as other:
            out = await other.subscribe("queue:out")
            await client.publish("queue:in", {"n": 1}, persistent=True)
            async with client.transaction() as work:
                jobs = await work.subscribe("queue:in", ack="client")
                job = await jobs.receive(30)
                assert job is not None
                await work.publish("queue:out", {"n": 2}, persistent=True)
                await job.ack()
                await work.rollback()
                assert await out.receive(0.05) is None
                again = await jobs.receive(30)
                assert again is not None
                assert again.redelivered
                await work.publish("queue:out", {"n": 3}, persistent=True)
                await again.ack()
            got = await out.receive(30)
            assert got is not None
            assert got.properties == {"n": 3}

    run(scenario())


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_received_is_done_when_the_client_closes_unless_it_failed(fails: bool) -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url):
            with suppress(ZeroDivisionError):
                async with tidings.connect(url) as client:
                    for number in range(4):
                        await client.publish("queue:q", {"n": number}, persistent=True)
                    jobs = await client.subscribe("queue:q")
                    for _ in range(2):
                        assert await jobs.receive(30) is not None
                    if fails:
                        raise ZeroDivisionError
            async with tidings.connect(url) as client:
                jobs = await client.subscribe("queue:q")
                left = [await jobs.receive(30) for _ in range(3 if fails else 2)]
                assert [one.properties["n"] for one in left if one] == ([1, 2, 3] if fails else [2, 3])

    run(scenario())


def test_a_broken_connection_is_made_anew_with_its_subscriptions() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url, client_id="me") as client:
            ticks = await client.subscribe("t", selector="x > 1")
            kept = await client.subscribe("t", durable="d")
            queue = await client.subscribe("queue:q", ack="client")
            await client.publish("queue:q", {"x": 0}, persistent=True)
            first = await queue.receive(30)
            assert first is not None
            drop(broker)
            await client.publish("t", {"x": 5}, persistent=True)
            for subscription in (ticks, kept):
                got = await subscription.receive(30)
                assert got is not None
                assert got.properties == {"x": 5}
            await first.ack()  # of the old connection: it no longer counts
            again = await queue.receive(30)
            assert again is not None
            assert (again.id, again.redelivered) == (first.id, True)
            await again.ack()
            assert client.generation == 2

    run(scenario())


def test_a_transaction_does_not_outlive_its_connection() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client, tidings.connect(url) as other:
            out = await other.subscribe("queue:out")
            work = client.transaction()
            await work.begin()
            await work.publish("queue:out", {"n": 1}, persistent=True)
            drop(broker)
            with pytest.raises(tidings.TidingsError):
                await work.publish("queue:out", {"n": 2}, persistent=True)
            with pytest.raises(tidings.TidingsError):
                await work.commit()
            await work.rollback()
            await work.publish("queue:out", {"n": 3}, persistent=True)
            await work.commit()
            got = await out.receive(30)
            assert got is not None
            assert got.properties == {"n": 3}

    run(scenario())


@pytest.mark.parametrize("back", [False, True])
def test_a_block_whose_connection_broke_does_not_end_as_if_it_were_committed(back: bool) -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:

            async def block(error: Exception | None) -> None:
                async with client.transaction() as work:
                    await work.publish("queue:out", {"n": 1}, persistent=True)
                    await connection_lost(broker, client)
                    if back:
                        await client.types()
                    if error is not None:
                        raise error

            with pytest.raises(tidings.ConnectionLostError, match="nothing was committed"):
                await block(None)
            with pytest.raises(ZeroDivisionError):  # the block's own error counts
                await block(ZeroDivisionError())

    run(scenario())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_what_was_under_way_when_the_broker_ended_arrives(kind: str, tmp_path: Path) -> None:
    def store() -> Store:
        return keeping if kind == "memory" else SqliteStore(tmp_path / "store")

    keeping = Keeping()

    async def scenario() -> None:
        async with local_broker(store()) as (broker, url):
            client = await tidings.connect(url)
            port = int(url.rpartition(":")[2])
            receipts = [await client.publish("queue:q", {"n": n}, persistent=True, wait=False) for n in range(500)]
            drop(broker)
        async with local_broker(store(), port=port):
            await asyncio.gather(*(receipt.confirmed() for receipt in receipts))
            queue = await client.subscribe("queue:q")
            seen: set[object] = set()
            while (got := await queue.receive(0.3)) is not None:
                assert got.properties["n"] not in seen or got.redelivered
                seen.add(got.properties["n"])
            assert seen == set(range(500))
            await client.close()

    run(scenario())


def test_a_client_gives_up_after_its_time_and_everybody_who_waits_hears_it() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url):
            client = await tidings.connect(url, give_up_seconds=0.2)
            ticks = await client.subscribe("t")
        with pytest.raises(tidings.ConnectionLostError):
            await ticks.receive(10)
        with pytest.raises(tidings.ConnectionLostError):
            await client.publish("t")
        await client.close()

    run(scenario())


def test_closing_while_connecting_again_ends_it() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url):
            client = await tidings.connect(url)
            port = int(url.rpartition(":")[2])
            drop(broker)
        await asyncio.sleep(0.1)
        await client.close()
        async with local_broker(port=port) as (broker, _):
            await asyncio.sleep(0.2)
            assert broker.clients.connections == {}

    run(scenario())


def test_a_subscription_asked_for_while_the_connection_breaks_is_made() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:
            asking = asyncio.create_task(client.subscribe("t"))
            await asyncio.sleep(0)
            drop(broker)
            ticks = await asking
            await client.publish("t", {"x": 1}, wait=True)
            got = await ticks.receive(30)
            assert got is not None

    run(scenario())


async def consumers(client: tidings.Client) -> int:
    return len((await client.inspect("subscriptions"))["items"])


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("options", [{"destination": "queue:q"}, {"destination": "t", "durable": "d"}, {"type": "T"}])
def test_who_gives_up_subscribing_leaves_no_consumer_behind(options: dict[str, Any], steps: int) -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url, client_id="me") as client:
            await client.add_type("T")
            asking = asyncio.create_task(client.subscribe(**options))
            for _ in range(steps):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            again = await client.subscribe(**options)  # a durable name is free at once
            assert await consumers(client) == 1
            if "type" not in options:
                await client.publish(options["destination"], {"n": 1}, persistent=True)
                got = await again.receive(30)
                assert got is not None
                assert not got.redelivered
            assert client.errors == deque()

    run(scenario())


def test_who_gives_up_subscribing_while_the_connection_is_away_asks_for_nothing_later() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:
            asking = asyncio.create_task(client.subscribe("queue:q"))
            await asyncio.sleep(0)
            await connection_lost(broker, client)
            asking.cancel()
            await asyncio.wait([asking])
            assert await consumers(client) == 0

    run(scenario())


def test_a_consumer_that_nobody_knows_of_is_dismissed_once() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client, tidings.connect(url) as other:
            ghost = await client.subscribe("queue:q")
            client._subscriptions.pop(ghost.number)
            for n in range(3):
                await other.publish("queue:q", {"n": n}, persistent=True)
            queue = await other.subscribe("queue:q")
            got = [await queue.receive(30) for _ in range(3)]
            assert [(one.properties["n"], one.redelivered) for one in got if one] == [(n, False) for n in range(3)]
            assert await consumers(other) == 1
            assert client.errors == deque()

    run(scenario())


def test_two_who_receive_from_one_subscription_wait_no_longer_than_they_said() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            ticks = await client.subscribe("t")
            deadlines: list[float | None] = []
            timeout_at = asyncio.timeout_at

            def noted(when: float | None) -> asyncio.Timeout:
                deadlines.append(when)
                return timeout_at(when)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(asyncio, "timeout_at", noted)
                both = [asyncio.create_task(ticks.receive(0.2)) for _ in range(2)]
                await asyncio.sleep(0)
                waiting = len(deadlines)
                await client.publish("t")
                got = await asyncio.gather(*both)
            assert sorted(one is None for one in got) == [False, True]
            assert (waiting, len(deadlines)) == (2, 3)  # one of them waited again, until the same time
            assert deadlines[2] in deadlines[:2]

    run(scenario())


def test_an_on_error_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        def on_error(_: tidings.TidingsError) -> None:
            raise ZeroDivisionError

        async with local_broker() as (broker, url), tidings.connect(url, on_error=on_error) as client:
            broker.clients.end_all("E_TOO_MUCH", "enough for today")
            while client.generation == 1:
                await asyncio.sleep(0.01)
            await client.publish("t", wait=True)
            assert [error.code for error in client.errors] == ["E_TOO_MUCH"]

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert [(one.name, one.message) for one in caplog.records] == [("tidings.client", "on_error failed")]


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 10**400, 1e300, "x"])
def test_when_a_message_expires_is_a_time(seconds: float) -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            with pytest.raises(tidings.UsageError, match="E_MESSAGE_FIELD"):
                await client.publish("t", expires_in=seconds)

    run(scenario())


def test_the_client_says_why_the_broker_ended_the_connection() -> None:
    async def scenario() -> None:
        heard: list[tidings.TidingsError] = []
        async with local_broker() as (broker, url):
            client = await tidings.connect(url, reconnect=False, on_error=heard.append)
            subscription = await client.subscribe("a")
            broker.clients.end_all("E_TOO_MUCH", "enough for today")
            with pytest.raises(tidings.ConnectionLostError, match="E_TOO_MUCH: enough for today"):
                await subscription.receive(10)
            with pytest.raises(tidings.ConnectionLostError, match="E_TOO_MUCH"):
                await client.publish("a")
            assert [error.code for error in client.errors] == [error.code for error in heard] == ["E_TOO_MUCH"]

    run(scenario())


def test_a_queue_is_browsed_moved_and_purged() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            for number in range(7):
                await client.publish("queue:q", {"n": number}, body=b"%d" % number, persistent=True)
            queue = client.queue("queue:q")
            found = [one async for one in queue.browse(page=3)]
            assert [one.message.body for one in found] == [b"%d" % number for number in range(7)]
            assert [one.message.body async for one in queue.browse(selector="n > 4")] == [b"5", b"6"]
            assert await queue.move("queue:other", tags=[found[2].tag, found[4].tag]) == 2
            assert await queue.purge(tags=[found[0].tag]) == 1
            assert await queue.purge() == 4
            assert [one async for one in queue.browse()] == []
            other = await client.subscribe("queue:other")
            assert [(await other.receive(10)).body for _ in range(2)] == [b"2", b"4"]  # type: ignore[union-attr]
            with pytest.raises(tidings.TidingsError, match="E_QUEUE_UNKNOWN"):
                await client.queue("queue:nowhere").purge()

    run(scenario())
