"""Events of types published and received over STOMP and AMQP, and what is refused there (docs/hermes.md)."""

from typing import Any
from uuid import uuid4

import proton
import pytest
from hardening.support.stomp import RawStomp
from proton.utils import BlockingConnection, SendException

from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.client import connect, sync
from tidings.errors import TidingsError
from tidings.protocols.stomp.session import StompSession
from tidings.testing.local_broker import BrokerThread, local_broker, run

SECONDS = 30
TOPIC = "@type.Trade.Sale.event"


def test_stomp_publishes_and_receives_events() -> None:
    async def check() -> None:
        async with local_broker() as (broker, url), connect(url) as client:
            await client.add_type("Trade", {"price": "float"})
            await client.add_type("Sale", {"buyer": "string", "n": "int"}, parent="Trade")
            sales = await client.subscribe(type="Trade", selector="price > 20")
            port = await broker.listen(ListenerSettings(StompSession, port=0))
            raw, reader = await RawStomp.open(port), await RawStomp.open(port)
            await raw.connect()
            await reader.connect()
            await reader.subscribe("/topic/@type.Trade.>", selector="buyer = 'me'")
            head = {"destination": f"/topic/{TOPIC}", "type": "Sale", "buyer": "me"}
            for n in range(20):  # the first ones wait until the type is advertised, in order
                await raw.send("SEND", {**head, "price": "30.5", "n": str(n)})
            for n in range(20):
                delivery = await sales.receive(SECONDS)
                assert delivery is not None
                assert (delivery.message.type, int(str(delivery.properties["n"]))) == ("Sale", n)
                frame = await reader.expect("MESSAGE")
                assert (frame.headers["type"], frame.headers["n"]) == ("Sale", str(n))
            with pytest.raises(TidingsError, match="E_TYPE_IN_USE"):
                await client.remove_type("Sale")
            await raw.send("SEND", {**head, "price": "high", "n": "1", "receipt": "r"})
            error = await raw.error()
            assert "E_EVENT_WRONG_TYPE" in error.headers["message"] + error.body.decode()
            await reader.leave()

    run(check())


def test_stomp_is_refused_events_of_unknown_types() -> None:
    async def check() -> None:
        async with local_broker() as (broker, _):
            raw = await RawStomp.open(await broker.listen(ListenerSettings(StompSession, port=0)))
            await raw.connect()
            await raw.send("SEND", {"destination": "/topic/@type.Nothing.event", "type": "Nothing", "receipt": "r"})
            error = await raw.error()
            assert "E_TYPE_UNKNOWN" in error.headers["message"] + error.body.decode()

    run(check())


def test_amqp_publishes_and_receives_events(broker: BrokerThread) -> None:
    name = f"T{uuid4().hex}"
    connection: Any = BlockingConnection(broker.amqp, timeout=SECONDS)
    with sync.connect(broker.url) as client:
        client.add_type(name, {"price": "float"})
        address = f"topic://@type.{name}.event"
        receiver = connection.create_receiver(address, credit=2)
        subscription = client.subscribe(type=name)
        sender = connection.create_sender(address)
        sender.send(proton.Message(properties={"price": 1.5}, subject=name, durable=True))
        native = subscription.receive(SECONDS)
        assert native is not None
        assert (native.message.type, dict(native.properties)) == (name, {"price": 1.5})
        assert receiver.receive(timeout=SECONDS).subject == name
        receiver.accept()
        for wrong in (
            proton.Message(properties={"price": "high"}, subject=name, durable=True),
            proton.Message(properties={"price": 1.5}, durable=True),
        ):
            with pytest.raises(SendException):
                sender.send(wrong)
    connection.close()
