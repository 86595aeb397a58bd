"""A client that publishes faster than somebody takes it: it waits, and nothing is lost, with its own subscriptions and
with those of others; and what it holds meanwhile is bounded."""

import asyncio
import threading

import pytest
from hardening.support.deaf_broker import deaf_broker

import tidings
from tidings import sync
from tidings.client.connection import outbox
from tidings.client.connection import own_echoes as echo
from tidings.client.connection.turnstile import Turnstile
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.testing.local_broker import BrokerThread, local_broker, run, run_plain

BODY = bytes(8000)
COUNT = 1500  # of these are more than may wait at the broker for a subscription
EAGER = BrokerLimits(stall_ms=200)  # drops soon for whom it waits in vain


async def received(subscription: tidings.Subscription, count: int, pause: float = 0.0) -> list[object]:
    got: list[object] = []
    while len(got) < count and (delivery := await subscription.receive(5)) is not None:
        got.append(delivery.properties["n"])
        if pause:
            await asyncio.sleep(pause)
    return got


@pytest.mark.parametrize("pause", [0.0, 0.0005])
@pytest.mark.parametrize("loop", [run, run_plain])
def test_who_publishes_and_subscribes_loses_nothing(loop: object, pause: float) -> None:
    async def scenario() -> None:
        with BrokerThread(limits=EAGER) as broker:
            async with tidings.connect(broker.url) as client:
                reading = asyncio.create_task(received(await client.subscribe("t.>", window=50), COUNT, pause))
                for n in range(COUNT):
                    await client.publish("t.x", {"n": n}, BODY)
                assert await reading == list(range(COUNT))
                assert not client.errors

    assert callable(loop)
    loop(scenario())


def test_a_queue_of_its_own_loses_nothing() -> None:
    async def scenario() -> None:
        async with local_broker(limits=EAGER, settings=NodeSettings(stall_ms=200)) as (broker, url):
            async with tidings.connect(url) as client:
                reading = asyncio.create_task(received(await client.subscribe("queue:q", window=50), COUNT))
                for n in range(COUNT):
                    await client.publish("queue:q", {"n": n}, BODY)
                assert await reading == list(range(COUNT))
            assert not any(broker.engine.node.mailbox_service.overflow.dropped.values())

    run(scenario())


def test_a_transaction_that_comes_back_loses_nothing_that_follows() -> None:
    async def scenario() -> None:
        with BrokerThread(limits=EAGER) as broker:
            async with tidings.connect(broker.url) as client:
                reading = asyncio.create_task(received(await client.subscribe("t", window=50), COUNT))
                async with client.transaction() as work:
                    for n in range(COUNT // 2):
                        await work.publish("t", {"n": n}, BODY)
                for n in range(COUNT // 2, COUNT):
                    await client.publish("t", {"n": n}, BODY)
                assert await reading == list(range(COUNT))

    run(scenario())


def test_a_blocking_client_that_publishes_and_subscribes_loses_nothing() -> None:
    with BrokerThread(limits=EAGER) as broker, sync.connect(broker.url) as client:
        ticks = client.subscribe("t", window=50)
        got: list[object] = []

        def read() -> None:
            while len(got) < COUNT and (delivery := ticks.receive(5)) is not None:
                got.append(delivery.properties["n"])

        reader = threading.Thread(target=read)
        reader.start()
        for n in range(COUNT):
            client.publish("t", {"n": n}, BODY)
        reader.join()
        assert got == list(range(COUNT))
        assert (ticks.dropped, client.errors) == (0, [])


def test_others_have_their_turn_while_somebody_publishes() -> None:
    """Even if the broker takes everything at once: a reader that had none would be dropped as stalled."""

    async def scenario() -> None:
        async with deaf_broker() as deaf:
            client = await tidings.connect(deaf.url)
            deaf.reads.set()
            turns: list[int] = []
            for n in range(5):
                asyncio.get_running_loop().call_soon(turns.append, n)
                for _ in range(200):
                    await client.publish("t", {}, bytes(400))
            assert turns[:4] == [0, 1, 2, 3]
            with pytest.raises(tidings.ConnectionLostError, match="E_UNSENT: 1000 publications"):
                await client.close(0)

    run(scenario())


def test_nobody_waits_for_itself() -> None:
    """The task that reads is the one that publishes: to wait for it would be for ever."""

    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            ticks = await client.subscribe("t")
            await client.publish("t", {"n": -1})
            assert await ticks.receive(5) is not None
            async with asyncio.timeout(echo.READER_SECONDS / 2):
                for n in range(300):  # more than the gate lets through, less than the broker keeps
                    await client.publish("t", {"n": n}, BODY)
                assert await received(ticks, 300) == list(range(300))

    run(scenario())


def test_nobody_waits_for_a_reader_that_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "FIRST_READER_SECONDS", 0.05)

    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            ticks = await client.subscribe("t", window=1)
            async with asyncio.timeout(5):
                for n in range(300):
                    await client.publish("t", {"n": n}, BODY)
            assert await received(ticks, 300) == list(range(300))

    run(scenario())


def test_nobody_waits_for_a_reader_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "READER_SECONDS", 0.05)

    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            ticks = await client.subscribe("t", window=1)
            reading = asyncio.create_task(received(ticks, 10))
            async with asyncio.timeout(5):
                for n in range(300):
                    await client.publish("t", {"n": n}, BODY)
            assert await reading == list(range(10))
            assert await received(ticks, 290) == list(range(10, 300))

    run(scenario())


