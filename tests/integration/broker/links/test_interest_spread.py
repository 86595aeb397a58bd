"""wait="network" on real links, in every protocol: after the answer what is published at any broker arrives."""

import asyncio
from functools import partial
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from hardening.support.amqp_client import Client, source
from hardening.support.links import BrokerNetwork, eventually
from hardening.support.stomp import RawStomp
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import tidings
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.errors import RemoteError, UsageError
from tidings.protocols.amqp.session import AmqpSession
from tidings.protocols.amqp.wire.types import symbol
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.session import MqttNativeSession, MqttSession
from tidings.protocols.native.session import NativeSession
from tidings.protocols.stomp.session import StompSession
from tidings.testing.local_broker import local_broker, run

LINE = [(1, 2), (2, 3)]
ROUNDS = 10


async def publish_at(network: BrokerNetwork, topic: str) -> None:
    async with tidings.connect(network.url(1)) as publisher:
        await publisher.publish(topic, {"n": 1}, wait=True)


@pytest.mark.parametrize("scheme", ["bdrp", "flooding"])
def test_a_native_subscriber_gets_what_is_published_far_away_right_after(tmp_path: Path, scheme: str) -> None:
    async def scenario() -> None:
        async with BrokerNetwork(tmp_path, LINE, scheme=scheme) as network:
            await eventually(network.known)
            async with tidings.connect(network.url(1)) as publisher, tidings.connect(network.url(3)) as client:
                for number in range(ROUNDS):
                    durable = "" if number % 2 else f"d{number}"
                    ticks = await client.subscribe(f"ticks.{number}", durable=durable, wait="network")
                    await publisher.publish(f"ticks.{number}", {"n": number}, wait=True)
                    delivery = await ticks.receive(20)
                    assert delivery is not None
                    assert delivery.properties["n"] == number

    run(scenario())


def test_what_cannot_be_confirmed_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            assert await client.subscribe("ticks", wait="network")  # it is the whole network
        network = BrokerNetwork(tmp_path, LINE, scheme="covering")
        async with network, tidings.connect(network.url(1)) as client:
            with pytest.raises(RemoteError, match="E_WAIT_NETWORK"):
                await client.subscribe("ticks", wait="network")
            with pytest.raises(UsageError, match="E_SUBSCRIBE_WAIT"):
                await client.subscribe("ticks", wait="everywhere")
            assert await client.subscribe("ticks", wait="broker")

    run(scenario())


def test_stomp_amqp_and_mqtt_wait_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with BrokerNetwork(tmp_path, LINE) as network:
            await eventually(network.known)
            broker = network.brokers[3]
            stomp = await broker.listen(ListenerSettings(StompSession, port=0))
            amqp = await broker.listen(
                ListenerSettings(NativeSession, port=0, make_gateway=AmqpSession, protocol="amqp")
            )
            mqtt = await broker.listen(
                ListenerSettings(
                    MqttNativeSession, port=0, make_gateway=partial(MqttSession, MqttClients()), protocol="mqtt"
                )
            )
            raw = await RawStomp.open(stomp)
            await raw.connect()
            await raw.send("SUBSCRIBE", {"destination": "/topic/s", "id": "1", "wait": "network", "receipt": "r"})
            assert (await raw.expect("RECEIPT")).headers["receipt-id"] == "r"
            await publish_at(network, "s")
            assert (await raw.expect("MESSAGE")).headers["destination"] == "/topic/s"
            await raw.send("SUBSCRIBE", {"destination": "/topic/s", "id": "2", "wait": "nobody"})
            assert "wait must be" in (await raw.error()).headers["message"]
            await asyncio.to_thread(_amqp, network, amqp, asyncio.get_running_loop())
            await asyncio.to_thread(_mqtt, network, mqtt, asyncio.get_running_loop())

    run(scenario())


def _amqp(network: BrokerNetwork, port: int, loop: asyncio.AbstractEventLoop) -> None:
    client = Client(port)
    client.receive(0, source("topic://a", capabilities=[symbol("wait-network")]), credit=5)
    asyncio.run_coroutine_threadsafe(publish_at(network, "a"), loop).result(20)
    assert client.take()[0] == 0
    client.close()


def _mqtt(network: BrokerNetwork, port: int, loop: asyncio.AbstractEventLoop) -> None:
    """Two times: a filter that is subscribed to again brings the same messages, and waits nevertheless."""
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    granted, messages = list[int](), list[bytes | bytearray]()
    client.on_subscribe = lambda _, __, ___, codes, ____: granted.append(codes[0].value)
    client.on_message = lambda _, __, message: messages.append(message.payload)
    client.connect("127.0.0.1", port)
    wait = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
    wait.UserProperty = [("wait", "network")]
    for count in (1, 2):
        client.subscribe("m", 1, properties=wait)
        while len(granted) < count:
            assert client.loop(1.0) == paho.MQTT_ERR_SUCCESS
        asyncio.run_coroutine_threadsafe(publish_at(network, "m"), loop).result(20)
        while len(messages) < count:
            assert client.loop(1.0) == paho.MQTT_ERR_SUCCESS
    assert granted == [1, 1]
    client.disconnect()
