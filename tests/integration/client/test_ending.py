"""How connections and subscriptions of a client end, and what becomes of what was under way."""

import asyncio
import gc
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

import tidings
from tidings.broker.server import Broker
from tidings.client.connection.transport import Transport
from tidings.delivery.store import MemoryStore, Record
from tidings.model.codec import encode_frame
from tidings.node.limits import BrokerLimits
from tidings.protocols.native.frames import FrameType, RawFrame, control
from tidings.testing.local_broker import local_broker
from tidings.testing.local_broker import run_plain as run


async def connection_lost(broker: Broker, client: tidings.Client) -> None:
    for connection in list(broker.clients.connections.values()):
        connection.abort()
    while client.connected:
        await asyncio.sleep(0)


async def filled(client: tidings.Client, count: int) -> None:
    for n in range(count):
        await client.publish("queue:q", {"n": n}, persistent=True)


async def waiting(client: tidings.Client) -> list[tuple[object, int]]:
    return [(one.message.properties["n"], one.attempt) async for one in client.queue("queue:q").browse()]


async def arrived(subscription: tidings.Subscription, count: int) -> None:
    while len(subscription._waiting) < count:
        await asyncio.sleep(0)


@pytest.mark.parametrize("ack", ["auto", "client"])
def test_what_nobody_was_given_does_not_count_as_tried(ack: str) -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as other:
            await filled(other, 4)
            async with tidings.connect(url) as client:
                jobs = await client.subscribe("queue:q", ack=ack)
                await arrived(jobs, 4)
                assert await jobs.receive() is not None
                await jobs.close()
                assert jobs.receive_nowait() is None
                left = await waiting(other)
                assert left == [*([(0, 2)] if ack == "client" else []), (1, 1), (2, 1), (3, 1)]
                jobs = await client.subscribe("queue:q", ack=ack)
                await arrived(jobs, len(left))
            assert await waiting(other) == left

    run(scenario())


@pytest.mark.parametrize("cumulative", [False, True])
def test_what_was_settled_before_the_end_stays_settled(cumulative: bool) -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            await filled(client, 4)
            jobs = await client.subscribe("queue:q", ack="client")
            got = [await jobs.receive() for _ in range(3)]
            assert got[1] is not None
            await got[1].ack(cumulative=cumulative)
            await jobs.close()
            assert await waiting(client) == [*([] if cumulative else [(0, 2)]), (2, 2), (3, 1)]

    run(scenario())


def test_what_an_exception_left_undone_counts_as_tried() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as other:
            await filled(other, 3)
            with suppress(ZeroDivisionError):
                async with tidings.connect(url) as client:
                    jobs = await client.subscribe("queue:q")
                    await arrived(jobs, 3)
                    await jobs.receive()
                    raise ZeroDivisionError
            assert await waiting(other) == [(0, 2), (1, 1), (2, 1)]

    run(scenario())


def test_the_broker_hears_at_once_of_what_is_done() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as other:
            await filled(other, 3)
            client = await tidings.connect(url, reconnect=False)
            jobs = await client.subscribe("queue:q")
            await arrived(jobs, 3)
            assert await jobs.receive() is not None
            assert await jobs.receive() is not None
            await client.types()  # answered after whatever was sent before
            link = client._line.link
            assert link is not None
            assert link._transport is not None
            link._transport.abort()
            while client.connected:
                await asyncio.sleep(0)
            while len(left := [n for n, _ in await waiting(other)]) < 2:
                await asyncio.sleep(0.01)
            assert left == [1, 2]

    run(scenario())


def test_a_window_is_not_exceeded_by_reconnections() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client, tidings.connect(url) as other:
            ticks = await client.subscribe("t", window=4, policy="drop-oldest")
            for _ in range(3):
                for n in range(10):
                    await other.publish("t", {"n": n}, wait=True)
                await arrived(ticks, 4)
                await connection_lost(broker, client)
                await client.types()
            assert len(ticks._waiting) == 4
            for _ in range(4):
                assert await ticks.receive() is not None
            await other.publish("t", {"n": 99}, wait=True)
            got = await ticks.receive()  # there is credit again
            assert got is not None
            assert got.properties["n"] == 99

    run(scenario())


