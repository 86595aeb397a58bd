"""Sessions that outlive their connection, on the real engine: lost connections, crashes, take-over, expiry, wills."""

import random
from typing import Any

import pytest
from hardening.support.mqtt_driver import MqttBroker, MqttClientModel, client, payloads, subscriber

from tidings.protocols.mqtt.packets import V4, V5, Disconnect, PublishAnswer, PublishPacket, UnsubscribePacket, Will
from tidings.protocols.mqtt.properties import PacketType, Property

SECOND = 1000


def present(of: MqttClientModel) -> bool | None:
    """Whether the broker said that it had the session."""
    return of.present


# --- crashes ------------------------------------------------------------------------------------------------------


def chance(rng: random.Random, broker: MqttBroker, clients: tuple[MqttClientModel, ...]) -> None:
    """One random thing happens."""
    one = rng.choice(clients)
    match rng.randrange(14):
        case 0 | 1 | 2:
            one.flush(rng.randrange(4))
        case 3 | 4 | 5:
            one.read()
        case 6 | 7 | 8 | 9:
            if broker.writes:
                broker.write()
                broker.pump()
        case 10:
            broker.hold_writes = rng.random() < 0.7
            while broker.writes and not broker.hold_writes:
                broker.write()
            broker.pump()
        case 11 if rng.random() < 0.3:
            one.lose()
        case 12 if rng.random() < 0.3:
            one.connect()  # takes over, if the connection is there
        case 13 if rng.random() < 0.2:
            broker.crash()
        case _:
            broker.tick(rng.choice((10, 1000)))
            broker.pump()
    if not one.connected:
        one.connect()


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("seed", range(25))
def test_nothing_is_lost_and_with_qos_2_nothing_doubled(seed: int, qos: int) -> None:
    rng, broker = random.Random(1000 * qos + seed), MqttBroker()
    limit = {Property.SESSION_EXPIRY: 3600, Property.RECEIVE_MAXIMUM: rng.choice((1, 3, 100))}
    reader, writer = subscriber(broker, qos=qos, properties=limit), client(broker, "writer")
    published: list[bytes] = []
    for number in range(40):
        if writer.present is not None and len(writer.unfinished) < 15:
            published.append(b"%d" % number)
            writer.publish(f"t/{number % 3}", published[-1], qos)
        for _ in range(rng.randrange(8)):
            chance(rng, broker, (reader, writer))
    broker.hold_writes = False
    for _ in range(3):
        for one in (writer, reader):
            if not one.connected:
                one.connect()
            while broker.writes:
                broker.write()
            one.settle()
        broker.tick()
        broker.pump()
    assert not writer.unfinished
    assert set(payloads(reader.messages)) == set(published)
    if qos == 2:
        assert sorted(payloads(reader.messages)) == sorted(published)
    dead = broker.node.mailbox_service.mailboxes.by_name.get("queue:dead-letters")
    assert dead is None


# --- sessions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V4, V5])
@pytest.mark.parametrize("crash", [False, True])
def test_messages_wait_while_the_client_is_away(version: int, crash: bool) -> None:
    broker = MqttBroker()
    fields: dict[str, Any] = {} if version == V5 else {"properties": {}}
    reader, writer = subscriber(broker, version=version, **fields), client(broker, "writer", clean=True, properties={})
    assert present(reader) is False
    reader.lose()
    for qos in (1, 2):
        writer.publish("t/x", b"%d" % qos, qos)
    writer.settle()
    if crash:
        broker.crash()
    reader.connect()
    assert payloads(reader.take()) == [b"1", b"2"]
    assert present(reader) is True
    reader.connect(clean=True)
    reader.settle()
    assert present(reader) is False
    if not crash:
        writer.publish("t/x", b"more", 1)
        writer.settle()
        assert reader.take() == []


