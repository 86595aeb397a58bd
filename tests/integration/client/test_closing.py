"""`close`, and leaving the block: what was accepted is sent, or it is said how much was not."""

import asyncio
import time
from contextlib import suppress

import pytest
from hardening.support.deaf_broker import deaf_broker

import tidings
from tidings import sync
from tidings.client.connection.transport import PING
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.protocols.native.frames import FrameType
from tidings.testing.local_broker import BrokerThread, local_broker, run, run_plain

COUNT = 4000
PATIENT = BrokerLimits(stall_ms=20_000)
SMALL = NodeSettings(sink_bytes_max=64 << 10)  # what may wait for a subscription before publishers do


async def received(subscription: tidings.Subscription, count: int) -> int:
    """Takes at most three messages in a millisecond."""
    got = 0
    while got < count and await subscription.receive(3) is not None:
        got += 1
        if got % 10 == 0:
            await asyncio.sleep(0.003)
    return got


@pytest.mark.parametrize(("loop", "persistent"), [(run, False), (run_plain, False), (run, True)])
def test_who_leaves_while_it_is_pushed_back_has_sent_all(loop: object, persistent: bool) -> None:
    async def scenario() -> None:
        async with local_broker(limits=PATIENT, settings=SMALL) as (_, url), tidings.connect(url) as other:
            reading = asyncio.create_task(received(await other.subscribe("t", window=100), COUNT))
            async with tidings.connect(url, heartbeat_ms=1000) as client:  # whose answers found nobody there any more
                for n in range(COUNT):
                    await client.publish("t", {"n": n}, bytes(200), persistent=persistent, wait=False)
            assert not client.errors
            assert await reading == COUNT

    assert callable(loop)
    loop(scenario())


def test_a_blocking_client_that_leaves_while_it_is_pushed_back_has_sent_all() -> None:
    def publish(url: str) -> None:
        with sync.connect(url, heartbeat_ms=1000) as client:
            for n in range(COUNT // 4):
                client.publish("t", {"n": n}, bytes(2000))

    async def scenario() -> None:
        with BrokerThread(limits=PATIENT, settings=SMALL) as broker:
            async with tidings.connect(broker.url) as other:
                reading = asyncio.create_task(received(await other.subscribe("t", window=100), COUNT // 4))
                await asyncio.to_thread(publish, broker.url)
                assert await reading == COUNT // 4

    run_plain(scenario())


@pytest.mark.parametrize("persistent", [False, True])
def test_what_could_not_be_sent_in_time_is_counted_and_raised(persistent: bool) -> None:
    async def scenario() -> None:
        async with deaf_broker() as deaf:
            client = await tidings.connect(deaf.url)
            receipts = [await client.publish("t", persistent=persistent, wait=False) for _ in range(7)]
            before = time.monotonic()
            with pytest.raises(tidings.ConnectionLostError, match=r"E_UNSENT: 7 publications may not .* after 0\.2 s"):
                await client.close(timeout=0.2)
            assert 0.1 < time.monotonic() - before < 5
            assert not client.connected
            if persistent:
                with pytest.raises(tidings.ConnectionLostError, match="E_CLOSED"):
                    await receipts[0].confirmed()
            await client.close()  # it is closed

    run(scenario())


def test_leaving_the_block_raises_too_but_hides_no_exception() -> None:
    async def scenario() -> None:
        async with deaf_broker() as deaf:
            with pytest.raises(tidings.ConnectionLostError, match="E_UNSENT: 1 publication may"):
                async with tidings.connect(deaf.url, close_seconds=0.05) as client:
                    await client.publish("t")
            with suppress(ZeroDivisionError):
                async with tidings.connect(deaf.url, close_seconds=0.05) as client:
                    await client.publish("t")
                    raise ZeroDivisionError
            assert [error.code for error in client.errors] == ["E_UNSENT"]

    run(scenario())


def test_who_is_cancelled_leaves_at_once() -> None:
    async def scenario() -> None:
        async with deaf_broker() as deaf:
            before = time.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1), tidings.connect(deaf.url, close_seconds=60) as client:
                    await client.publish("t")
                    await asyncio.sleep(60)
            assert [error.code for error in client.errors] == ["E_UNSENT"]
            client = await tidings.connect(deaf.url)
            await client.publish("t")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await client.close(60)
            assert [error.code for error in client.errors] == ["E_UNSENT"]
            assert not client.connected
            assert time.monotonic() - before < 10

    run(scenario())


def test_a_blocking_client_raises_what_it_could_not_send() -> None:
    async def scenario() -> None:
        async with deaf_broker() as deaf:

            def work() -> None:
                client = sync.connect(deaf.url)
                client.publish("t")
                with pytest.raises(tidings.ConnectionLostError, match="E_UNSENT: 1 publication may"):
                    client.close(timeout=0.1)
                with pytest.raises(tidings.ConnectionLostError, match="E_UNSENT: 1 publication may"):  # noqa: SIM117
                    with sync.connect(deaf.url, close_seconds=0.1) as client:
                        client.publish("t")

            await asyncio.to_thread(work)

    run_plain(scenario())


def test_what_a_lost_connection_may_have_lost_is_told() -> None:
    async def scenario() -> None:
        async with deaf_broker() as deaf:
            deaf.reads.set()
            client = await tidings.connect(deaf.url)
            for _ in range(3):
                await client.publish("t")
            await deaf.published_are(3)
            deaf.writers[-1].transport.abort()
            while client.generation == 1:
                await asyncio.sleep(0.001)
            assert [error.code for error in client.errors] == ["E_UNSENT"]
            assert "3 publications may not have reached the broker" in str(client.errors[0])
            await client.close(0)  # nothing of the new connection is missing

    run_plain(scenario())


def test_what_the_broker_has_answered_after_is_not_lost_with_the_connection() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:
            for _ in range(3):
                await client.publish("t")
            assert await client._outbox.settle(5) == 0
            for connection in list(broker.clients.connections.values()):
                connection.abort()
            while client.generation == 1:
                await asyncio.sleep(0.001)
            assert not client.errors

    run_plain(scenario())


def test_a_client_waits_for_a_broker_that_comes_back_before_it_closes() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as other:
            jobs = await other.subscribe("queue:q")
            async with tidings.connect(url) as client:
                link = client._line.link
                assert link is not None
                assert link._transport is not None
                receipt = await client.publish("queue:q", {"n": 1}, persistent=True, wait=False)
                link._transport.abort()  # before it was sent
                while client.connected:
                    await asyncio.sleep(0)
            await receipt.confirmed()
            got = await jobs.receive(5)
            assert got is not None
            assert got.properties["n"] == 1

    run_plain(scenario())


def test_an_unasked_answer_means_nothing() -> None:
    async def scenario() -> None:
        async with deaf_broker() as deaf:
            client = await tidings.connect(deaf.url)
            link = client._line.link
            assert link is not None
            pong = PING[:4] + bytes((FrameType.PONG,)) + PING[5:]
            link.data_received(pong * 3)
            await client.publish("t")
            with pytest.raises(tidings.ConnectionLostError, match="E_UNSENT"):
                await client.close(0)

    run(scenario())