def swallow_answer(client: tidings.Client) -> None:
    """The connection breaks when the next answer comes, which is not heard."""
    link = client._line.link
    assert link is not None
    on_frame = link._on_frame

    def last(frame: RawFrame) -> None:
        if frame.type == FrameType.OK:
            link._on_frame = lambda _: None
            assert link._transport is not None
            link._transport.abort()
        else:
            on_frame(frame)

    link._on_frame = last


def test_what_was_done_before_the_connection_broke_is_done() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url, client_id="me") as client:
            await (await client.subscribe("t", durable="d")).close()
            await client.add_type("T")
            retained = await client.retain("r", "t")
            for undo in (client.forget("d"), client.remove_type("T"), retained.forget()):
                swallow_answer(client)
                await undo
            assert client.generation == 4
            with pytest.raises(tidings.RemoteError, match="E_DURABLE_UNKNOWN"):
                await client.forget("d")
            with pytest.raises(tidings.TidingsError, match="E_TYPE_UNKNOWN"):
                await client.remove_type("T")

    run(scenario())


def test_a_client_that_is_connected_connects_no_more() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url):
            async with await tidings.connect(url) as client:
                await client.publish("t", wait=True)
                assert (len(broker.clients.connections), client.generation) == (1, 1)
            async with client:  # but once it was closed
                await client.publish("t", wait=True)

    run(scenario())


def test_a_client_that_was_never_connected_says_so() -> None:
    async def scenario() -> None:
        client = tidings.connect("tidings://127.0.0.1:9")
        for _ in range(2):
            for call in (client.publish("t"), client.subscribe("t"), client.types(), client.transaction().begin()):
                with pytest.raises(tidings.UsageError, match="E_NOT_CONNECTED"):
                    await call
            with suppress(tidings.ConnectionLostError):
                await client

    run(scenario())


def test_an_error_does_not_grow_by_being_raised_again() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url):
            client = await tidings.connect(url, reconnect=False)
            topic = await client.subscribe("t")
            await connection_lost(broker, client)
            for call in (lambda: client.publish("t"), topic.receive):
                raised: list[tidings.TidingsError] = []
                for _ in range(3):
                    with pytest.raises(tidings.ConnectionLostError, match="E_CONNECTION_LOST") as caught:
                        await call()
                    raised.append(caught.value)
                assert len({id(one) for one in raised}) == 3
                assert [str(one) for one in raised] == [str(raised[0])] * 3

    run(scenario())


def test_a_silent_broker_is_given_up_in_time() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url):
            client = await tidings.connect(url, give_up_seconds=0.2)
        writers: list[asyncio.StreamWriter] = []
        port = int(url.rpartition(":")[2])
        async with await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", port):
            with pytest.raises(tidings.ConnectionLostError, match=r"the broker did not answer HELLO in 0\.\d+ s"):
                await client.publish("t")
            for writer in writers:
                writer.close()

    run(scenario())


def test_a_connection_that_nobody_waits_for_is_no_unhandled_error() -> None:
    async def scenario() -> None:
        unhandled: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        link = Transport()
        link.connection_lost(None)
        del link
        await asyncio.sleep(0)
        gc.collect()
        assert unhandled == []

    run(scenario())


def test_a_dead_letter_is_longer_than_what_may_be_published_and_is_received() -> None:
    async def scenario() -> None:
        limits = BrokerLimits(frame_bytes_max=1 << 16)
        async with local_broker(limits=limits) as (_, url), tidings.connect(url) as client:
            size = 1 << 16
            while True:
                with suppress(tidings.LimitError):
                    await client.publish("queue:q", {"n": 1}, bytes(size), persistent=True)
                    break
                size -= 1
            got = await (await client.subscribe("queue:q")).receive()
            assert got is not None
            await got.reject()
            dead = await (await client.subscribe("queue:dead-letters")).receive()
            assert dead is not None
            assert (len(dead.body), client.generation) == (size, 1)

    run(scenario())