def test_who_waits_is_let_go_when_the_subscription_is_closed() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            ticks = await client.subscribe("t", window=1)

            async def publish() -> None:
                for n in range(100):
                    await client.publish("t", {"n": n}, BODY)

            publishing = asyncio.create_task(publish())
            await asyncio.sleep(0.1)
            assert not publishing.done()
            await ticks.close()
            async with asyncio.timeout(echo.FIRST_READER_SECONDS / 2):
                await publishing

    run(scenario())


def test_what_is_published_elsewhere_waits_for_no_reader() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            await client.subscribe("jobs.>", window=1)
            await client.subscribe("t", policy="drop-oldest", window=1)
            await client.subscribe("t", no_local=True, window=1)
            async with asyncio.timeout(echo.FIRST_READER_SECONDS):
                for n in range(100):
                    await client.publish("t", {"n": n}, BODY)
                    await client.publish("queue:jobs.x", {"n": n}, BODY)

    run(scenario())


# --- with others ------------------------------------------------------------------------------------------------------


def test_who_publishes_and_subscribes_loses_nothing_of_others_either() -> None:
    """Another client fills the subscription while its credit stands behind own publications."""

    async def scenario() -> None:
        with BrokerThread(limits=EAGER) as broker:
            async with tidings.connect(broker.url) as both, tidings.connect(broker.url) as other:
                ticks = await both.subscribe("t.>", window=50)
                reading = asyncio.create_task(received(ticks, 2 * COUNT))

                async def publish(client: tidings.Client) -> None:
                    for n in range(COUNT):
                        await client.publish("t.x", {"n": n}, BODY)

                await asyncio.gather(publish(both), publish(other))
                assert sorted(map(str, await reading)) == sorted(str(n) for n in [*range(COUNT), *range(COUNT)])
                assert [ticks.dropped, *both.errors, *other.errors] == [0]

    run(scenario())


def test_who_publishes_to_a_slow_reader_keeps_what_others_publish_to_it() -> None:
    """It is pushed back for longer than a reader may take nothing; its own credit counts meanwhile."""
    narrow = NodeSettings(sink_bytes_max=300_000)

    async def scenario() -> None:
        with BrokerThread(narrow, limits=EAGER) as broker:
            async with (
                tidings.connect(broker.url) as both,
                tidings.connect(broker.url) as slow,
                tidings.connect(broker.url) as other,
            ):
                ticks = await both.subscribe("t", window=50)
                reading = asyncio.create_task(received(ticks, 600))
                crawling = asyncio.create_task(received(await slow.subscribe("slow", window=2), 120, 0.02))

                async def publish(client: tidings.Client, to: str, count: int) -> None:
                    for n in range(count):
                        await client.publish(to, {"n": n}, BODY)

                await asyncio.gather(publish(both, "slow", 120), publish(other, "t", 600))
                assert await reading == list(range(600))
                assert await crawling == list(range(120))
                assert [ticks.dropped, *both.errors] == [0]

    run(scenario())


