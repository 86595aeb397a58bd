"""Properties of the codec: round trip, truncation, mutation, splitting."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.protocols.mqtt.decode import decode
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.packets import (
    V4,
    V5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    PingRequest,
    PingResponse,
    PublishAnswer,
    PublishPacket,
    SubscribePacket,
    SubscriptionAnswer,
    TopicRequest,
    UnsubscribePacket,
    Will,
)
from tidings.protocols.mqtt.properties import _TABLE, WILL, PacketType, Property
from tidings.protocols.mqtt.reasons import MqttError
from tidings.protocols.mqtt.splitter import PacketSplitter

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
TOPIC = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0+#"), min_size=1, max_size=12)
BYTES = st.binary(max_size=20)
IDS = st.integers(1, 0xFFFF)
QOS = st.integers(0, 2)
VALUES = {
    "byte": st.integers(0, 1),
    "short": IDS,
    "long": st.integers(1, 0xFFFF_FFFF),
    "variable": st.integers(1, 268_435_455),
    "text": TEXT,
    "binary": BYTES,
    "pair": st.tuples(TEXT, TEXT),
}


@st.composite
def properties_of(draw: st.DrawFn, packet: int, version: int) -> dict[Property, object]:
    if version == V4:
        return {}
    allowed = [name for name, (_, packets) in _TABLE.items() if packet in packets]
    found: dict[Property, object] = {}
    for name in draw(st.lists(st.sampled_from(allowed), unique=True, max_size=5)):
        value = TOPIC if name is Property.RESPONSE_TOPIC else VALUES[_TABLE[name][0]]
        many = name is Property.USER or (name is Property.SUBSCRIPTION_ID and packet == PacketType.PUBLISH)
        found[name] = draw(st.lists(value, min_size=1, max_size=3)) if many else draw(value)
    if Property.AUTHENTICATION_METHOD not in found:
        found.pop(Property.AUTHENTICATION_DATA, None)
    return found


@st.composite
def connects(draw: st.DrawFn, version: int) -> Connect:
    will = None
    if draw(st.booleans()):
        will = Will(draw(TOPIC), draw(BYTES), draw(QOS), draw(st.booleans()), draw(properties_of(WILL, version)))
    user = draw(st.none() | TEXT)
    password = draw(st.none() | BYTES) if user is not None or version == V5 else None
    common = (draw(TEXT), draw(st.booleans()), draw(st.integers(0, 0xFFFF)), user, password, will)
    return Connect(version, *common, draw(properties_of(PacketType.CONNECT, version)))


@st.composite
def publishes(draw: st.DrawFn, version: int) -> PublishPacket:
    qos = draw(QOS)
    dup, packet_id = (draw(st.booleans()), draw(IDS)) if qos else (False, 0)
    found = draw(properties_of(PacketType.PUBLISH, version))
    return PublishPacket(draw(TOPIC), draw(BYTES), qos, draw(st.booleans()), dup, packet_id, found)


@st.composite
def packets(draw: st.DrawFn, version: int) -> Packet:
    kind = draw(st.sampled_from(PacketType))
    match kind:
        case PacketType.CONNECT:
            return draw(connects(version))
        case PacketType.CONNACK:
            code = draw(st.integers(0, 5))
            present = not code and draw(st.booleans())
            return Connack(present, code, draw(properties_of(kind, version)))
        case PacketType.PUBLISH:
            return draw(publishes(version))
        case PacketType.PUBACK | PacketType.PUBREC | PacketType.PUBREL | PacketType.PUBCOMP:
            second = 0x92 if kind in (PacketType.PUBREL, PacketType.PUBCOMP) else 0x80
            reason = draw(st.sampled_from([0, second])) if version == V5 else 0
            return PublishAnswer(kind, draw(IDS), reason, draw(properties_of(kind, version)))
        case PacketType.SUBSCRIBE:
            new = version == V5
            options = st.builds(
                TopicRequest,
                TOPIC.filter(lambda one: not one.startswith(("$share/", "?"))),
                QOS,
                st.booleans() if new else st.just(False),
                st.booleans() if new else st.just(False),
                st.integers(0, 2 if new else 0),
            )
            topics = tuple(draw(st.lists(options, min_size=1, max_size=3)))
            return SubscribePacket(draw(IDS), topics, draw(properties_of(kind, version)))
        case PacketType.UNSUBSCRIBE:
            names = TOPIC.filter(lambda one: not one.startswith(("$share/", "?")))
            filters = tuple(draw(st.lists(names, min_size=1, max_size=3)))
            return UnsubscribePacket(draw(IDS), filters, draw(properties_of(kind, version)))
        case PacketType.SUBACK | PacketType.UNSUBACK:
            reasons = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 0x80]), min_size=1, max_size=3)))
            reasons = () if version == V4 and kind is PacketType.UNSUBACK else reasons
            return SubscriptionAnswer(kind, draw(IDS), reasons, draw(properties_of(kind, version)))
        case PacketType.PINGREQ:
            return PingRequest()
        case PacketType.PINGRESP:
            return PingResponse()
        case PacketType.DISCONNECT:
            reason = draw(st.sampled_from([0, 4, 0x82])) if version == V5 else 0
            return Disconnect(reason, draw(properties_of(kind, version)))
        case _:
            if version == V4:
                return PingRequest()
            return Auth(draw(st.sampled_from([0, 0x18])), draw(properties_of(kind, version)))


def read(data: bytes, version: int) -> list[Packet]:
    splitter = PacketSplitter(1 << 20)
    splitter.feed(data)
    return [decode(first, content, version) for first, content in splitter.packets()]


both = pytest.mark.parametrize("version", [V4, V5])


@both
@given(data=st.data())
@settings(max_examples=400)
def test_what_is_encoded_is_decoded(version: int, data: st.DataObject) -> None:
    packet = data.draw(packets(version))
    assert read(encode(packet, version), version) == [packet]


@both
@given(data=st.data())
@settings(max_examples=200)
def test_a_packet_cut_short_is_refused_and_never_another(version: int, data: st.DataObject) -> None:
    """Cut inside its content, with the length set right: malformed, or the same kind with less at its end."""
    packet = data.draw(packets(version))
    encoded = encode(packet, version)
    splitter = PacketSplitter(1 << 20)
    splitter.feed(encoded)
    ((first, content),) = splitter.packets()
    for end in range(len(content)):
        try:
            short = decode(first, content[:end], version)
        except MqttError:
            continue
        assert type(short) is type(packet)
        assert len(encode(short, version)) < len(encoded)


@both
@given(data=st.data())
@settings(max_examples=400)
def test_changed_bytes_are_refused_with_a_reason_or_mean_what_they_say(version: int, data: st.DataObject) -> None:
    """Nothing but MqttError is raised; what is accepted can be written and read again."""
    encoded = bytearray(encode(data.draw(packets(version)), version))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(encoded) - 1))
        encoded[place] = data.draw(st.integers(0, 255))
    try:
        found = read(bytes(encoded), version)
    except MqttError:
        return
    for packet in found:
        again = packet.version if isinstance(packet, Connect) else version
        assert read(encode(packet, again), again) == [packet]


@both
@given(data=st.data(), noise=st.binary(max_size=64))
@settings(max_examples=300)
def test_noise_raises_nothing_else(version: int, data: st.DataObject, noise: bytes) -> None:
    first = data.draw(st.integers(0, 255))
    try:
        packet = decode(first, noise, version)
    except MqttError:
        return
    assert packet is not None


@given(st.lists(packets(V5), max_size=4), st.lists(st.integers(1, 9), min_size=1))
@settings(max_examples=100)
def test_a_stream_is_split_alike_however_it_comes(sent: list[Packet], sizes: list[int]) -> None:
    stream = b"".join(encode(one, V5) for one in sent)
    splitter, found, position, step = PacketSplitter(1 << 20), list[Packet](), 0, 0
    while position < len(stream):
        size = sizes[step % len(sizes)]
        splitter.feed(stream[position : position + size])
        found += [decode(first, content, V5) for first, content in splitter.packets()]
        position, step = position + size, step + 1
    assert found == sent
    assert splitter.waiting_bytes == 0


@pytest.mark.parametrize("length", ["8001", "ffffffff7f", "80808000", "ff7f"])
def test_a_length_is_refused_from_its_bytes_alone(length: str) -> None:
    splitter = PacketSplitter(100)
    splitter.feed(bytes.fromhex("30" + length))
    with pytest.raises(MqttError):
        list(splitter.packets())


def test_packets_before_a_bad_length_are_taken_once() -> None:
    splitter = PacketSplitter(100)
    splitter.feed(b"\xc0\0\xc0\0\x30\xff\xff\xff\xff\x01")
    taken = []
    with pytest.raises(MqttError):
        taken += [first for first, _ in splitter.packets()]
    assert splitter.waiting_bytes == 6
