"""MQTT with the client library paho-mqtt, in both versions of the protocol."""

import queue
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tidings.client import sync
from tidings.testing.local_broker import BrokerThread

SECONDS = 30
V4, V5 = MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5


class Client:
    """A connected paho client that collects what it gets."""

    def __init__(self, broker: BrokerThread, version: MQTTProtocolVersion, id: str = "", **connect: Any) -> None:
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.granted: queue.Queue[list[int]] = queue.Queue()
        self.codes: queue.Queue[int] = queue.Queue()
        self.ended: queue.Queue[int] = queue.Queue()
        self.connack: Any = None
        self.present: bool | None = None
        self.published: queue.Queue[tuple[int, int]] = queue.Queue()
        self.raw = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=id,
            protocol=version,
            reconnect_on_failure=False,
            **self._clean(version, connect),
        )
        will = connect.pop("will", None)
        if will is not None:
            self.raw.will_set(**will)
        self.raw.max_inflight_messages_set(1000)
        self.raw.on_message = lambda _, __, message: self.messages.put(message)
        self.raw.on_subscribe = lambda _, __, ___, codes, ____: self.granted.put([one.value for one in codes])
        self.raw.on_disconnect = lambda _, __, ___, code, ____: self.ended.put(code.value)
        self.raw.on_publish = lambda _, __, mid, code, ___: self.published.put((mid, code.value))
        self.raw.on_connect = self._connected
        self.raw.connect("127.0.0.1", broker.mqtt_port, **connect)
        self.raw.loop_start()
        self.code = self.codes.get(timeout=SECONDS)

    @staticmethod
    def _clean(version: MQTTProtocolVersion, connect: dict[str, Any]) -> dict[str, Any]:
        """Where paho wants to know: in 3.1.1 for the client, in 5.0 for the connection."""
        clean = connect.pop("clean", True)
        if version == V5:
            connect.setdefault("clean_start", clean)
            return {}
        return {"clean_session": clean}

    def _connected(self, _: object, __: object, flags: Any, code: Any, properties: Properties | None) -> None:
        self.connack, self.present = properties, flags.session_present
        self.codes.put(code.value)

    def subscribe(self, *arguments: Any, **options: Any) -> list[int]:
        self.raw.subscribe(*arguments, **options)
        return self.granted.get(timeout=SECONDS)

    def publish(self, topic: str, payload: bytes, qos: int = 0, **options: Any) -> None:
        self.raw.publish(topic, payload, qos, **options).wait_for_publish(SECONDS)

    def message(self) -> Any:
        return self.messages.get(timeout=SECONDS)

    def close(self) -> None:
        self.raw.disconnect()
        self.raw.loop_stop()


Connect = Callable[..., Client]