# --- the outbox -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
def test_however_many_publish_at_a_time_little_is_held_and_who_is_cancelled_has_sent_nothing(persistent: bool) -> None:
    async def scenario() -> None:
        async with deaf_broker() as deaf:
            client = await tidings.connect(deaf.url, reconnect=False)
            body = bytes(60_000)
            tasks = [
                asyncio.create_task(client.publish("t", {"n": n}, body, persistent=persistent, wait=False))
                for n in range(1000)
            ]
            await asyncio.sleep(0.2)
            link = client._line.link
            assert link is not None
            assert link._transport is not None
            held = link._transport.get_write_buffer_size() + link._gathered_bytes
            assert held < 3 * (64 << 10) + len(body)
            assert client._outbox._entries_bytes <= outbox.UNCONFIRMED_BYTES_MAX + len(body)
            waiting = [task for task in tasks if not task.done()]
            assert len(waiting) > 500
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            deaf.reads.set()
            await deaf.published_are(1000 - len(waiting))
            await asyncio.sleep(0.05)
            assert len(deaf.published()) == 1000 - len(waiting)
            with pytest.raises(tidings.ConnectionLostError, match=f"E_UNSENT: {1000 - len(waiting)} publications"):
                await client.close(0.1)

    run_plain(scenario())


def test_all_who_wait_have_their_turn() -> None:
    async def scenario() -> None:
        async with deaf_broker() as deaf:
            client = await tidings.connect(deaf.url, reconnect=False)
            tasks = [asyncio.create_task(client.publish("t", {"n": n}, bytes(60_000))) for n in range(300)]
            await asyncio.sleep(0.1)
            assert not all(task.done() for task in tasks)
            deaf.reads.set()
            await asyncio.gather(*tasks)
            await deaf.published_are(300)
            with pytest.raises(tidings.ConnectionLostError, match="E_UNSENT"):
                await client.close(0)

    run_plain(scenario())


def test_who_waits_for_room_hears_that_the_client_was_closed() -> None:
    async def scenario() -> None:
        async with deaf_broker() as deaf:
            client = await tidings.connect(deaf.url)
            tasks = [asyncio.create_task(client.publish("t", {}, bytes(60_000))) for _ in range(300)]
            await asyncio.sleep(0.1)
            with pytest.raises(tidings.ConnectionLostError, match="E_UNSENT"):
                await client.close(0.1)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            errors = [one for one in results if isinstance(one, tidings.TidingsError)]
            assert {error.code for error in errors} == {"E_CLOSED"}
            assert len(errors) > 100

    run_plain(scenario())


def test_what_is_unconfirmed_is_sent_again_once_with_its_id_and_marked() -> None:
    async def scenario() -> None:
        async with deaf_broker() as deaf:
            deaf.reads.set()
            client = await tidings.connect(deaf.url, close_seconds=0)
            receipts = [await client.publish("t", {"n": n}, persistent=True, wait=False) for n in range(3)]
            for connection in (1, 2):
                await deaf.published_are(3 * connection)
                deaf.writers[-1].transport.abort()
                while client.generation == connection:
                    await asyncio.sleep(0.001)
            await deaf.published_are(9)
            sent = [(frame.flags, frame.payload[8:24]) for frame in deaf.published()]
            ids = [bytes(receipt.message_id) for receipt in receipts]
            assert sent == [*((0, one) for one in ids), *((1, one) for one in ids), *((1, one) for one in ids)]
            assert not client.errors, "they are not given up"
            with pytest.raises(tidings.ConnectionLostError, match="E_UNSENT: 3 publications"):
                await client.close()

    run_plain(scenario())


# --- the turnstile ----------------------------------------------------------------------------------------------------


def test_a_turnstile_lets_through_in_order_and_forgets_who_has_left() -> None:
    async def scenario() -> None:
        room, passed = 0, list[int]()
        turnstile = Turnstile(lambda: room > 0)

        async def enter(n: int) -> None:
            nonlocal room
            await turnstile.passed()
            room -= 1
            passed.append(n)

        tasks = [asyncio.create_task(enter(n)) for n in range(40)]
        await asyncio.sleep(0)
        room = 2
        turnstile.turn()
        tasks[0].cancel()  # in its turn
        tasks[5].cancel()  # while it waits
        for _ in range(5):
            await asyncio.sleep(0)
        assert sorted(passed) == [1, 2]
        room = 100
        turnstile.turn()
        await asyncio.wait(tasks)
        assert sorted(passed) == [n for n in range(40) if n not in (0, 5)]
        assert not turnstile.waiting

    run_plain(scenario())