def test_a_session_ends_when_it_expires_or_with_its_connection() -> None:
    broker = MqttBroker()
    reader = subscriber(broker, properties={Property.SESSION_EXPIRY: 10})
    reader.lose()
    broker.tick(9 * SECOND)
    reader.connect()
    reader.settle()
    assert present(reader) is True
    reader.lose()
    broker.tick(11 * SECOND)
    reader.connect()
    reader.settle()
    assert present(reader) is False
    reader.subscribe("t/#", 1)
    reader.settle()
    reader.disconnect(properties={Property.SESSION_EXPIRY: 0})  # [MQTT-3.14.2-2]
    broker.pump()
    reader.connect(properties={})
    reader.settle()
    assert present(reader) is False
    assert not [one for one in broker.node.mailbox_service.mailboxes.by_name if one.startswith("durable:")]


def test_a_session_without_expiry_goes_on_for_one_connection_more() -> None:
    """A connection with expiry 0 resumes the session, which then ends with it."""
    broker = MqttBroker()
    reader, writer = subscriber(broker), client(broker, "writer")
    reader.lose()
    writer.publish("t/x", b"1", 2)
    writer.settle()
    reader.connect(properties={})
    assert (payloads(reader.take()), reader.present) == ([b"1"], True)
    reader.lose()
    reader.connect()
    reader.settle()
    assert present(reader) is False


def test_expiry_in_disconnect_may_not_begin_a_session() -> None:
    """[MQTT-3.14.2-2]: 0 in CONNECT stays 0."""
    broker = MqttBroker()
    reader = client(broker, "reader", properties={})
    reader.disconnect(properties={Property.SESSION_EXPIRY: 5})
    reader.read()
    assert reader.packets[-1] == Disconnect(0x82, reader.packets[-1].properties)  # type: ignore[union-attr]


def test_what_was_sent_comes_again_with_its_packet_id_and_dup() -> None:
    """[MQTT-4.4.0-1], [MQTT-3.3.1-1]."""
    for crash in (False, True):
        broker = MqttBroker()
        reader, writer = subscriber(broker), client(broker, "writer")
        for qos in (1, 2):
            writer.publish("t/x", b"%d" % qos, qos)
        writer.settle()
        broker.pump()
        reader.read()
        first = [one for one in reader.packets if isinstance(one, PublishPacket)]
        if crash:
            broker.crash()
        reader.connect()
        reader.flush()
        broker.pump()
        reader.read()
        again = [one for one in reader.packets if isinstance(one, PublishPacket)][2:]
        assert [(one.dup, one.packet_id, one.payload) for one in first] == [
            (False, one.packet_id, one.payload) for one in again
        ]
        assert all(one.dup for one in again)
        assert len(first) == 2


def test_pubrel_comes_again() -> None:
    """[MQTT-4.4.0-1]: after PUBREC only PUBREL follows, with the same packet id."""
    for crash in (False, True):
        broker = MqttBroker()
        reader, writer = subscriber(broker), client(broker, "writer")
        writer.publish("t/x", b"1", 2)
        writer.settle()
        reader.read()
        reader.flush()
        broker.pump()
        if crash:
            broker.crash()
        reader.lose()
        reader.connect()
        reader.flush()
        reader.read()
        found = [one for one in reader.packets if isinstance(one, PublishAnswer)]
        assert [one.type for one in found] == [PacketType.PUBREL] * len(found)
        assert payloads(reader.take()) == [b"1"]


def test_the_next_connection_takes_the_session_over() -> None:
    """[MQTT-3.1.4-3]."""
    broker = MqttBroker()
    reader, writer = subscriber(broker), client(broker, "writer")
    twin = MqttClientModel(broker, "reader")
    writer.publish("t/x", b"1", 2)
    writer.settle()
    twin.connect()
    twin.settle()
    third = MqttClientModel(broker, "reader")
    third.connect()
    third.settle()
    for one in (reader, twin):
        one.read()
        assert isinstance(one.packets[-1], Disconnect)
        assert one.packets[-1].reason == 0x8E
        assert not one.connected
    writer.publish("t/x", b"2", 1)
    writer.settle()
    assert (third.present, payloads(third.take())[-1]) == (True, b"2")


