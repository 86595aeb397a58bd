"""The kernel's path and Python's: whichever of them handles a packet, client and broker hear the same."""

from collections.abc import Callable
from struct import pack
from typing import Any, NamedTuple
from unittest.mock import patch
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import TidingsError
from tidings.kernel.codec import encode_message
from tidings.kernel.mqtt import MqttPublications
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.values import Untyped
from tidings.protocols.mqtt import session as sessions
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.outgoing import Unfinished
from tidings.protocols.mqtt.packets import (
    V4,
    V5,
    Connect,
    PingRequest,
    PublishAnswer,
    PublishPacket,
    SubscribePacket,
    TopicRequest,
    UnsubscribePacket,
)
from tidings.protocols.mqtt.properties import PacketType, Property
from tidings.protocols.mqtt.publisher import Publisher
from tidings.protocols.mqtt.session import MqttSession, MqttState
from tidings.protocols.mqtt.session_record import SUBSCRIPTIONS, SessionRecord
from tidings.protocols.mqtt.subscriber import MqttSubscriber
from tidings.protocols.native.frames import (
    FrameSplitter,
    FrameType,
    RawFrame,
    control,
    decode_ack,
    decode_credit,
    decode_fields,
)
from tidings.protocols.native.peer import Fields
from tidings.protocols.session import Caller

NOW_MS = 1_700_000_000_000
FRAME_BYTES_MAX = 600


class ColdPublications(MqttPublications):
    """Leaves every packet and frame to Python."""

    def take(self, data: bytes, at: int, now_ms: int) -> int:
        return 0

    def give(self, data: bytes, at: int, now_ms: int) -> int:
        return 0


class Session(NamedTuple):
    version: int
    persistent: bool
    receive_maximum: int
    aliases: int
    packet_bytes_max: int
    resumed: bool = False  # an earlier connection was sent some of the messages


class Say(NamedTuple):
    """Packets of the client in one read; `spoiled`: a byte of it and what that becomes."""

    packets: list[PublishPacket | PingRequest]
    spoiled: tuple[int, int] | None


class Deliver(NamedTuple):
    message: Message
    subscription: int
    attempt: int


class Acknowledge(NamedTuple):
    """PUBACK and the like for one of the last packet ids that the client has seen."""

    which: int
    type: PacketType
    reason: int
    why: bool


class Answer(NamedTuple):
    """The broker's receipts, the oldest first; refused: the next one."""

    number: int
    refused: bool


class Resubscribe(NamedTuple):
    qos: int
    identifier: int
    retain_as_published: bool
    end: bool