@pytest.fixture
def connect(broker: BrokerThread) -> Iterator[Connect]:
    opened: list[Client] = []

    def make(version: MQTTProtocolVersion = V5, id: str = "", **options: Any) -> Client:
        opened.append(Client(broker, version, id, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def properties(packet: int, **values: Any) -> Properties:
    made = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize("version", [V4, V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_arrive_once_and_in_order(connect: Connect, version: MQTTProtocolVersion, qos: int) -> None:
    reader, writer = connect(version), connect(version)
    topic = f"order/{version}/{qos}"
    assert reader.subscribe(f"{topic}/#", qos) == [qos]
    for number in range(300):
        writer.raw.publish(f"{topic}/a" if number % 2 else topic, b"%d" % number, qos)
    got = [reader.message() for _ in range(300)]
    assert [int(one.payload) for one in got if one.topic == topic] == list(range(0, 300, 2))
    assert [int(one.payload) for one in got if one.topic != topic] == list(range(1, 300, 2))
    assert {one.qos for one in got} == {qos}
    writer.publish(topic, b"last", qos)
    assert reader.message().payload == b"last"
    assert reader.messages.empty()


def test_the_lower_qos_of_publication_and_subscription_counts(connect: Connect) -> None:
    reader, writer = connect(), connect()
    assert reader.subscribe([("low", 1), ("high", 2)]) == [1, 2]
    for topic, sent, got in (("low", 2, 1), ("high", 1, 1), ("high", 0, 0), ("high", 2, 2)):
        writer.publish(topic, b"", sent)
        assert reader.message().qos == got


@pytest.mark.parametrize("topic", ["/a", "a//b", "a/", "~/a.b/*>", "ä/Ω 1"])
def test_any_topic_name_arrives_as_it_was(connect: Connect, topic: str) -> None:
    client = connect(V4)
    client.subscribe(topic, 1)
    client.publish(topic, b"x", 1)
    assert client.message().topic == topic


def test_filters_choose_by_content(connect: Connect) -> None:
    reader, writer = connect(), connect()
    selector = properties(PacketTypes.SUBSCRIBE, UserProperty=[("selector", "price > 20 AND region = 'EU'")])
    assert reader.subscribe("content/+", 1, properties=selector) == [1]
    assert reader.subscribe("content/x?price>100&region=US", 0) == [0]
    for price, region in ((10, "EU"), (30, "EU"), (30, "US"), (300, "US")):
        pairs = [("price", str(price)), ("region", region)]
        writer.publish("content/x", b"%d" % price, 1, properties=properties(PacketTypes.PUBLISH, UserProperty=pairs))
    assert [reader.message().payload for _ in range(2)] == [b"30", b"300"]
    wrong = properties(PacketTypes.SUBSCRIBE, UserProperty=[("selector", "price >")])
    assert reader.subscribe("content/#", 1, properties=wrong) == [0x8F]
    assert reader.subscribe("content/x?price", 1) == [0x8F]


def test_all_properties_of_a_message_arrive(connect: Connect) -> None:
    reader, writer = connect(), connect()
    reader.subscribe("whole", 2)
    pairs = [("b", "2"), ("a", "1"), ("b", "3"), ("", "empty"), ("JMSType", "trade"), ("JMSPriority", "7")]
    sent = properties(
        PacketTypes.PUBLISH,
        UserProperty=pairs,
        PayloadFormatIndicator=1,
        ContentType="text/plain",
        ResponseTopic="answers/here",
        CorrelationData=b"\xff\x00",
        MessageExpiryInterval=100,
    )
    writer.publish("whole", "ä".encode(), 2, properties=sent)
    got = reader.message()
    assert got.properties.UserProperty == pairs
    assert (got.properties.PayloadFormatIndicator, got.properties.ContentType) == (1, "text/plain")
    assert (got.properties.ResponseTopic, got.properties.CorrelationData) == ("answers/here", b"\xff\x00")
    assert 90 <= got.properties.MessageExpiryInterval <= 100


def test_subscription_options_of_5_0(connect: Connect) -> None:
    client, other = connect(), connect()
    options = SubscribeOptions(qos=1, noLocal=True)
    identifier = properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=7)
    assert client.subscribe("local", options=options, properties=identifier) == [1]
    client.publish("local", b"own", 1)
    other.publish("local", b"other", 1)
    got = client.message()
    assert got.payload == b"other"
    assert got.properties.SubscriptionIdentifier == [7]
    assert client.messages.empty()


def test_a_shared_subscription_divides_its_messages(connect: Connect) -> None:
    readers = [connect() for _ in range(2)]
    for one in readers:
        assert one.subscribe("$share/group/jobs/+", 1) == [1]
    writer = connect()
    for number in range(100):
        writer.raw.publish("jobs/a", b"%d" % number, 1)
    got: list[int] = []
    while len(got) < 100:
        for one in readers:
            while not one.messages.empty():
                got.append(int(one.message().payload))
    assert sorted(got) == list(range(100))
    assert all(one.messages.empty() for one in readers)


def test_unsubscribing_ends_it(connect: Connect) -> None:
    client = connect()
    done = threading.Event()
    client.raw.on_unsubscribe = lambda *_: done.set()
    client.subscribe("end/#", 1)
    client.raw.unsubscribe("end/#")
    assert done.wait(SECONDS)
    client.subscribe("end/mark", 1)
    client.publish("end/a", b"", 1)
    client.publish("end/mark", b"m", 1)
    assert client.message().payload == b"m"


def test_the_same_client_id_takes_over(connect: Connect) -> None:
    first = connect(V5, "twin")
    second = connect(V5, "twin")
    assert first.ended.get(timeout=SECONDS) == 0x8E
    second.subscribe("twin", 1)
    second.publish("twin", b"x", 1)
    assert second.message().payload == b"x"


@pytest.mark.parametrize("qos", [0, 1])
def test_a_will_is_published_when_the_connection_breaks(connect: Connect, qos: int) -> None:
    reader = connect()
    reader.subscribe(f"wills/{qos}", 1)
    gone = connect(V4, will={"topic": f"wills/{qos}", "payload": b"gone", "qos": qos})
    quiet = connect(V4, will={"topic": f"wills/{qos}", "payload": b"never", "qos": qos})
    quiet.close()
    raw = gone.raw.socket()
    assert isinstance(raw, socket.socket)
    raw.shutdown(socket.SHUT_RDWR)
    assert (reader.message().payload, reader.messages.empty()) == (b"gone", True)


def test_connack_says_what_there_is(connect: Connect) -> None:
    asked = properties(PacketTypes.CONNECT, SessionExpiryInterval=60, RequestResponseInformation=1)
    client = connect(V5, "", clean_start=True, properties=asked)
    told = client.connack
    assert told.AssignedClientIdentifier.startswith("auto-")
    assert not hasattr(told, "RetainAvailable")  # it is
    assert not hasattr(told, "SessionExpiryInterval")  # as asked for
    assert told.ResponseInformation.startswith("reply/")


def test_what_is_not_offered_is_refused(connect: Connect, broker: BrokerThread) -> None:
    other = connect()
    assert other.subscribe("$SYS/#") == [0x87]
    number = other.raw.publish("$SYS/x", b"", 1).mid
    assert other.published.get(timeout=SECONDS) == (number, 0x90)


@pytest.mark.parametrize("version", [V4, V5])
def test_a_session_waits_for_its_client(connect: Connect, version: MQTTProtocolVersion) -> None:
    name = f"stays-{version}"
    options: dict[str, Any] = {"clean": False}
    if version == V5:
        options["properties"] = properties(PacketTypes.CONNECT, SessionExpiryInterval=60)
    first, writer = connect(version, name, **options), connect()
    assert first.present is False
    first.subscribe(f"{name}/#", 2)
    first.close()
    for qos in (1, 2):
        writer.publish(f"{name}/x", b"%d" % qos, qos)
    again = connect(version, name, **options)
    assert again.present is True
    assert [again.message().payload for _ in range(2)] == [b"1", b"2"]


def test_retained_messages(connect: Connect) -> None:
    writer = connect()
    for topic in ("kept/a", "kept/b", "kept/c"):
        writer.publish(topic, topic.encode(), 1, retain=True)
    writer.publish("kept/b", b"", 1, retain=True)
    reader = connect(V4)
    reader.subscribe("kept/+", 1)
    got = [reader.message() for _ in range(2)]
    assert {(one.topic, one.payload, one.retain) for one in got} == {
        ("kept/a", b"kept/a", True),
        ("kept/c", b"kept/c", True),
    }


def test_retained_messages_of_other_protocols(connect: Connect, broker: BrokerThread) -> None:
    with sync.connect(broker.url) as native:
        native.publish("crossed.a", {"JMSXRetain": True}, b"last", persistent=True)
    reader = connect()
    reader.subscribe("crossed/#", 1)
    assert reader.message().payload == b"last"


def test_flow_control_in_both_directions(connect: Connect) -> None:
    limit = properties(PacketTypes.CONNECT, ReceiveMaximum=2)
    reader, writer = connect(V5, properties=limit), connect()
    reader.subscribe("flow", 2)
    for number in range(500):
        writer.raw.publish("flow", b"%d" % number, 2)
    assert [int(reader.message().payload) for _ in range(500)] == list(range(500))


def test_topic_aliases_and_packets_that_are_too_large(connect: Connect) -> None:
    limit = properties(PacketTypes.CONNECT, TopicAliasMaximum=2, MaximumPacketSize=200)
    reader, writer = connect(V5, properties=limit), connect()
    reader.subscribe("alias/#", 1)
    alias = properties(PacketTypes.PUBLISH, TopicAlias=3)
    writer.publish("alias/in", b"1", 1, properties=alias)
    writer.publish("", b"2", 1, properties=alias)
    writer.publish("alias/large", bytes(300), 1)
    for number in range(3, 8):
        writer.publish(f"alias/{number % 4}", b"%d" % number, 1)
    got = [reader.message() for _ in range(7)]
    # paho leaves topic aliases of incoming messages to its user: an empty topic is one seen before.
    assert [one.payload for one in got] == [b"%d" % number for number in range(1, 8)]
    assert [one.topic for one in got] == ["alias/in", "", "alias/3", "alias/0", "alias/1", "alias/2", ""]


def test_messages_cross_to_other_protocols(connect: Connect, broker: BrokerThread) -> None:
    client = connect()
    client.subscribe("cross/+", 2)
    with sync.connect(broker.url) as native:
        got = native.subscribe("cross.*", selector="price > 20")
        native.publish("cross.a", {"price": 50, "flag": True}, b"in", persistent=True, correlation_id="c", type="t")
        there = client.message()
        assert (there.topic, there.payload, there.qos) == ("cross/a", b"in", 2)
        assert there.properties.UserProperty == [("price", "50"), ("flag", "true"), ("JMSType", "t")]
        assert there.properties.CorrelationData == b"c"
        assert got.receive(SECONDS) is not None
        sent = properties(PacketTypes.PUBLISH, UserProperty=[("price", "30")], ResponseTopic="back/to")
        client.publish("cross/b", b"out", 1, properties=sent)
        delivery = got.receive(SECONDS)
        assert delivery is not None
        message = delivery.message
        assert (str(message.destination), message.body, message.persistent) == ("topic:cross.b", b"out", True)
        assert (message.properties["price"], str(message.reply_to)) == ("30", "topic:back.to")
