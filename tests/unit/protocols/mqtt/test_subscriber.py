"""Subscriptions of one MQTT session: retained messages, flow control, shared and overlapping subscriptions."""

import pytest
from hardening.support.mqtt_driver import MqttBroker, client, payloads, subscriber

from tidings.protocols.mqtt.packets import PublishAnswer, PublishPacket, UnsubscribePacket
from tidings.protocols.mqtt.properties import PacketType, Property

SECOND = 1000


def test_overlapping_subscriptions_have_a_copy_each() -> None:
    """[MQTT-3.3.4-2], [MQTT-3.3.4-3], [MQTT-3.3.4-5]: with the QoS and the identifier of each."""
    broker = MqttBroker()
    reader, writer = client(broker, "reader"), client(broker, "writer")
    for identifier, (filter, qos) in enumerate((("a/b", 0), ("a/+", 1), ("a/#", 2), ("#", 1)), 1):
        reader.subscribe(filter, qos, properties={Property.SUBSCRIPTION_ID: identifier})
        reader.settle()
    writer.publish("a/b", b"x", 2)
    writer.settle()
    got = sorted((one.properties[Property.SUBSCRIPTION_ID], one.qos) for one in reader.take())
    assert got == [([1], 0), ([2], 1), ([3], 2), ([4], 1)]


# --- retained messages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [False, True])
def test_retained_messages_come_to_new_subscriptions(crash: bool) -> None:
    """[MQTT-3.3.1-5] to [MQTT-3.3.1-13], [MQTT-4.8.2]: not to shared ones."""
    broker = MqttBroker()
    writer = client(broker, "writer")
    for qos, topic in enumerate(("a", "a/b", "a/c")):
        writer.publish(topic, b"old", qos, retain=True)
        writer.publish(topic, topic.encode(), qos, retain=True)
    writer.publish("a/c", b"", 1, retain=True)
    writer.publish("$x", b"", 0, retain=False)
    writer.settle()
    if crash:
        broker.crash()
        broker.tick()
    reader = client(broker, "reader")
    for handling, wanted in ((0, {b"a", b"a/b"}), (0, {b"a", b"a/b"}), (1, set()), (2, set())):
        reader.subscribe("a/#", 2, retain_handling=handling)
        got = reader.take()
        assert set(payloads(got)) == wanted
        assert {one.qos for one in got} <= {0, 1}
        assert all(one.retain for one in got)
    reader.subscribe("a/+", 1, retain_handling=1)
    assert payloads(reader.take()) == [b"a/b"]
    reader.subscribe("$share/g/a/#", 1)
    assert reader.take() == []


def test_retain_as_published() -> None:
    """[MQTT-3.3.1-12], [MQTT-3.3.1-13]."""
    broker = MqttBroker()
    keeps, clears, writer = client(broker, "keeps"), client(broker, "clears"), client(broker, "writer")
    keeps.subscribe("a", 1, retain_as_published=True)
    clears.subscribe("a", 1)
    for one in (keeps, clears):
        one.settle()
    writer.publish("a", b"1", 1, retain=True)
    writer.publish("a", b"2", 1)
    writer.settle()
    assert [one.retain for one in keeps.take()] == [True, False]
    got = clears.take()
    assert [one.retain for one in got] == [False, False]
    assert not any(Property.USER in one.properties for one in got)


def test_many_retained_messages_under_flow_control() -> None:
    broker = MqttBroker()
    writer = client(broker, "writer")
    for number in range(200):
        writer.publish(f"many/{number}", b"%d" % number, 1, retain=True)
        if number % 10 == 0:
            writer.settle()
    writer.settle()
    reader = client(broker, "reader", properties={Property.SESSION_EXPIRY: 60, Property.RECEIVE_MAXIMUM: 3})
    reader.subscribe("many/+", 1)
    assert sorted(map(int, payloads(reader.take()))) == list(range(200))


def test_a_puback_makes_room_for_what_waits() -> None:
    """[MQTT-3.3.4-9], [MQTT-4.9.0-1]: also in a session that ends with its connection."""
    broker = MqttBroker()
    reader, writer = client(broker, "reader", properties={Property.RECEIVE_MAXIMUM: 2}), client(broker, "writer")
    reader.subscribe("t", 1)
    reader.settle()
    for number in range(9):
        writer.publish("t", b"%d" % number, 1)
    writer.settle()
    assert payloads(reader.take()) == [b"%d" % number for number in range(9)]