TOPICS = [
    "a/b",
    "a/b",
    "a/b.c",
    "a/.b",
    "a//b",
    "/a",
    "a/",
    "$x/y",
    "a~/b",
    "é/b",
    "a/*",
    "b/" + "x" * 100,
    "",
    "a/\x01",
]
topics = st.sampled_from(TOPICS)
texts = st.sampled_from(["", "7", "x", "é", "true", "a\u0001"])
names = st.sampled_from(
    ["n", "m", "é", "Job", "JMSType", "JMSPriority", "JMSXRetain", "content-type", "", "@x", "n" * 300]
)
properties = st.fixed_dictionaries(
    {},
    optional={
        Property.PAYLOAD_FORMAT: st.integers(0, 1),
        Property.MESSAGE_EXPIRY: st.sampled_from([0, 1, 60]),
        Property.CONTENT_TYPE: texts,
        Property.RESPONSE_TOPIC: topics,
        Property.CORRELATION_DATA: st.sampled_from([b"", b"x", b"\xff", b"ID:AMQP_BINARY:00"]),
        Property.TOPIC_ALIAS: st.sampled_from([1, 1, 2, 64, 65]),
        Property.USER: st.lists(st.tuples(names, texts), min_size=1, max_size=3),
    },
)
bodies = st.sampled_from([b"", b"body", b"body", b"\xff", b"x" * 300, b"y" * 500])
publishes = st.builds(
    PublishPacket,
    topics,
    bodies,
    st.sampled_from([0, 1, 1, 2]),
    st.booleans(),
    st.just(False),
    st.integers(1, 9),
    st.one_of(st.just({}), st.just({}), properties),
)
values = st.sampled_from([1, -7, True, 1.5, "text", Untyped("12"), b"\x00", "a\x00b", "é"])
messages = st.builds(
    Message,
    st.sampled_from([Destination(one) for one in ("a.b", "a.b", "a.x/y", "a.~.b", "$s.t", "é.b")]),
    st.one_of(
        st.just({}),
        st.just({"JMSXMqttQoS": 1}),
        st.dictionaries(
            st.sampled_from(
                ["n", "Job", "JMSXMqttQoS", "JMSXRetain", "JMSXMqttFormat", "content-type", "JMSXMqttUser", "m"]
            ),
            values,
            max_size=3,
        ),
    ),
    bodies,
    st.builds(MessageId, st.just(9), st.just(1), st.just(NOW_MS), st.integers(0, 4)),
    persistent=st.booleans(),
    priority=st.sampled_from([4, 4, 7]),
    expiration_ms=st.sampled_from([None, None, NOW_MS - 5, NOW_MS + 5500]),
    correlation_id=st.sampled_from([None, "id", "ID:AMQP_BINARY:FF"]),
    reply_to=st.sampled_from([None, Destination("r.s"), Destination("q", True), Destination("r.~.s")]),
    type=st.sampled_from([None, "Tick"]),
)
walks = st.lists(
    st.one_of(
        st.builds(
            Say,
            st.lists(st.one_of(publishes, publishes, st.just(PingRequest())), min_size=1, max_size=4),
            st.one_of(st.none(), st.none(), st.none(), st.tuples(st.integers(0, 60), st.integers(0, 255))),
        ),
        st.builds(Deliver, messages, st.integers(1, 4), st.sampled_from([1, 1, 2])),
        st.builds(
            Acknowledge,
            st.integers(0, 4),
            st.sampled_from([PacketType.PUBACK, PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBCOMP]),
            st.sampled_from([0, 0, 0x10, 0x80]),
            st.booleans(),
        ),
        st.builds(Answer, st.integers(1, 4), st.sampled_from([False, False, True])),
        st.builds(
            Resubscribe, st.integers(0, 2), st.integers(0, 200), st.booleans(), st.sampled_from([False] * 5 + [True])
        ),
    ),
    max_size=30,
)
kinds = st.builds(
    Session,
    st.sampled_from([V4, V5]),
    st.booleans(),
    st.sampled_from([2, 100]),
    st.sampled_from([0, 1, 5]),
    st.sampled_from([0, 0, 80]),
    st.booleans(),
)


IDS = [MessageId(9, 1, NOW_MS, counter) for counter in range(5)]
EARLIER = {crc32(bytes(id)) % 0xFFFF + 1: bytes(id) for id in IDS[1:4]}


class Nobody:
    def take_over(self, then: Callable[[], None]) -> None:
        raise AssertionError


