"""The broker over real sockets: whatever one client does, the others do not notice."""

import asyncio
import random
import socket
from collections.abc import Callable

import pytest
from hardening.support.raw_connection import RawConnection

import tidings
from tidings.broker.connections.connection import KEEP_ALIVE
from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.values import Value
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.protocols.native.frames import FrameType, control, decode_fields, encode_ack, encode_credit
from tidings.testing.local_broker import local_broker
from tidings.testing.local_broker import run_plain as run

HELLO = control(FrameType.HELLO, {"version": 1})
BODY = bytes(1000)


def publish(body: bytes = b"", *, receipt: int = 0, destination: str = "t") -> bytes:
    message = encode_message(Message(Destination(destination), {}, body))
    return encode_frame(FrameType.PUBLISH, receipt.to_bytes(4, "little") + message)


BAD = {
    "garbage": (b"\xff\xff\xff\x7fgarbage\r\n\r\n", "E_CODEC_LIMIT"),
    "a huge length": (b"\xff\xff\xff\xff\x01\x00\x00\x00", "E_CODEC_LIMIT"),
    "a long frame before log-in": ((70_000).to_bytes(4, "little") + b"\x01\0\0\0", "E_CODEC_LIMIT"),
    "an unknown type": (encode_frame(0x77, b""), "E_FRAME_TYPE"),
    "an unknown type after log-in": (HELLO + encode_frame(0x77, b""), "E_FRAME_TYPE"),
    "subscribe first": (control(FrameType.SUBSCRIBE, {"receipt": 1}), "E_FRAME_UNEXPECTED"),
    "publish first": (publish(), "E_FRAME_UNEXPECTED"),
    "hello twice": (HELLO + HELLO, "E_FRAME_UNEXPECTED"),
    "what only brokers say": (HELLO + control(FrameType.WELCOME, {}), "E_FRAME_UNEXPECTED"),
    "a delivery": (HELLO + encode_frame(FrameType.DELIVER, bytes(60)), "E_CODEC_VERSION"),
    "another version": (control(FrameType.HELLO, {"version": 9}), "E_VERSION"),
    "a field of another type": (control(FrameType.HELLO, {"version": "1"}), "E_FRAME_FIELD"),
    "a client id that is too long": (control(FrameType.HELLO, {"version": 1, "client": "x" * 300}), "E_FRAME_FIELD"),
    "no fields": (encode_frame(FrameType.HELLO, b""), "E_CODEC_TRUNCATED"),
    "too many fields": (encode_frame(FrameType.HELLO, b"\xff\xff\x03"), "E_FRAME_FIELDS"),
    "a name that is not UTF-8": (encode_frame(FrameType.HELLO, b"\x01\x02\xff\xfe\x01"), "E_CODEC_UTF8"),
    "a message that is not one": (HELLO + encode_frame(FrameType.PUBLISH, bytes(100)), "E_CODEC_VERSION"),
    "a message cut short": (HELLO + encode_frame(FrameType.PUBLISH, b"\0\0"), "E_CODEC_TRUNCATED"),
    "a destination that is not UTF-8": (HELLO + publish(destination="tt").replace(b"tt", b"\xff\xfe"), "E_CODEC_UTF8"),
    "an acknowledgement cut short": (HELLO + encode_frame(FrameType.ACK, b"\1"), "E_CODEC_TRUNCATED"),
    "an acknowledgement that lies": (HELLO + encode_frame(FrameType.ACK, b"\0" * 5 + b"\xff" * 4), "E_FRAME_ACK"),
    "an acknowledgement with an unknown flag": (HELLO + encode_ack(1, [1], 64), "E_FRAME_ACK"),
    "credit cut short": (HELLO + encode_frame(FrameType.CREDIT, b"\1"), "E_FRAME_CREDIT"),
}