def test_what_is_no_frame_is_told() -> None:
    async def scenario() -> None:
        heard: list[tidings.TidingsError] = []
        async with local_broker() as (_, url), tidings.connect(url, on_error=heard.append) as client:
            link = client._line.link
            assert link is not None
            link.data_received(b"\xff" * 8)
            while client.generation == 1:
                await asyncio.sleep(0)
            assert [error.code for error in client.errors] == [error.code for error in heard] == ["E_CODEC_LIMIT"]

    run(scenario())


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (encode_frame(FrameType.DELIVER, bytes(15)), "E_CODEC_TRUNCATED"),
        (encode_frame(FrameType.RETAINED, bytes(11)), "E_CODEC_TRUNCATED"),
        (encode_frame(FrameType.RECEIPTS, bytes(3)), "E_FRAME_RECEIPTS"),
        (control(FrameType.OK, {"receipt": "x"}), "E_FRAME_FIELD"),
        (control(FrameType.ERROR, {"code": 1}), "E_FRAME_FIELD"),
        (control(FrameType.ERROR, {"position": b"1"}), "E_FRAME_FIELD"),
        (control(FrameType.REFUSED, {"receipt": 1.5}), "E_FRAME_FIELD"),
        (control(FrameType.CLOSE, {"fatal": 1}), "E_FRAME_FIELD"),
    ],
)
def test_a_frame_that_is_none_ends_the_connection_not_the_client(frame: bytes, code: str) -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            link = client._line.link
            assert link is not None
            link.data_received(frame)
            while client.generation == 1:
                await asyncio.sleep(0)
            assert [error.code for error in client.errors] == [code]

    run(scenario())


def test_no_tags_are_not_all_messages() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            await filled(client, 2)
            queue = client.queue("queue:q")
            assert await queue.purge(tags=[]) == await queue.move("queue:other", tags=iter(())) == 0
            assert len(await waiting(client)) == 2
            assert await queue.purge() == 2

    run(scenario())


class Stuck(MemoryStore):
    """Takes nothing until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()

    def append(self, batch: Sequence[Record]) -> None:
        self.let.wait()
        super().append(batch)


def test_who_is_cancelled_while_closing_has_closed() -> None:
    async def scenario() -> None:
        store = Stuck()
        async with local_broker(store) as (broker, url):
            client = await tidings.connect(url)
            receipt = await client.publish("queue:q", persistent=True, wait=False)
            closing = asyncio.create_task(client.close())
            await asyncio.sleep(0)
            assert client.connected, "it waits for the publication"
            closing.cancel()
            with suppress(asyncio.CancelledError):
                await closing
            connected = client.connected
            store.let.set()
            assert not connected
            with pytest.raises(tidings.TidingsError, match="E_CLOSED"):
                await receipt.confirmed()
            while broker.clients.connections:
                await asyncio.sleep(0)

    run(scenario())


def test_what_several_were_given_at_a_time_is_done_when_the_subscription_ends() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            jobs = await client.subscribe("queue:q")
            workers = [asyncio.create_task(jobs.receive(30)) for _ in range(3)]
            await asyncio.sleep(0)
            await filled(client, 4)
            given = [await worker for worker in workers]
            assert sorted(one.properties["n"] for one in given if one is not None) == [0, 1, 2]
            await jobs.close()
            assert await waiting(client) == [(3, 1)]

    run(scenario())


def test_a_client_belongs_to_its_event_loop() -> None:
    async def elsewhere(client: tidings.Client, jobs: tidings.Subscription) -> None:
        for call in (client.publish("queue:q"), jobs.receive(), jobs.close(), client.queue("queue:q").purge()):
            with pytest.raises(tidings.UsageError, match="E_EVENT_LOOP"):
                await call
        with pytest.raises(tidings.UsageError, match="E_EVENT_LOOP"):
            await client.close()

    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            jobs = await client.subscribe("queue:q")
            await asyncio.to_thread(run, elsewhere(client, jobs))
            await client.publish("queue:q", {"n": 1}, persistent=True)

    run(scenario())


class _Closed(asyncio.Transport):
    """A transport of uvloop that the peer has reset, before anybody was told."""

    def write(self, data: object) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")


def test_what_is_written_after_a_reset_is_an_ordinary_loss() -> None:
    async def scenario() -> None:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        link = Transport()
        link.connection_made(_Closed())
        with pytest.raises(tidings.ConnectionLostError, match="closed the connection before it answered"):
            await link.greet(control(FrameType.HELLO, {}), 60)
        assert failures == []

    run(scenario())