def test_what_expires_while_it_waits_is_not_sent() -> None:
    """[MQTT-3.3.2-5], [MQTT-3.3.2-6]: also here, while the client's receive maximum is used up."""
    broker = MqttBroker()
    reader, writer = client(broker, "reader", properties={Property.RECEIVE_MAXIMUM: 1}), client(broker, "writer")
    reader.subscribe("t", 1)
    reader.settle()
    for expiry in (60, 5, 70):
        writer.publish("t", b"%d" % expiry, 1, properties={Property.MESSAGE_EXPIRY: expiry})
    writer.settle()
    broker.tick(10 * SECOND)
    got = reader.take()
    assert [(one.payload, one.properties[Property.MESSAGE_EXPIRY]) for one in got] == [(b"60", 60), (b"70", 60)]


@pytest.mark.parametrize("expiry", [0, 60])
def test_a_member_of_a_group_keeps_what_it_was_sent_with_qos_2(expiry: int) -> None:
    """[MQTT-4.8.2-4], [MQTT-4.8.2-5]: it gets it when it comes back, and if its session has ended nobody does."""
    broker = MqttBroker()
    members = [client(broker, name, properties={Property.SESSION_EXPIRY: expiry}) for name in ("one", "two")]
    writer = client(broker, "writer")
    for member in members:
        member.subscribe("$share/g/t", 2)
        member.settle()
    for payload in (b"1", b"2"):
        writer.publish("t", payload, 2)
    writer.settle()
    for member in members:
        member.read()  # and the answer is lost
        member.lose()
    first = [payloads(member.messages) for member in members]
    assert sorted(first[0] + first[1]) == [b"1", b"2"]
    for member in members:
        member.connect()
        member.settle()
        member.subscribe("$share/g/t", 2)
    again = [payloads([one for one in member.take() if one.dup]) for member in members]
    assert again == [[], []]
    sent = [[one for one in member.packets if isinstance(one, PublishPacket)] for member in members]
    assert [[one.payload for one in packets] for packets in sent] == [one * (2 if expiry else 1) for one in first]


def test_only_publications_to_be_retained_change_what_is_retained() -> None:
    """[MQTT-3.3.1-6] to [MQTT-3.3.1-8]; an empty one is a message like others for those who are there."""
    broker = MqttBroker()
    there, writer = client(broker, "there", properties={}), client(broker, "writer")
    there.subscribe("a", 1)
    there.settle()
    writer.publish("a", b"kept", 1, retain=True)
    writer.publish("a", b"passing", 1)
    writer.settle()
    late = client(broker, "late", properties={})
    late.subscribe("a", 1)
    assert payloads(late.take()) == [b"kept"]
    writer.publish("a", b"", 1, retain=True)
    writer.settle()
    assert payloads(there.take()) == [b"kept", b"passing", b""]
    last = client(broker, "last", properties={})
    last.subscribe("a", 1)
    assert last.take() == []


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("filter", ["t", "$share/g/t"])
def test_what_a_client_refuses_is_discarded(qos: int, filter: str) -> None:
    """[MQTT-4.4.0-2], [MQTT-4.8.2-6]: neither sent again nor to another member of the group."""
    broker = MqttBroker()
    reader, writer = subscriber(broker, filter=filter, qos=qos), client(broker, "writer")
    writer.publish("t", b"1", qos)
    writer.settle()
    reader.read()
    (got,) = reader.messages
    reader._sent.clear()
    reader.send(PublishAnswer(PacketType.PUBACK if qos == 1 else PacketType.PUBREC, got.packet_id, 0x80))
    reader.flush()
    other = subscriber(broker, "other", filter=filter, qos=qos)
    reader.lose()
    reader.connect()
    reader.settle()
    reader.subscribe(filter, qos)
    assert payloads(reader.take() + other.take()) == [b"1"]


def test_what_was_sent_is_completed_after_unsubscribe() -> None:
    """[MQTT-3.10.4-2], [MQTT-3.10.4-3]; and a DUP flag is not passed on [MQTT-3.3.1-3]."""
    broker = MqttBroker()
    reader, writer = subscriber(broker, filter="t"), client(broker, "writer")
    writer.send(PublishPacket("t", b"1", 2, dup=True, packet_id=3))
    writer.settle()
    reader.read()
    waiting, reader._sent = list(reader._sent), type(reader._sent)()
    reader.send(UnsubscribePacket(9, ("t",)))
    reader.settle()
    reader._sent.extend(waiting)
    writer.publish("t", b"2", 2)
    writer.settle()
    reader.settle()
    answers = [one.type for one in reader.packets if isinstance(one, PublishAnswer)]
    assert answers == [PacketType.PUBREL]
    assert [(one.payload, one.dup) for one in reader.messages] == [(b"1", False)]
