"""A W3C traceparent goes with a message through every protocol, and its trace id finds the message."""

import json
import urllib.request
from queue import SimpleQueue
from typing import Any

import paho.mqtt.client as mqtt
import pytest
import stomp
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from proton import Message
from proton.reactor import AtLeastOnce
from proton.utils import BlockingConnection

from tidings.client import sync
from tidings.testing.local_broker import BrokerThread
from tidings.tracking.recording.recorder import TrackingSettings

SECONDS = 60
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def by_stomp(broker: BrokerThread) -> None:
    connection = stomp.Connection12([("127.0.0.1", broker.stomp_port)])
    connection.connect(wait=True)
    connection.send("/topic/a.b", "hello", headers={"traceparent": PARENT, "receipt": "1"})
    connection.disconnect()


def by_amqp(broker: BrokerThread) -> None:
    connection: Any = BlockingConnection(broker.amqp, timeout=SECONDS)
    sender = connection.create_sender("topic://a.b", options=AtLeastOnce())
    sender.send(Message("hello", properties={"traceparent": PARENT}))
    connection.close()


def by_mqtt(broker: BrokerThread) -> None:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.connect("127.0.0.1", broker.mqtt_port)
    client.loop_start()
    properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = ("traceparent", PARENT)
    client.publish("a/b", "hello", qos=1, properties=properties).wait_for_publish(SECONDS)
    client.disconnect()
    client.loop_stop()


def by_http(broker: BrokerThread) -> None:
    body = json.dumps({"destination": "a.b", "body": "hello"}).encode()
    headers = {"Content-Type": "application/json", "traceparent": PARENT}
    request = urllib.request.Request(f"http://127.0.0.1:{broker.http_port}/messages", body, headers)
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        assert answer.status == 200


def natively(broker: BrokerThread) -> None:
    with sync.connect(broker.url) as client:
        client.publish("a.b", {"traceparent": PARENT}, wait=True)


def as_an_event(broker: BrokerThread) -> None:
    with sync.connect(broker.url) as client:
        client.add_type("Trade", {"price": "float"})
        client.advertise_type("Trade")
        client.publish_event("Trade", {"price": 1.5, "traceparent": PARENT}, wait=True)


@pytest.mark.parametrize("publish", [by_stomp, by_amqp, by_mqtt, by_http, natively, as_an_event])
def test_a_trace_id_finds_what_any_protocol_published(publish: Any) -> None:
    settings = TrackingSettings(persist_ms=100, keys=("traceparent",))
    with BrokerThread(tracking=settings) as broker, sync.connect(broker.url, client_id="me") as client:
        plain = [client.subscribe("a.>"), client.subscribe("@type.>")]
        publish(broker)
        found = client.find_messages("traceparent", TRACE).messages
        assert len(found) == 1
        message = plain[publish is as_an_event].receive(SECONDS)
        assert message is not None
        assert (message.message_id, message.properties["traceparent"]) == (found[0], PARENT)


def test_a_traceparent_leaves_by_the_other_protocols() -> None:
    with BrokerThread() as broker, sync.connect(broker.url) as client:
        got: SimpleQueue[str] = SimpleQueue()

        class Listener(stomp.ConnectionListener):  # type: ignore[misc]
            def on_message(self, frame: Any) -> None:
                got.put(frame.headers["traceparent"])

        web = stomp.Connection12([("127.0.0.1", broker.stomp_port)])
        web.set_listener("", Listener())
        web.connect(wait=True)
        web.subscribe("/queue/jobs", id="1")
        client.publish("queue:jobs", {"traceparent": PARENT}, wait=True)
        client.publish("queue:proton", {"traceparent": PARENT}, wait=True)
        proton: Any = BlockingConnection(broker.amqp, timeout=SECONDS)
        message = proton.create_receiver("queue://proton").receive(SECONDS)
        assert message.properties["traceparent"] == PARENT
        proton.close()
        assert got.get(timeout=SECONDS) == PARENT
        web.disconnect()
