"""Sessions that outlive their connection, on the real engine: lost connections, crashes, take-over, expiry, wills."""

import random
from typing import Any

import pytest
from hardening.support.mqtt_driver import MqttBroker, MqttClientModel

from tidings.protocols.mqtt.packets import V4, V5, Disconnect, PublishAnswer, PublishPacket, UnsubscribePacket, Will
from tidings.protocols.mqtt.properties import PacketType, Property

SECOND = 1000


def present(of: MqttClientModel) -> bool | None:
    """Whether the broker said that it had the session."""
    return of.present


def client(broker: MqttBroker, id: str, **fields: Any) -> MqttClientModel:
    made = MqttClientModel(broker, id, **fields)
    made.connect()
    made.settle()
    return made


def subscriber(
    broker: MqttBroker, id: str = "reader", filter: str = "t/#", qos: int = 2, **fields: Any
) -> MqttClientModel:
    made = client(broker, id, **fields)
    made.subscribe(filter, qos)
    made.settle()
    return made


def payloads(packets: list[PublishPacket]) -> list[bytes]:
    return [one.payload for one in packets]


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
