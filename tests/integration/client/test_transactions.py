"""Transactions of the client: what is part of them, when they begin, and what is known when the connection breaks."""

import asyncio

import pytest

import tidings
from tidings.broker.server import Broker
from tidings.node.settings import NodeSettings
from tidings.protocols.native.frames import FrameType, RawFrame
from tidings.testing.local_broker import local_broker
from tidings.testing.local_broker import run_plain as run


def cut_at_answer(client: tidings.Client, *, heard: bool) -> None:
    """The next OK is the last that comes by this connection, or the first that does not."""
    link = client._line.link
    assert link is not None
    on_frame = link._on_frame

    def last(frame: RawFrame) -> None:
        if frame.type != FrameType.OK or heard:
            on_frame(frame)
        if frame.type == FrameType.OK:
            link._on_frame = lambda _: None
            assert link._transport is not None
            link._transport.abort()

    link._on_frame = last


async def waiting(client: tidings.Client, queue: str) -> list[object]:
    return [one.message.properties["n"] async for one in client.queue(queue).browse()]


def transactions(broker: Broker) -> int:
    return sum(len(one.transactions) for one in broker.engine.node.connections.values())


@pytest.mark.parametrize("ack", ["auto", "dups-ok"])
def test_a_commit_acknowledges_all_that_was_received(ack: str) -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client, tidings.connect(url) as other:
            for n in range(6):
                await other.publish("queue:in", {"n": n}, persistent=True)
            work = client.transaction()
            jobs = await work.subscribe("queue:in", ack=ack)
            for _ in range(3):
                job = await jobs.receive()
                assert job is not None
                await work.publish("queue:out", job.properties, persistent=True)
            await work.commit()
            assert transactions(broker) == 0
            await jobs.receive()  # of the next transaction, which is never committed
            await client.types()  # answered after whatever was sent before
            assert transactions(broker) == 1
            await client.close()
            assert await waiting(other, "queue:out") == [0, 1, 2]
            assert await waiting(other, "queue:in") == [3, 4, 5]

    run(scenario())


def test_a_block_acknowledges_what_it_received() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client, tidings.connect(url) as other:
            for n in range(2):
                await other.publish("queue:in", {"n": n}, persistent=True)
            async with client.transaction() as work:
                await (await work.subscribe("queue:in")).receive()
            await client.close()
            assert await waiting(other, "queue:in") == [1]

    run(scenario())


def test_a_rollback_gives_back_what_was_received() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            await client.publish("queue:in", {"n": 1}, persistent=True)
            work = client.transaction()
            jobs = await work.subscribe("queue:in")
            for attempt in (1, 2):
                job = await jobs.receive()
                assert job is not None
                assert job.attempt == attempt
                await work.rollback()

    run(scenario())


def test_a_commit_that_was_confirmed_is_not_an_error() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            work = client.transaction()
            await work.begin()
            await work.publish("queue:out", {"n": 1}, persistent=True)
            cut_at_answer(client, heard=True)
            assert await work.commit()
            while client.connected:
                await asyncio.sleep(0)
            await work.publish("queue:out", {"n": 2}, persistent=True)  # the next one, on the next connection
            assert await work.commit()
            assert await waiting(client, "queue:out") == [1, 2]
            assert client.generation == 2

    run(scenario())


@pytest.mark.parametrize("key", ["", "k"])
def test_a_commit_whose_answer_is_lost_is_in_doubt(key: str) -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            work = client.transaction()
            await work.begin()
            await work.publish("queue:out", {"n": 1}, persistent=True)
            cut_at_answer(client, heard=False)
            with pytest.raises(tidings.ConnectionLostError) as caught:
                await work.commit(key, 1)
            assert caught.value.code == "E_COMMIT_UNKNOWN"
            if key:
                await work.publish("queue:out", {"n": 1}, persistent=True)
                assert not await work.commit(key, 1)
            assert await waiting(client, "queue:out") == [1]

    run(scenario())


def test_a_message_of_a_lost_connection_is_part_of_no_other_transaction() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:
            await client.publish("queue:in", {"n": 1}, persistent=True)
            work = client.transaction()
            jobs = await work.subscribe("queue:in", ack="client")
            job = await jobs.receive()
            assert job is not None
            for connection in list(broker.clients.connections.values()):
                connection.abort()
            again = await jobs.receive()
            assert again is not None
            with pytest.raises(tidings.ConnectionLostError, match="nothing was committed"):
                await again.ack()
            with pytest.raises(tidings.ConnectionLostError, match="nothing was committed"):
                await work.publish("queue:out", {"n": 1})
            await work.rollback()
            await again.ack()
            await work.publish("queue:out", {"n": 1}, persistent=True)
            await work.commit()
            assert (await waiting(client, "queue:out"), await waiting(client, "queue:in")) == ([1], [])

    run(scenario())


def test_what_was_received_after_a_transaction_was_lost_comes_again() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:
            await client.publish("queue:in", {"n": 1}, persistent=True)
            async with client.transaction() as work:
                jobs = await work.subscribe("queue:in")
                for connection in list(broker.clients.connections.values()):
                    connection.abort()
                while client.connected:
                    await asyncio.sleep(0)
                assert await jobs.receive() is not None
                assert await jobs.receive(0) is None
                with pytest.raises(tidings.ConnectionLostError, match="nothing was committed"):
                    await work.commit()
                assert await jobs.receive() is not None
            assert await waiting(client, "queue:in") == []
            assert [error.code for error in client.errors] == []

    run(scenario())


def test_numbers_of_ended_sessions_are_used_again() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            for _ in range(70_000):
                client.transaction()
            used = set()
            for n in range(3):
                async with client.transaction() as work:
                    used.add(work.session)
                    await work.publish("queue:q", {"n": n}, persistent=True)
            assert used == {1}
            async with client.transaction() as one, client.transaction() as two:
                assert {one.session, two.session} == {1, 2}
            assert await waiting(client, "queue:q") == [0, 1, 2]

    run(scenario())


@pytest.mark.parametrize("steps", range(4))
def test_who_gives_up_beginning_leaves_no_transaction_behind(steps: int) -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:
            beginning = asyncio.create_task(client.transaction().begin())
            for _ in range(steps):
                await asyncio.sleep(0)
            beginning.cancel()
            await asyncio.wait([beginning])
            await client.types()  # answered after whatever was sent before
            assert transactions(broker) == (0 if beginning.cancelled() else 1)
            assert not client.errors

    run(scenario())


def test_a_transaction_that_could_not_begin_says_why() -> None:
    async def scenario() -> None:
        settings = NodeSettings(transactions_max=1)
        async with local_broker(settings=settings) as (_, url), tidings.connect(url) as client:
            first, second = client.transaction(), client.transaction()
            await first.begin()
            with pytest.raises(tidings.TidingsError, match="E_TRANSACTION_OPEN"):
                await first.begin()
            with pytest.raises(tidings.RemoteError, match="E_TRANSACTIONS"):
                await second.begin()
            await second.publish("queue:q", {"n": 1})
            with pytest.raises(tidings.RemoteError, match="E_TRANSACTIONS"):
                await second.commit()
            await first.rollback()
            await second.publish("queue:q", {"n": 2}, persistent=True)
            await second.commit()
            assert await waiting(client, "queue:q") == [2]

    run(scenario())