class Walk:
    """A session with four subscriptions, and all that its two sides hear."""

    def __init__(self, kind: Session, make: type[MqttPublications]) -> None:
        self._kind, self._clients = kind, MqttClients()
        self._tag, self._receipts = 0, list[int]()
        self.published: list[tuple[int, bool, bytes]] = []
        self.acknowledged: set[tuple[int, int, int]] = set()
        self.credit: dict[int, int] = {}
        self.output = b""
        self.packet_ids: list[int] = []
        self.error = ""
        if kind.resumed:
            self._clients.leave("", "walker", Nobody(), Unfinished(EARLIER, []))
        with patch.object(sessions, "MqttPublications", make), patch.object(sessions, "CREDIT", 6):
            self.session = MqttSession(self._clients, Caller("", True, FRAME_BYTES_MAX, lambda *_: True))
            self._log_in()
        self._say(encode(self._subscribe(1, 7, retain_as_published=False), kind.version))

    def _log_in(self) -> None:
        kind, given = self._kind, {}
        if kind.version == V5:
            given = {Property.RECEIVE_MAXIMUM: kind.receive_maximum}
            given |= {Property.TOPIC_ALIAS_MAXIMUM: kind.aliases} if kind.aliases else {}
            given |= {Property.MAXIMUM_PACKET: kind.packet_bytes_max} if kind.packet_bytes_max else {}
            given |= {Property.SESSION_EXPIRY: 60} if kind.persistent else {}
        self._say(encode(Connect(kind.version, "walker", not kind.persistent, properties=given), kind.version))
        welcome: Fields = {"version": 1, "broker": 1, "publisher": 2, "frame_max": FRAME_BYTES_MAX}
        self._hear(control(FrameType.WELCOME, welcome))
        assert self.session.state is MqttState.READY

    def _subscribe(self, qos: int, identifier: int, *, retain_as_published: bool) -> SubscribePacket:
        v5 = self._kind.version == V5
        given = {Property.SUBSCRIPTION_ID: identifier} if v5 and identifier else {}
        own = v5 and self._kind.persistent
        filters = [("a/+", qos, own), ("+/b", 0, False), ("$share/g/a/b", 1, False), ("é/#", 2, False)]
        topics = tuple(
            TopicRequest(name, each, no_local, v5 and retain_as_published, 2 * v5) for name, each, no_local in filters
        )
        return SubscribePacket(1, topics, given)

    def step(self, one: Any) -> None:
        if self.session.state is not MqttState.READY:
            return
        version = self._kind.version
        match one:
            case Say(packets, spoiled):
                data = bytearray(b"".join(encode(_fit(packet, version), version) for packet in packets))
                if spoiled is not None and spoiled[0] < len(data):
                    data[spoiled[0]] = spoiled[1]
                self._say(bytes(data))
            case Deliver(message, subscription, attempt):
                self._tag += 1
                tagged = self._kind.persistent or subscription == 3
                tag = self._tag if tagged and subscription != 2 else 0
                head = pack("<IIQ", subscription, attempt, tag)
                self._hear(encode_frame(FrameType.DELIVER, head + encode_message(message)))
            case Acknowledge(which, type, reason, why):
                packet_id = self.packet_ids[-1 - which] if which < len(self.packet_ids) else 77
                if version == V4 or type is PacketType.PUBCOMP:
                    reason = 0
                given = {Property.REASON_STRING: "so"} if why and version == V5 else {}
                self._say(encode(PublishAnswer(type, packet_id, reason, given), version))
            case Answer(number, refused):
                self._answer(number, refused=refused)
            case Resubscribe(qos, identifier, retain_as_published, end):
                if end:
                    self._say(encode(UnsubscribePacket(2, ("+/b", "a/+")), version))
                else:
                    packet = self._subscribe(qos, identifier, retain_as_published=retain_as_published)
                    self._say(encode(packet, version))

    def _answer(self, count: int, *, refused: bool) -> None:
        if refused and self._receipts:
            why: Fields = {"receipt": self._receipts.pop(0), "code": "E_FORBIDDEN", "reason": "no", "fatal": False}
            self._hear(control(FrameType.REFUSED, why))
        answered, self._receipts = self._receipts[:count], self._receipts[count:]
        self._hear(encode_frame(FrameType.RECEIPTS, pack(f"<I{len(answered)}I", len(answered), *answered)))

    def _say(self, data: bytes) -> None:
        try:
            self.session.receive(data, NOW_MS)
        except TidingsError as error:
            self.error = str(error)
        self._look()

    def _hear(self, frame: bytes) -> None:
        self.session.frames(frame, NOW_MS)
        self._look()

    def _look(self) -> None:
        while frames := self.session.take_frames():
            for frame in FrameSplitter(1 << 20).feed(frames):
                self._broker_hears(frame)
        output = self.session.take_output()
        self.output += output
        at = 0
        while at < len(output):
            length, size = _length(output, at + 1)
            if output[at] >> 4 == PacketType.PUBLISH and output[at] >> 1 & 3:
                topic = int.from_bytes(output[size : size + 2], "big")
                self.packet_ids.append(int.from_bytes(output[size + 2 + topic : size + 4 + topic], "big"))
            at = size + length

    def _broker_hears(self, frame: RawFrame) -> None:
        match frame.type:
            case FrameType.PUBLISH:
                receipt = int.from_bytes(frame.payload[:4], "little")
                self._receipts += [receipt] if receipt else []
                self.published.append((frame.session, receipt > 0, frame.payload[4:]))
            case FrameType.ACK:
                subscription, flags, tags = decode_ack(frame.payload)
                self.acknowledged |= {(subscription, tag, flags) for tag in tags}
            case FrameType.CREDIT:
                subscription, more = decode_credit(frame.payload)
                self.credit[subscription] = self.credit.get(subscription, 0) + more
            case FrameType.HELLO | FrameType.CLOSE:
                pass
            case _:
                answer: Fields = {"receipt": decode_fields(frame.payload)["receipt"]}
                if frame.type == FrameType.RECALL and self._kind.resumed:
                    answer[SUBSCRIPTIONS] = SessionRecord().to_bytes()
                self.session.frames(control(FrameType.OK, answer), NOW_MS)

    @property
    def heard(self) -> tuple[Any, ...]:
        return self.output, self.published, self.acknowledged, self.credit, self.error, self.session.state


