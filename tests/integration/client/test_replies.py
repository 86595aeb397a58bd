"""Requests and replies, and bodies by content type."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

import tidings
from tidings.client import Client, connect
from tidings.errors import CodecError, RemoteError, UsageError
from tidings.testing.local_broker import local_broker, run


async def serve(client: Client, topic: str) -> "asyncio.Task[None]":
    asked = await client.subscribe(topic)

    async def answer() -> None:
        async for one in asked:
            await client.reply(one, body={"twice": one.content["n"] * 2})

    return asyncio.create_task(answer())


def test_each_request_gets_its_own_reply() -> None:
    async def check() -> None:
        async with local_broker() as here, await connect(here.url) as server, await connect(here.url) as client:
            serving = await serve(server, "double")
            answers = await asyncio.gather(*[client.request("double", body={"n": n}) for n in range(20)])
            assert [one.content for one in answers] == [{"twice": 2 * n} for n in range(20)]
            assert len([name for name in here.broker.engine.view.mailboxes if name.startswith("queue:tmp.")]) == 1
            serving.cancel()

    run(check())


def test_without_a_reply_the_request_ends_in_time() -> None:
    async def check() -> None:
        async with local_broker() as here, await connect(here.url) as client:
            with pytest.raises(RemoteError, match="E_NO_REPLY: no reply from nobody"):
                await client.request("nobody", timeout=0.05)
            watching = await client.subscribe("plain")
            await client.publish("plain")
            plain = await watching.receive()
            assert plain is not None
            with pytest.raises(UsageError, match="E_NO_REPLY_TO"):
                await client.reply(plain)

    run(check())


def test_a_new_connection_has_the_same_queue_for_replies() -> None:
    async def check() -> None:
        async with local_broker() as here, await connect(here.url) as server, await connect(here.url) as client:
            serving = await serve(server, "double")
            await client.request("double", body={"n": 1})
            (number,) = [number for number, one in here.broker.engine.view.connections.items() if one.temporary]
            await server.end_connection(number)
            while client.generation < 2:
                await asyncio.sleep(0.01)
            assert (await client.request("double", body={"n": 4})).content == {"twice": 8}
            serving.cancel()

    run(check())


def test_bodies_come_as_they_were_sent() -> None:
    async def check() -> None:
        async with local_broker() as here, await connect(here.url) as client:
            found = await client.subscribe("t")
            for body in (b"\xff", "Grüße", {"a": [1, None]}, [1.5, "x"]):
                await client.publish("t", body=body, priority=7, correlation_id="c", reply_to="queue:q")
                one = await found.receive()
                assert one is not None
                assert one.content == body
                assert (one.priority, one.correlation_id, str(one.reply_to)) == (7, "c", "queue:q")
                assert timedelta(0) <= datetime.now(UTC) - one.timestamp + timedelta(seconds=1) < timedelta(minutes=5)
            await client.publish("t", {"content-type": "application/json"}, b"{")
            broken = await found.receive()
            assert broken is not None
            with pytest.raises(CodecError, match="E_BODY"):
                _ = broken.content
            for wrong in (5, {"a": float("nan")}, "\ud800", object()):
                with pytest.raises(UsageError, match="E_MESSAGE_FIELD"):
                    await client.publish("t", body=wrong)

    run(check())


def test_the_blocking_client_asks_too() -> None:
    async def check() -> None:
        async with local_broker() as here, await connect(here.url) as server:
            serving = await serve(server, "double")
            got: list[object] = []

            def ask() -> None:
                with tidings.sync.connect(here.url) as client:
                    answer = client.request("double", body={"n": 3}, timeout=20)
                    got.append((type(answer), answer.content))

            asking = threading.Thread(target=ask)
            asking.start()
            while asking.is_alive():
                await asyncio.sleep(0.01)
            assert got == [(tidings.sync.Delivery, {"twice": 6})]
            serving.cancel()

    run(check())