@pytest.mark.parametrize(("data", "code"), BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("chunk", [1, 1 << 16])
def test_bad_input_costs_one_connection(data: bytes, code: str, chunk: int) -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as other:
            ticks = await other.subscribe("t")
            raw = await RawConnection.open(url)
            for start in range(0, len(data), chunk):
                await raw.send(data[start : start + chunk])
                await asyncio.sleep(0)
            error = await raw.error()
            assert error["code"] == code
            assert error["fatal"] is True
            await other.publish("t", {"x": 1}, wait=True)
            got = await ticks.receive(30)
            assert got is not None
            assert got.properties == {"x": 1}
            await until(lambda: len(broker.clients.connections) == 1)

    run(scenario())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_random_bytes_from_many_sides() -> None:
    async def scenario() -> None:
        rng = random.Random(7)
        async with local_broker() as (broker, url), tidings.connect(url) as other:
            good = (
                HELLO + control(FrameType.SUBSCRIBE, {"receipt": 1, "subscription": 1, "destination": "t"}) + publish()
            )
            for _ in range(60):
                raw = await RawConnection.open(url)
                data = bytearray(good)
                for _ in range(rng.randint(1, 6)):
                    data[rng.randrange(len(data))] = rng.randrange(256)
                await raw.send(bytes(data[: rng.randint(1, len(data))]))
                raw.writer.close()
            await until(lambda: len(broker.clients.connections) == 1)
            ticks = await other.subscribe("t")
            await other.publish("t", wait=True)
            assert await ticks.receive(30) is not None
            assert broker.forwarder.held_bytes() == 0

    run(scenario())


def test_who_does_not_log_in_is_shown_out() -> None:
    async def scenario() -> None:
        async with local_broker(limits=BrokerLimits(login_seconds=0.2)) as (_, url):
            silent, slow = await RawConnection.open(url), await RawConnection.open(url)

            async def drip() -> None:
                for byte in HELLO[:-1]:
                    slow.writer.write(bytes((byte,)))
                    await asyncio.sleep(0.2)

            dripping = asyncio.create_task(drip())
            assert (await silent.error())["code"] == "E_LOGIN_TIMEOUT"
            assert (await slow.error())["code"] == "E_LOGIN_TIMEOUT"
            dripping.cancel()

    run(scenario())


def test_memory_of_frames_that_are_not_all_there_is_bounded() -> None:
    """Whose frames are small is not disturbed, and one large frame alone may be larger than the bound."""

    async def scenario() -> None:
        limits = BrokerLimits(memory_bytes_max=1 << 20, frame_bytes_max=1 << 20)
        async with local_broker(limits=limits) as (broker, url), tidings.connect(url) as other:
            half = (900_000).to_bytes(4, "little") + b"\x10\0\0\0" + bytes(100_000)
            slow = [await RawConnection.open(url) for _ in range(20)]
            for one in slow:
                await one.greet()
                one.writer.write(half)
            for one in slow[5:]:
                assert (await one.error())["code"] == "E_FRAME_MEMORY"
            assert broker.forwarder.held_bytes() <= (1 << 20) // 2 + (64 << 10)
            await other.publish("t", wait=True)
            for one in slow:
                one.writer.close()
            while len(broker.clients.connections) > 1:
                await asyncio.sleep(0.01)
            await other.publish("t", body=bytes(900_000), wait=True)

    run(scenario())


def test_memory_of_strangers_is_bounded() -> None:
    async def scenario() -> None:
        limits = BrokerLimits(memory_bytes_max=1 << 20)
        async with local_broker(limits=limits) as (broker, url), tidings.connect(url) as other:
            half = (60_000).to_bytes(4, "little") + b"\x01\0\0\0" + bytes(50_000)
            strangers = [await RawConnection.open(url) for _ in range(20)]
            for stranger in strangers:
                stranger.writer.write(half)
            assert (await strangers[-1].error())["code"] == "E_LOGIN_MEMORY"
            assert broker.forwarder.held_bytes() <= (1 << 20) // 8 + (64 << 10)
            await other.publish("t", wait=True)
            for stranger in strangers:
                stranger.writer.close()

    run(scenario())


def test_requests_that_make_no_sense_are_answered_and_the_connection_goes_on() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            for destination, options, code in (
                ("a..b", {}, "E_DESTINATION_EMPTY"),
                ("t", {"selector": "price >"}, "E_SELECTOR_SYNTAX"),
                ("t", {"ack": "never"}, "E_FRAME_FIELD"),
                ("t", {"policy": "panic"}, "E_FRAME_FIELD"),
                ("queue:*", {}, "E_QUEUE_WILDCARD"),
                ("queue:q", {"durable": "d"}, "E_QUEUE_DURABLE"),
                ("t", {"durable": "x" * 300}, "E_SUBSCRIBE_NAME"),
            ):
                with pytest.raises(tidings.TidingsError) as caught:
                    await client.subscribe(destination, **options)  # type: ignore[arg-type]
                assert caught.value.code == code
                assert code != "E_FRAME_FIELD" or " must be one of " in caught.value.reason
            with pytest.raises(tidings.TidingsError):
                await client.forget("nothing")
            assert client.generation == 1

    run(scenario())


def test_many_requests_at_once_let_others_have_their_turn() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url):
            many, other = await RawConnection.open(url), await RawConnection.open(url)
            await many.greet()
            await other.greet()
            wanted: dict[str, Value] = {"destination": "t", "selector": "a = 1"}
            asked = [
                control(FrameType.SUBSCRIBE, {"receipt": number, "subscription": number, **wanted})
                for number in range(1, 301)
            ]
            many.writer.write(b"".join(asked))
            other.writer.write(publish(receipt=1))
            assert (await other.frame()).type == FrameType.RECEIPTS
            made = max(len(client.subscriptions) for client in broker.engine.node.connections.values())
            assert 0 < made < len(asked) / 2, "they are not made all in one go"
            for _ in asked:
                assert (await many.frame()).type == FrameType.OK
            many.writer.close()
            other.writer.close()

    run(scenario())