def test_unsubscribed_and_changed_subscriptions_are_remembered() -> None:
    broker = MqttBroker()
    reader, writer = subscriber(broker), client(broker, "writer")
    reader.subscribe("u", 2)
    reader.send(UnsubscribePacket(9, ("t/#",)))
    reader.subscribe("u", 1, properties={Property.SUBSCRIPTION_ID: 7})  # the same messages, with other options
    reader.subscribe("v", 0)
    reader.settle()
    reader.lose()
    for topic in ("t/x", "u", "v"):
        writer.publish(topic, topic.encode(), 2)
    writer.settle()
    broker.crash()
    reader.connect()
    (got,) = reader.take()
    assert (got.payload, got.qos, got.properties[Property.SUBSCRIPTION_ID]) == (b"u", 1, [7])
    writer.connect()
    writer.publish("v", b"now", 2)
    writer.settle()
    assert [(one.payload, one.qos) for one in reader.take()] == [(b"now", 0)]
    kept = [one for one in broker.node.mailbox_service.mailboxes.by_name if one.startswith("durable:")]
    assert len(kept) == 1


def test_no_local_holds_for_what_waits_too() -> None:
    """[MQTT-3.8.3-3]."""
    broker = MqttBroker()
    reader, writer = client(broker, "reader"), client(broker, "writer")
    reader.subscribe("t/#", 1, no_local=True)
    reader.settle()
    reader.publish("t/own", b"own", 1)
    reader.settle()
    writer.publish("t/other", b"other", 1)
    writer.settle()
    reader.lose()
    reader.connect()
    assert set(payloads(reader.take())) == {b"other"}


def test_an_exclusive_member_of_a_group_is_served_alone() -> None:
    broker = MqttBroker()
    plain, exclusive, writer = (client(broker, name) for name in ("plain", "exclusive", "writer"))
    plain.subscribe("$share/g/t", 1)
    exclusive.subscribe("$share/g/t", 1, properties={Property.USER: [("exclusive", "true")]})
    plain.settle()
    exclusive.settle()
    for payload in (b"1", b"2", b"3"):
        writer.publish("t", payload, 1)
    writer.settle()
    exclusive.settle()
    assert (payloads(plain.take()), payloads(exclusive.take())) == ([], [b"1", b"2", b"3"])


def test_exclusive_is_for_shared_subscriptions() -> None:
    broker = MqttBroker()
    reader = client(broker, "reader")
    reader.subscribe("t", 1, properties={Property.USER: [("exclusive", "true")]})
    reader.settle()
    assert [one for one in broker.node.mailbox_service.mailboxes.by_name if one.startswith("durable:")] == []


# --- wills --------------------------------------------------------------------------------------------------------


def test_wills_wait_for_their_delay_or_the_end_of_the_session() -> None:
    """[MQTT-3.1.3-9], [MQTT-3.1.2-8], [MQTT-3.1.2-10]."""
    broker = MqttBroker()
    reader = subscriber(broker, "reader", "will/#")
    will = Will("will/x", b"gone", 1, properties={Property.WILL_DELAY: 5, Property.MESSAGE_EXPIRY: 60})
    one = client(broker, "one", will=will)
    one.lose()
    broker.tick(4 * SECOND)
    assert reader.take() == []
    one.connect()
    one.settle()
    broker.tick(30 * SECOND)
    assert reader.take() == []
    one.lose()
    broker.tick(5 * SECOND)
    broker.pump()
    (got,) = reader.take()
    assert (got.payload, got.properties[Property.MESSAGE_EXPIRY]) == (b"gone", 60)
    one.connect()
    one.settle()
    one.disconnect()
    broker.tick(30 * SECOND)
    assert reader.take() == []


def test_a_will_is_published_when_the_broker_ends_the_connection() -> None:
    """[MQTT-3.1.2-8]: a protocol error, silence, another connection of the same client; retained if it says so."""
    for end in ("error", "take-over"):
        broker = MqttBroker()
        reader = subscriber(broker, "reader", "will/#")
        one = client(broker, "one", will=Will("will/x", b"gone", 1, retain=True))
        if end == "error":
            one.send(PublishAnswer(PacketType.PUBREL, 1))
            one._sent.append(b"\x36\x01\x00")
            one.flush()
        else:
            client(broker, "one")
        broker.pump()
        assert payloads(reader.take()) == [b"gone"]
        late = subscriber(broker, "late", "will/#")
        assert payloads(late.take()) == [b"gone"]
