"""What one protocol sends another receives: random messages through real sockets, both ways (docs/protocols.md)."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hardening.contracts.codec import random_message
from hardening.support.raw_connection import RawConnection
from hardening.support.stomp import RawStomp, headers_of, message_of
from hardening.support.stomp_broker import Place, with_broker

from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.client import connect
from tidings.model.codec import encode_frame, encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.protocols.native.frames import FrameType
from tidings.protocols.stomp.frames import StompVersion
from tidings.protocols.stomp.session import StompSession
from tidings.testing.local_broker import local_broker, run

COUNT = 150


def some_messages(seed: int) -> Iterator[Message]:
    rng = Random(seed)
    for number in range(COUNT):
        message = random_message(rng)
        topic = Destination(message.destination.name.replace(" ", "-"))
        expiration = None if message.expiration_ms is None else 2**62
        yield replace(
            message,
            destination=topic,
            deliver_at_ms=None,
            expiration_ms=expiration,
            id=MessageId(1, 1, 1_700_000_000_000, number),
        )


@pytest.mark.parametrize("version", [StompVersion.V11, StompVersion.V12])
def test_from_native_to_stomp(version: StompVersion) -> None:
    async def check() -> None:
        async with local_broker() as (broker, url):
            port = await broker.listen(ListenerSettings(StompSession, port=0))
            raw = await RawStomp.open(port, version)
            await raw.connect()
            await raw.subscribe("/topic/>")
            native = await RawConnection.open(url)
            await native.greet()
            for message in some_messages(version):
                await native.send(encode_frame(FrameType.PUBLISH, struct.pack("<I", 0) + encode_message(message)))
                frame = await raw.expect("MESSAGE")
                assert frame.headers.pop("subscription") == "1"
                assert frame.headers.pop("message-id") == message.id.jms
                shown = {a.replace("\0", "\ufffd"): b.replace("\0", "\ufffd") for a, b in headers_of(message).items()}
                assert frame.headers == shown
                assert frame.body == message.body
            native.writer.close()
            await raw.leave()

    run(check())


@pytest.mark.parametrize("version", [StompVersion.V11, StompVersion.V12])
def test_from_stomp_to_native_and_to_stomp(version: StompVersion) -> None:
    async def check() -> None:
        async with local_broker() as (broker, url):
            port = await broker.listen(ListenerSettings(StompSession, port=0))
            raw = await RawStomp.open(port, version)
            await raw.connect()
            await raw.subscribe("/topic/>")
            async with connect(url) as client:
                everything = await client.subscribe(">")
                for message in some_messages(10 + version):
                    headers = {
                        name.replace("\0", ""): value.replace("\0", "") for name, value in headers_of(message).items()
                    }
                    await raw.send("SEND", headers, message.body)
                    received = (await anext(everything)).message
                    assert received == message_of(headers, message.body, received.id)
                    frame = await raw.expect("MESSAGE")
                    assert {name: frame.headers[name] for name in headers} == headers
                    assert frame.body == message.body
            await raw.leave()

    run(check())


def test_native_and_stomp_clients_share_what_they_subscribe_to() -> None:
    async def check(here: Place) -> None:
        async with connect(here.url) as native:
            ticks = await native.subscribe("ticks.>", selector="price > 20")
            raw = await here.client()
            await raw.subscribe("/topic/ticks.>", selector="price > 20")
            await raw.send("SEND", {"destination": "/topic/ticks.a", "price": "30"}, b"one")
            await native.publish("ticks.b", {"price": 40}, body=b"two")
            assert [(await anext(ticks)).body for _ in range(2)] == [b"one", b"two"]
            got = [await raw.expect("MESSAGE") for _ in range(2)]
            assert [(frame.body, frame.headers["price"]) for frame in got] == [(b"one", "30"), (b"two", "40")]

    with_broker(check)