def _fit(packet: PublishPacket | PingRequest, version: int) -> PublishPacket | PingRequest:
    if isinstance(packet, PingRequest) or version == V5:
        return packet
    return PublishPacket(packet.topic, packet.payload, packet.qos, packet.retain, False, packet.packet_id)


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A remaining length, and the place behind it."""
    length = shift = 0
    while True:
        length |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return length, at


@settings(max_examples=300, deadline=None)
@given(kinds, walks)
def test_the_two_paths_say_the_same(kind: Session, walk: list[Any]) -> None:
    hot, cold = Walk(kind, MqttPublications), Walk(kind, ColdPublications)
    for one in walk:
        hot.step(one)
        cold.step(one)
        assert hot.heard == cold.heard
    assert hot.session.waiting_bytes == cold.session.waiting_bytes
    hot.session.lost()
    cold.session.lost()
    hot._look()
    cold._look()
    assert hot.heard == cold.heard
    left = [one._clients.take_unfinished("", "walker") for one in (hot, cold)]
    assert left[0].sent == left[1].sent


def plain_walk(version: int) -> Walk:
    return Walk(Session(version, False, 100, 0, 0), MqttPublications)


def test_plain_packets_need_no_python() -> None:
    """All of a batch is handled before Python sees a packet or a frame."""
    for version in (V4, V5):
        walk = plain_walk(version)
        given = {Property.USER: [("price", "12")], Property.TOPIC_ALIAS: 1}
        packets: list[Any] = [PublishPacket("a/b", b"x", qos, packet_id=qos, properties=given) for qos in (0, 1)]
        message = Message(Destination("a.b"), {"JMSXMqttQoS": 1, "price": Untyped("12")}, b"x", persistent=True)
        with (
            patch.object(Publisher, "publish", side_effect=AssertionError),
            patch.object(MqttSubscriber, "deliver", side_effect=AssertionError),
            patch.object(MqttSession, "_packet", side_effect=AssertionError),
        ):
            walk.step(Say(packets, None))
            walk.step(Answer(1, False))
            walk.step(Deliver(message, 1, 1))
            walk.step(Acknowledge(0, PacketType.PUBACK, 0, False))
        assert [acknowledged for _, acknowledged, _ in walk.published] == [False, True]
        assert b"\x40\x02\x00\x01" in walk.output
        assert walk.packet_ids == [1]


def test_what_an_earlier_connection_was_sent_is_marked() -> None:
    kind = Session(V5, True, 100, 0, 0, resumed=True)
    for make in (MqttPublications, ColdPublications):
        walk = Walk(kind, make)
        for id in IDS[:2]:
            message = Message(Destination("a.b"), {"JMSXMqttQoS": 1}, b"x", id, persistent=True)
            before = len(walk.output)
            walk.step(Deliver(message, 3, 1))
            assert walk.output[before] == (0x3A if bytes(id) in EARLIER.values() else 0x32)