def test_answers_nobody_reads_do_not_fill_the_memory() -> None:
    async def scenario() -> None:
        limits = BrokerLimits(output_bytes_max=1 << 16)
        async with local_broker(limits=limits) as (broker, url):
            raw = await RawConnection.open(url, receive_bytes=4096)
            await raw.greet()
            wrong = control(FrameType.SUBSCRIBE, {"receipt": 1, "destination": "." * 200}) * 1000
            sent = 0
            (connection,) = broker.clients.connections.values()
            while connection.writable:
                if not raw.writer.transport.get_write_buffer_size():  # or it writes faster than a busy broker reads
                    raw.writer.write(wrong)
                    sent += 1000
                await asyncio.sleep(0)
            sending = asyncio.create_task(raw.send(wrong * 3))
            for _ in range(100):
                await asyncio.sleep(0.002)
                assert broker.forwarder.held_bytes() < 1 << 20
            for _ in range(sent + 3_000):  # it reads: all goes on
                assert (await raw.frame()).type == FrameType.ERROR
            await sending
            raw.writer.close()

    run(scenario())


def test_one_that_never_reads_beside_ten_that_do() -> None:
    async def scenario() -> None:
        limits = BrokerLimits(memory_bytes_max=16 << 20, output_bytes_max=1 << 18, stall_ms=2000)
        settings = NodeSettings(sink_bytes_max=1 << 20)
        async with local_broker(limits=limits, settings=settings) as (broker, url):
            never = await RawConnection.open(url)
            await never.greet()
            await never.send(control(FrameType.SUBSCRIBE, {"receipt": 1, "subscription": 1, "destination": "t"}))
            await never.frame()
            readers = [await tidings.connect(url) for _ in range(10)]
            ticks = [await reader.subscribe("t", window=100_000) for reader in readers]
            async with tidings.connect(url) as publisher:
                held = 0
                for i in range(20_000):
                    await publisher.publish("t", {"n": i}, BODY)
                    if i % 500 == 0:
                        held = max(held, broker.forwarder.held_bytes())
                await publisher.publish("t", {"n": -1}, wait=True)
            for tick in ticks:
                assert [(await tick.receive(10)).properties["n"] for _ in range(20_000)] == list(range(20_000))
            assert held <= 16 << 20
            assert broker.forwarder.stats()["dropped_stalled"] > 0
            never.writer.close()
            for reader in readers:
                await reader.close()

    run(scenario())


