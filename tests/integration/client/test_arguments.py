"""What is passed to a client is checked before anything is sent, and spoils nothing that comes later."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import tidings
from tidings.broker.server import Broker
from tidings.client.message_builder import compose
from tidings.model.message_id import MessageId
from tidings.testing.local_broker import local_broker
from tidings.testing.local_broker import run_plain as run

Call = Callable[[Any], Awaitable[Any]]
WRONG: list[Call] = [
    lambda c: c.subscribe("x", window=2**70),
    lambda c: c.subscribe("x", window=2**32),
    lambda c: c.subscribe("x", window=-1),
    lambda c: c.subscribe("x", window="ten"),
    lambda c: c.subscribe("x", window=float("nan")),
    lambda c: c.subscribe("x", selector="a = '\ud800'"),
    lambda c: c.subscribe("x", selector=None),
    lambda c: c.subscribe("x", ack=None),
    lambda c: c.subscribe("x", durable=object()),
    lambda c: c.subscribe("x", no_local="yes"),
    lambda c: c.subscribe(b"x"),
    lambda c: c.subscribe(5),
    lambda c: c.publish(None),
    lambda c: c.publish("x", [("a", 1)]),
    lambda c: c.publish("x", []),
    lambda c: c.publish("x", reply_to=5),
    lambda c: c.publish("x", session=-1),
    lambda c: c.publish("\ud800"),
    lambda c: c.forget(None),
    lambda c: c.forget(""),
    lambda c: c.advertise(None),
    lambda c: c.advertise("x", selector=5),
    lambda c: c.trace(None),
    lambda c: c.inspect(None),
    lambda c: c.inspect("connections", offset=-1),
    lambda c: c.inspect("connections", offset=float("nan")),
    lambda c: c.retain(None, "x"),
    lambda c: c.retain("r", "x", bytes_max=-1),
    lambda c: c.retain("r", "x", age_seconds=float("inf")),
    lambda c: c.retain("r", "x", age_seconds="1"),
    lambda c: c.retained("r").read(after=-1),
    lambda c: c.retained("r").release(None),
    lambda c: c.add_type(None),
    lambda c: c.add_type("T", [1]),
    lambda c: c.get_type(5),
    lambda c: c.remove_type(None),
    lambda c: c.advertise_type(None),
    lambda c: c.publish_event([], {}),
    lambda c: c.queue("queue:q").purge(tags=[-1]),
    lambda c: c.queue("queue:q").purge(tags=5),
    lambda c: c.queue("queue:q").move(None),
    lambda c: anext(c.queue("queue:q").browse(selector=None)),
    lambda c: anext(c.queue("queue:q").browse(page=-1)),
    lambda c: c.transaction().commit(key=5),
    lambda c: c.transaction().commit("k", -1),
]


async def connection_lost(broker: Broker, client: tidings.Client) -> None:
    for connection in list(broker.clients.connections.values()):
        connection.abort()
    while client.connected:
        await asyncio.sleep(0)


def test_a_wrong_argument_is_refused_here_and_spoils_nothing() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:
            for call in WRONG:
                with pytest.raises(tidings.UsageError, match=r"^E_"):
                    await call(client)
            with pytest.raises(tidings.UsageError, match="E_ARGUMENT"):
                client.queue(None)  # type: ignore[arg-type]
            topic = await client.subscribe("x")
            with pytest.raises(tidings.UsageError, match="E_ARGUMENT"):
                await topic.receive(float("nan"))
            await connection_lost(broker, client)
            await client.publish("x", wait=True)
            assert (client.generation, len(client.errors)) == (2, 0)

    run(scenario())


def test_a_request_that_cannot_be_made_is_not_made_again() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:
            with pytest.raises(ZeroDivisionError):
                await client.exchange(lambda _: bytes(1 // 0))
            await connection_lost(broker, client)
            await client.publish("x", wait=True)

    run(scenario())


def test_whatever_prevents_a_reconnection_is_told_to_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as client:
            topic = await client.subscribe("x")

            async def fails(_: float) -> None:
                raise ZeroDivisionError

            monkeypatch.setattr(client._line, "_connect", fails)
            await connection_lost(broker, client)
            with pytest.raises(tidings.ConnectionLostError, match="E_RECONNECT"):
                await client.publish("x", wait=True)
            with pytest.raises(tidings.ConnectionLostError, match="E_RECONNECT"):
                await topic.receive()

    run(scenario())


def test_a_destination_may_be_an_object_wherever_it_may_be_text() -> None:
    async def scenario() -> None:
        topic, queue, other = (tidings.Destination.parse(name) for name in ("a.b", "queue:q", "queue:o"))
        async with local_broker() as (_, url), tidings.connect(url) as client:
            await client.advertise(topic)
            await client.retain("r", topic)
            ticks, work = await client.subscribe(topic), client.transaction()
            await work.publish(queue, persistent=True)
            await work.commit()
            await client.publish(topic)
            assert await ticks.receive() is not None
            assert await client.queue(queue).move(other) == 1
            jobs = await work.subscribe(other)
            assert jobs.destination == "queue:o"
            assert await jobs.receive() is not None

    run(scenario())


def test_a_message_is_made_of_a_mapping() -> None:
    with pytest.raises(tidings.UsageError, match="E_MESSAGE_FIELD: properties must be a mapping, not list"):
        compose(MessageId.NONE, "x", [1])  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["tidings://h:0", "tidings://h:99999", "tidings://[::1", "tidings://a..b", None, b"x"])
def test_an_address_that_cannot_be_is_refused(url: Any) -> None:
    with pytest.raises(tidings.UsageError, match=r"E_URL|E_ARGUMENT"):
        tidings.connect(url)


@pytest.mark.parametrize(
    "options",
    [
        {"user": None},
        {"client_id": 5},
        {"heartbeat_ms": -1},
        {"give_up_seconds": float("nan")},
        {"reconnect": "no"},
        {"tls": True},
        {"on_error": 5},
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(tidings.UsageError, match="E_ARGUMENT"):
        tidings.connect(**options)