def test_a_pushed_back_publisher_goes_on_after_a_control_frame() -> None:
    async def scenario() -> None:
        limits = BrokerLimits(output_bytes_max=1 << 14, stall_ms=60_000)
        async with local_broker(limits=limits, settings=NodeSettings(sink_bytes_max=1 << 14)) as (broker, url):
            slow, fast = await RawConnection.open(url), await RawConnection.open(url)
            await slow.greet()
            await fast.greet()
            fields: dict[str, Value] = {"receipt": 1, "subscription": 1, "destination": "t", "credit": 10}
            await slow.send(control(FrameType.SUBSCRIBE, fields))
            await slow.frame()
            mixed = (publish(BODY) * 3 + encode_frame(FrameType.PING, b"")) * 50 + publish(BODY, receipt=9)
            sending = asyncio.create_task(fast.send(mixed))
            await until(lambda: broker.forwarder.stats()["pushed_back"] > 0)
            got = 0
            while got < 151:
                got += (await slow.frame()).type == FrameType.DELIVER
                if got % 5 == 0:
                    await slow.send(encode_credit(1, 5))
            await sending
            assert got == 151
            while (await fast.frame()).type != FrameType.RECEIPTS:
                pass
            for raw in (slow, fast):
                raw.writer.close()

    run(scenario())


def test_what_a_publisher_said_before_it_left_counts() -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as consumer:
            orders = await consumer.subscribe("queue:orders")
            raw = await RawConnection.open(url)
            await raw.greet()
            message = encode_message(Message(Destination("orders", True), {}, b"x"))
            await raw.send(encode_frame(FrameType.PUBLISH, bytes(4) + message) * 100)
            raw.writer.close()
            for _ in range(100):
                assert await orders.receive(30) is not None

    run(scenario())


def test_a_farewell_closes_at_once_and_a_shutdown_says_why() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url):
            raw = await RawConnection.open(url)
            await raw.greet()
            await raw.send(control(FrameType.CLOSE, {}))
            assert await raw.reader.read(100) == b""
            raw.writer.close()
            await until(lambda: not broker.clients.connections)
            last = await RawConnection.open(url)
            await last.greet()
            stopping = asyncio.create_task(broker.stop())
            frame = await last.frame()
            assert frame.type == FrameType.CLOSE
            assert decode_fields(frame.payload)["code"] == "E_SHUTDOWN"
            last.writer.close()
            await stopping

    run(scenario())


def test_too_many_connections_are_told_so() -> None:
    async def scenario() -> None:
        async with local_broker(limits=BrokerLimits(connections_max=1)) as (_, url), tidings.connect(url):
            raw = await RawConnection.open(url)
            assert (await raw.error())["code"] == "E_CONNECTIONS"

    run(scenario())


def test_silence_is_noticed() -> None:
    async def scenario() -> None:
        async with local_broker(limits=BrokerLimits(heartbeat_ms=300)) as (broker, url):
            raw = await RawConnection.open(url)
            assert (await raw.greet())["heartbeat_ms"] == 300
            async with tidings.connect(url) as alive:
                await until(lambda: len(broker.clients.connections) == 1)
                await alive.publish("t", wait=True)
                assert alive.generation == 1
            raw.writer.close()

    run(scenario())


def test_tcp_notices_clients_without_heartbeats_whose_host_is_gone() -> None:
    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url):
            (connection,) = broker.clients.connections.values()
            plain = connection._socket
            assert plain is not None
            assert plain.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            for name, value in KEEP_ALIVE.items():
                assert plain.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value

    run(scenario())


def test_who_is_in_the_middle_of_a_long_message_hears_from_the_broker() -> None:
    """Its pings have to wait behind the message: without a sign of life it would take the broker for dead."""

    async def scenario() -> None:
        async with local_broker(limits=BrokerLimits(heartbeat_ms=300)) as (_, url):
            raw = await RawConnection.open(url)
            await raw.greet()
            await raw.send((1 << 20).to_bytes(4, "little") + bytes((FrameType.PUBLISH, 0, 0, 0)))
            heard = asyncio.create_task(raw.frame())
            while not heard.done():
                await raw.send(b"\0")
                await asyncio.wait([heard], timeout=0.02)
            assert heard.result().type == FrameType.PING
            raw.writer.close()

    run(asyncio.wait_for(scenario(), 60))


def test_an_error_of_the_broker_costs_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault for this test")

    async def scenario() -> None:
        async with local_broker() as (broker, url), tidings.connect(url) as other:
            monkeypatch.setattr(broker.engine.node, "asked", fail)
            raw = await RawConnection.open(url)
            await raw.greet()
            await raw.send(control(FrameType.SUBSCRIBE, {"receipt": 1, "subscription": 1, "destination": "t"}))
            assert (await raw.error())["code"] == "E_INTERNAL"
            await other.publish("t", wait=True)

    run(scenario())
