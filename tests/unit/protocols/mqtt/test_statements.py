"""The numbered statements of MQTT 5.0, and those of 3.1.1 that differ: a row each, tested on one session without I/O.

A row: the statement's number, the version, packets that the client sends (after CONNECT, unless the first is one), and
what comes back: the packets in answer, with the last one ending the connection if `END` follows.
"""

from typing import Any

import pytest

from tidings.errors import TidingsError
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.decode import decode
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.packets import (
    V4,
    V5,
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
from tidings.protocols.mqtt.properties import PacketType, Property
from tidings.protocols.mqtt.session import MqttSession
from tidings.protocols.mqtt.splitter import PacketSplitter
from tidings.protocols.native.frames import FrameSplitter, FrameType, control, decode_fields
from tidings.protocols.session import Caller

END = "end"
T, P = PacketType, Property


class Broker:
    """Answers a session's native frames as a broker does that accepts everything."""

    def __init__(self) -> None:
        self._splitter = FrameSplitter(1 << 26)
        self.frames: list[tuple[int, dict[str, Any]]] = []

    def answer(self, data: bytes) -> bytes:
        out = b""
        for type, _, _, payload in self._splitter.feed(data):
            if type == FrameType.PUBLISH:
                receipt = int.from_bytes(payload[:4], "little")
                self.frames.append((type, {"receipt": receipt, "message": payload[4:]}))
                if receipt:
                    count = (1).to_bytes(4, "little") + payload[:4]
                    out += len(count).to_bytes(4, "little") + bytes((FrameType.RECEIPTS, 0, 0, 0)) + count
                continue
            fields = {} if type in (FrameType.ACK, FrameType.CREDIT) else decode_fields(payload)
            self.frames.append((type, fields))
            if type == FrameType.HELLO:
                welcome = {"version": 1, "broker": 3, "publisher": 9, "frame_max": 1 << 20, "heartbeat_ms": 0}
                out += control(FrameType.WELCOME, welcome)
            elif fields.get("receipt"):
                out += control(FrameType.OK, {"receipt": fields["receipt"]})
        return out


class Dialogue:
    def __init__(self, version: int = V5) -> None:
        self.version = version
        self.broker = Broker()
        self.session = MqttSession(MqttClients(), Caller("", True, 1 << 20, lambda *_: True))
        self._splitter = PacketSplitter(1 << 26)

    def send(self, data: bytes) -> list[Any]:
        """Packets in answer, then END if the connection ends."""
        ended = False
        try:
            self.session.receive(data, 1_700_000_000_000)
        except TidingsError:
            ended = True
        while not ended and (frames := self.session.take_frames()):
            if answer := self.broker.answer(frames):
                self.session.frames(answer, 1_700_000_000_000)
        ended = ended or any(type == FrameType.CLOSE for type, _ in self.broker.frames)
        self._splitter.feed(self.session.take_output())
        return [self._short(*one) for one in self._splitter.packets()] + [END] * ended

    def _short(self, first: int, content: bytes) -> Any:
        packet = decode(first, content, self.version)
        match packet:
            case Connack(present, code, _):
                return ("CONNACK", present, code)
            case Disconnect(reason, _):
                return ("DISCONNECT", reason)
            case PublishAnswer(type, id, reason, _):
                return (type.name, id, reason)
            case SubscriptionAnswer(type, id, reasons, _):
                return (type.name, id, reasons)
            case _:
                return packet


def connect(version: int = V5, client_id: str = "me", **fields: Any) -> Connect:
    return Connect(version, client_id, fields.pop("clean", True), **fields)


def pub(qos: int = 1, id: int = 7, topic: str = "a", **fields: Any) -> PublishPacket:
    return PublishPacket(topic, fields.pop("payload", b"x"), qos, packet_id=id if qos else 0, **fields)


def sub(filter: str = "a", qos: int = 1, **properties: Any) -> SubscribePacket:
    return SubscribePacket(5, (TopicRequest(filter, qos),), properties.get("properties", {}))


def ack(type: PacketType, id: int = 7, reason: int = 0) -> PublishAnswer:
    return PublishAnswer(type, id, reason)


OK5 = [("CONNACK", False, 0)]
MALFORMED, PROTOCOL = [("DISCONNECT", 0x81), END], [("DISCONNECT", 0x82), END]
REFUSED = [("CONNACK", False, 0x81), END]
CLOSED: list[Any] = [END]
ROWS: list[tuple[str, int, list[Packet | bytes], list[Any]]] = [
    # 1.5 data representation
    ("MQTT-1.5.4-1", V5, [bytes.fromhex("300500 03eda080".replace(" ", ""))], MALFORMED),
    ("MQTT-1.5.4-2", V5, [bytes.fromhex("30050003610062")], MALFORMED),
    ("MQTT-1.5.5-1", V5, [bytes.fromhex("32080001610007800078")], MALFORMED),
    ("MQTT-1.5.4-3", V5, [pub(1, topic="\ufeffa")], [("PUBACK", 7, 0)]),
    ("MQTT-1.5.7-1", V5, [pub(0, properties={P.USER: [("a", "x\0")]})], MALFORMED),
    # 2 packet format
    ("MQTT-2.1.3-1", V5, [bytes.fromhex("8006000500000161")], MALFORMED),
    ("MQTT-2.1.3-1", V5, [bytes.fromhex("6003000700")], MALFORMED),
    ("MQTT-2.2.1-3", V5, [bytes.fromhex("3206000161000000")], PROTOCOL),
    ("MQTT-2.2.1-5", V5, [pub(1, 9)], [("PUBACK", 9, 0)]),
    ("MQTT-2.2.1-6", V5, [sub()], [("SUBACK", 5, (1,))]),
    ("MQTT-2.2.1-6", V5, [UnsubscribePacket(6, ("a",))], [("UNSUBACK", 6, (0x11,))]),
    ("MQTT-2.2.2-1", V5, [bytes.fromhex("3004000161") + b"\0"], []),
    ("MQTT-3.8.1-1", V5, [bytes.fromhex("8007000500000161 00")], MALFORMED),
    ("MQTT-3.10.1-1", V5, [bytes.fromhex("a0060006000001 61")], MALFORMED),
    ("MQTT-3.6.1-1", V5, [bytes.fromhex("60020007")], MALFORMED),
    # 3.1 CONNECT
    ("MQTT-3.1.0-1", V5, [b"\xc0\0"], CLOSED),
    ("MQTT-3.1.0-2", V5, [connect(), connect()], [*OK5, *PROTOCOL]),
    (
        "MQTT-3.1.2-1",
        V4,
        [bytes.fromhex("100c00044d51545a0402000000 00".replace(" ", ""))],
        [("CONNACK", False, 1), END],
    ),
    (
        "MQTT-3.1.2-2",
        V4,
        [bytes.fromhex("100d00044d515454060200000000 00".replace(" ", ""))],
        [("CONNACK", False, 1), END],
    ),
    (
        "MQTT-3.1.2-2",
        V4,
        [bytes.fromhex("100e00064d514973647003020000 0000".replace(" ", ""))],
        [("CONNACK", False, 1), END],
    ),
    ("MQTT-3.1.2-3", V4, [bytes.fromhex("100c00044d5154540403000000 00".replace(" ", ""))], CLOSED),
    ("MQTT-3.1.2-4", V5, [connect(clean=True)], OK5),
    ("MQTT-3.1.2-5", V5, [connect(clean=False)], OK5),
    ("MQTT-3.1.2-11", V4, [bytes.fromhex("100c00044d515454040a000000 00".replace(" ", ""))], CLOSED),
    ("MQTT-3.1.2-12", V4, [bytes.fromhex("100c00044d515454041e000000 00".replace(" ", ""))], CLOSED),
    ("MQTT-3.1.2-13", V4, [bytes.fromhex("100c00044d5154540422000000 00".replace(" ", ""))], CLOSED),
    ("3.1.1 MQTT-3.1.2-22", V4, [bytes.fromhex("100f00044d5154540442000000000001 78".replace(" ", ""))], CLOSED),
    ("3.1.2.11.3 receive maximum 0", V5, [connect(properties={P.RECEIVE_MAXIMUM: 0})], [("CONNACK", False, 0x82), END]),
    (
        "3.1.2.11.4 maximum packet size 0",
        V5,
        [connect(properties={P.MAXIMUM_PACKET: 0})],
        [("CONNACK", False, 0x82), END],
    ),
    ("MQTT-3.1.2-24", V5, [connect(properties={P.MAXIMUM_PACKET: 10})], [("CONNACK", False, 0x95), END]),
    ("MQTT-3.1.2-24", V5, [connect(properties={P.MAXIMUM_PACKET: 4})], CLOSED),
    (
        "MQTT-3.1.2-24",
        V5,
        [connect(properties={P.MAXIMUM_PACKET: 20}), SubscribePacket(5, (TopicRequest("a"),) * 30)],
        [*OK5, ("DISCONNECT", 0x95), END],
    ),
    ("MQTT-3.4.2-2", V5, [connect(properties={P.MAXIMUM_PACKET: 20}), pub(1, topic="$x")], [*OK5, ("PUBACK", 7, 0x90)]),
    ("MQTT-3.1.3-6", V5, [connect(client_id="")], OK5),
    ("3.1.1 MQTT-3.1.3-8", V4, [connect(V4, "", clean=False)], [("CONNACK", False, 2), END]),
    ("MQTT-3.1.3-5", V5, [connect(client_id="0123456789abcdefABCDEFG")], OK5),
    ("MQTT-3.1.3-8", V5, [connect(client_id="a\tb")], [("CONNACK", False, 0x85), END]),
    ("MQTT-3.1.3-11", V5, [connect(will=Will("a/#", b""))], [("CONNACK", False, 0x90), END]),
    (
        "3.1.3.2.3 payload format of a will",
        V5,
        [connect(will=Will("a", b"\xff", properties={P.PAYLOAD_FORMAT: 1}))],
        [("CONNACK", False, 0x99), END],
    ),
    ("MQTT-3.1.4-1", V5, [connect(properties={P.AUTHENTICATION_DATA: b""})], [("CONNACK", False, 0x82), END]),
    (
        "MQTT-3.1.2-3",
        V5,
        [bytes.fromhex("100d00044d515454050300000000 00".replace(" ", ""))],
        [("CONNACK", False, 0x81), END],
    ),
    ("MQTT-3.1.2-15", V5, [connect(will=Will("a", b"", 0, True))], OK5),
    ("MQTT-4.12.0-1", V5, [connect(properties={P.AUTHENTICATION_METHOD: "x"})], [("CONNACK", False, 0x8C), END]),
    ("3.1.1 MQTT-3.1.2-4", V4, [connect(V4, clean=False)], OK5),
    ("MQTT-3.1.2-17", V5, [bytes.fromhex("100e00044d51545405820000000001 78")], REFUSED),
    ("MQTT-3.1.2-19", V5, [bytes.fromhex("100e00044d51545405420000000001 78")], REFUSED),
    ("MQTT-3.1.2-16", V5, [bytes.fromhex("101100044d5154540502000000000178 000179")], REFUSED),
    ("MQTT-3.1.3-3", V5, [bytes.fromhex("100b00044d51545405020000 00")], REFUSED),
    ("MQTT-3.1.3-4", V5, [bytes.fromhex("100e00044d51545405020000000001ff")], REFUSED),
    ("MQTT-3.1.3-11", V5, [bytes.fromhex("101400044d51545405060000000001 78000001ff0000")], REFUSED),
    ("MQTT-3.1.3-12", V5, [bytes.fromhex("101100044d51545405820000000001 780001ff")], REFUSED),
    ("3.1.1 MQTT-3.1.3-11", V4, [bytes.fromhex("101000044d515454048200000001 780001ff")], CLOSED),
    ("3.1.1 MQTT-3.1.4-1", V4, [bytes.fromhex("100b00044d5154540402000000")], CLOSED),
    ("MQTT-3.1.2-18", V5, [bytes.fromhex("101400044d515454058200000000017800 01790001 7a")], REFUSED),
    ("MQTT-3.1.3-7", V5, [connect(client_id="", clean=False)], OK5),
    ("MQTT-3.1.4-2", V5, [connect(will=Will("$x", b""))], [("CONNACK", False, 0x90), END]),
    ("MQTT-3.1.4-5", V5, [connect()], OK5),
    # 3.3 PUBLISH
    ("MQTT-3.3.1-2", V5, [bytes.fromhex("380400016100")], MALFORMED),
    ("MQTT-3.3.1-4", V5, [bytes.fromhex("360600016100070078"[:16])], MALFORMED),
    ("MQTT-3.3.2-2", V5, [pub(0, topic="a/+")], [("DISCONNECT", 0x90), END]),
    ("MQTT-3.3.2-8", V5, [pub(0, properties={P.TOPIC_ALIAS: 0})], [("DISCONNECT", 0x94), END]),
    ("MQTT-3.3.2-9", V5, [pub(0, properties={P.TOPIC_ALIAS: 65})], [("DISCONNECT", 0x94), END]),
    ("MQTT-3.3.2-7", V5, [pub(0, topic="", properties={P.TOPIC_ALIAS: 1})], PROTOCOL),
    (
        "MQTT-3.3.2-12",
        V5,
        [pub(1, topic="a", properties={P.TOPIC_ALIAS: 1}), pub(1, 8, "", properties={P.TOPIC_ALIAS: 1})],
        [("PUBACK", 7, 0), ("PUBACK", 8, 0)],
    ),
    ("MQTT-3.3.2-14", V5, [pub(0, properties={P.RESPONSE_TOPIC: "a/#"})], [("DISCONNECT", 0x90), END]),
    ("MQTT-3.3.4-1", V5, [pub(0), pub(1, 1), pub(2, 2)], [("PUBACK", 1, 0), ("PUBREC", 2, 0)]),
    ("MQTT-3.3.4-6", V5, [bytes.fromhex("300700016102") + b"\x0b\x00x"[:3]], PROTOCOL),
    ("3.3.2.1 empty topic", V5, [pub(0, topic="")], PROTOCOL),
    (
        "3.3.2.3.2 payload format",
        V5,
        [pub(1, payload=b"\xff", properties={P.PAYLOAD_FORMAT: 1})],
        [("PUBACK", 7, 0x99)],
    ),
    ("MQTT-3.3.1-5", V5, [pub(1, retain=True)], [("PUBACK", 7, 0)]),
    ("3.1.1 MQTT-3.3.1-5", V4, [pub(1, retain=True)], [("PUBACK", 7, 0)]),
    ("4.7.2 $ topics", V5, [pub(1, topic="$SYS/x")], [("PUBACK", 7, 0x90)]),
    ("4.7.2 $ topics in 3.1.1", V4, [pub(1, topic="$SYS/x")], [("PUBACK", 7, 0)]),
    ("4.7.2 $ topics, QoS 0", V5, [pub(0, topic="$SYS/x"), pub(1)], [("PUBACK", 7, 0)]),
    # 3.4 to 3.7, 4.3: quality of service
    ("MQTT-4.3.2-4", V5, [pub(1)], [("PUBACK", 7, 0)]),
    ("MQTT-4.3.3-8", V5, [pub(2)], [("PUBREC", 7, 0)]),
    ("MQTT-4.3.3-10", V5, [pub(2), pub(2, dup=True)], [("PUBREC", 7, 0), ("PUBREC", 7, 0)]),
    ("MQTT-4.3.3-11", V5, [pub(2), ack(T.PUBREL)], [("PUBREC", 7, 0), ("PUBCOMP", 7, 0)]),
    ("MQTT-4.3.3-12", V5, [pub(2), ack(T.PUBREL), pub(2)], [("PUBREC", 7, 0), ("PUBCOMP", 7, 0), ("PUBREC", 7, 0)]),
    ("3.7.2.1 unknown id", V5, [ack(T.PUBREL, 99)], [("PUBCOMP", 99, 0x92)]),
    ("3.6.2.1 unknown id", V5, [ack(T.PUBREC, 99)], [("PUBREL", 99, 0x92)]),
    ("MQTT-3.4.2-1", V5, [bytes.fromhex("4003000755")], PROTOCOL),
    ("3.4.2.1 packet id in use", V5, [pub(2), pub(1)], [("PUBREC", 7, 0), ("PUBACK", 7, 0x91)]),
    ("3.4.2.1 packet id in use in 3.1.1", V4, [pub(2), pub(1)], [("PUBREC", 7, 0), END]),
    (
        "MQTT-4.9.0-2",
        V5,
        [pub(2, one) for one in range(1, 1002)],
        [*[("PUBREC", one, 0) for one in range(1, 1001)], ("DISCONNECT", 0x93), END],
    ),
    ("MQTT-4.3.2-5", V5, [pub(1), pub(1, dup=True)], [("PUBACK", 7, 0), ("PUBACK", 7, 0)]),
    ("MQTT-4.3.3-9", V5, [pub(2, topic="$x"), pub(2)], [("PUBREC", 7, 0x90), ("PUBREC", 7, 0)]),
    ("MQTT-3.5.2-1", V5, [ack(T.PUBREC, 7, 0x55)], PROTOCOL),
    ("MQTT-3.6.2-1", V5, [ack(T.PUBREL, 7, 0x80)], PROTOCOL),
    ("MQTT-3.7.2-1", V5, [ack(T.PUBCOMP, 7, 0x80)], PROTOCOL),
    # 3.8 to 3.11: subscriptions
    ("MQTT-3.8.3-2", V5, [bytes.fromhex("8203000500")], PROTOCOL),
    ("MQTT-3.8.3-4", V5, [SubscribePacket(5, (TopicRequest("$share/g/a", no_local=True),))], PROTOCOL),
    ("MQTT-3.8.3-5", V5, [bytes.fromhex("820700050000016140")], MALFORMED),
    ("MQTT-3.8.3-5", V5, [bytes.fromhex("820700050000016103")], MALFORMED),
    ("3.1.1 MQTT-3.8.3-4", V4, [bytes.fromhex("82060005000161 04".replace(" ", ""))], CLOSED),
    ("MQTT-3.8.4-1", V5, [sub()], [("SUBACK", 5, (1,))]),
    (
        "MQTT-3.8.4-5",
        V5,
        [SubscribePacket(5, (TopicRequest("a", 0), TopicRequest("b/#", 2), TopicRequest("$SYS/#", 1)))],
        [("SUBACK", 5, (0, 2, 0x87))],
    ),
    (
        "3.1.1 MQTT-3.9.3-2",
        V4,
        [SubscribePacket(5, (TopicRequest("a", 1), TopicRequest("$x", 1)))],
        [("SUBACK", 5, (1, 0x80))],
    ),
    ("3.8.2.1.2 identifier 0", V5, [bytes.fromhex("8208000502") + b"\x0b\0" + bytes.fromhex("000161")], PROTOCOL),
    ("MQTT-3.10.3-2", V5, [bytes.fromhex("a203000600")], PROTOCOL),
    ("MQTT-3.10.4-4", V5, [sub(), UnsubscribePacket(6, ("a", "b"))], [("SUBACK", 5, (1,)), ("UNSUBACK", 6, (0, 0x11))]),
    ("3.1.1 MQTT-3.10.4-5", V4, [UnsubscribePacket(6, ("b",))], [("UNSUBACK", 6, ())]),
    ("MQTT-4.7.1-1", V5, [sub("a/#/b")], [("DISCONNECT", 0x8F), END]),
    ("MQTT-4.7.1-2", V5, [sub("a+")], [("DISCONNECT", 0x8F), END]),
    ("MQTT-4.7.3-1", V5, [sub("")], [("DISCONNECT", 0x8F), END]),
    ("MQTT-4.8.2-1", V5, [sub("$share//a")], [("DISCONNECT", 0x8F), END]),
    ("MQTT-4.8.2-2", V5, [sub("$share/g+/a")], [("DISCONNECT", 0x8F), END]),
    ("MQTT-3.8.3-1", V5, [bytes.fromhex("82070005000001ff00")], MALFORMED),
    ("MQTT-3.10.3-1", V5, [bytes.fromhex("a2060006000001ff")], MALFORMED),
    (
        "MQTT-3.10.4-6",
        V5,
        [sub("a"), sub("b"), UnsubscribePacket(6, ("b", "x", "a"))],
        [("SUBACK", 5, (1,)), ("SUBACK", 5, (1,)), ("UNSUBACK", 6, (0, 0x11, 0))],
    ),
    # 3.12 to 3.15
    ("MQTT-3.12.4-1", V5, [PingRequest()], [PingResponse()]),
    ("MQTT-3.14.0-1", V5, [Disconnect()], CLOSED),
    ("MQTT-3.14.1-1", V5, [b"\xe1\0"], MALFORMED),
    ("MQTT-3.14.2-1", V5, [Disconnect(5)], PROTOCOL),
    ("MQTT-3.15.1-1", V5, [b"\xf1\0"], MALFORMED),
    ("MQTT-3.15.2-1", V5, [b"\xf0\x02\x55\0"], PROTOCOL),
    ("3.14.2.2.2 session expiry", V5, [Disconnect(0, {P.SESSION_EXPIRY: 9})], PROTOCOL),
    ("3.15 AUTH unasked", V5, [b"\xf0\0"], PROTOCOL),
    ("3.1.1 type 15", V4, [b"\xf0\0"], CLOSED),
    ("2.2.2.2 property twice", V5, [bytes.fromhex("30080001610401000100")], PROTOCOL),
    ("2.2.2.2 property elsewhere", V5, [bytes.fromhex("300700016103210001")], MALFORMED),
    ("server packets from a client", V5, [Connack(False, 0)], PROTOCOL),
]


@pytest.mark.parametrize(
    ("statement", "version", "sent", "expected"), ROWS, ids=[f"{n}-{one[0]}" for n, one in enumerate(ROWS)]
)
def test_statement(statement: str, version: int, sent: list[Packet | bytes], expected: list[Any]) -> None:
    talk = Dialogue(version)
    begins = isinstance(sent[0], Connect) or (
        statement.startswith(("MQTT-3.1.", "3.1.1 MQTT-3.1.")) and isinstance(sent[0], bytes)
    )
    if not begins:
        assert talk.send(encode(connect(version), version)) == OK5
    got: list[Any] = []
    for one in sent:
        got += talk.send(one if isinstance(one, bytes) else encode(one, version))
        if END in got:
            break
    assert got == expected


def test_answers_keep_the_order_of_the_publications() -> None:
    """[MQTT-4.6.0-2], [MQTT-4.6.0-3]: one that is refused at once is answered after those before it."""
    talk = Dialogue()
    talk.send(encode(connect(), V5))
    data = encode(pub(1, 1), V5) + encode(pub(1, 2, "$x"), V5) + encode(pub(2, 3), V5)
    assert talk.send(data) == [("PUBACK", 1, 0), ("PUBACK", 2, 0x90), ("PUBREC", 3, 0)]


@pytest.mark.parametrize("qos", [1, 2])
def test_clients_that_cannot_know_the_receive_maximum_have_all_packet_ids(qos: int) -> None:
    """MQTT 3.1.1 has no receive maximum; some clients send as much as they have."""
    talk = Dialogue(V4)
    talk.send(encode(connect(V4), V4))
    data = b"".join(encode(pub(qos, one), V4) for one in range(1, 3001))
    assert talk.send(data) == [("PUBACK" if qos == 1 else "PUBREC", one, 0) for one in range(1, 3001)]


def test_what_stands_before_an_error_is_done() -> None:
    talk = Dialogue()
    talk.send(encode(connect(), V5))
    talk.send(encode(pub(0), V5) + b"\x36\x01\0")
    frames = FrameSplitter(1 << 20).feed(talk.session.take_frames())
    assert [type for type, *_ in frames] == [FrameType.PUBLISH]


def test_nothing_after_a_refused_connect_is_done() -> None:
    """[MQTT-3.1.4-6], [MQTT-3.2.0-2]."""
    talk = Dialogue()
    refused = connect(properties={P.AUTHENTICATION_METHOD: "x"})
    assert talk.send(encode(refused, V5) + encode(pub(1), V5)) == [("CONNACK", False, 0x8C), END]
    assert talk.send(encode(connect(), V5)) == []
    assert [type for type, _ in talk.broker.frames if type == FrameType.PUBLISH] == []


def test_nothing_after_disconnect_is_done() -> None:
    """[MQTT-3.14.4-1], [MQTT-3.14.4-2]."""
    talk = Dialogue()
    talk.send(encode(connect(), V5))
    assert talk.send(encode(Disconnect(), V5) + encode(pub(1), V5)) == CLOSED
    assert [type for type, _ in talk.broker.frames if type == FrameType.PUBLISH] == []


def test_bytes_before_the_login_are_bounded() -> None:
    talk = Dialogue()
    assert talk.send(b"\x10\x80\x80\x04") == CLOSED
    talk = Dialogue()
    talk.session.receive(encode(connect(), V5), 0)
    talk.session.receive(b"\xc0\0" * 32_000, 0)
    with pytest.raises(TidingsError):
        talk.session.receive(b"\xc0\0" * 1_000, 0)


def test_the_keep_alive_becomes_the_silence_that_the_broker_watches() -> None:
    """[MQTT-3.1.2-22]: one and a half times the keep alive; the broker waits twice what it is told."""
    talk = Dialogue()
    talk.send(encode(connect(keep_alive=10), V5))
    hello = next(fields for type, fields in talk.broker.frames if type == FrameType.HELLO)
    assert hello["heartbeat_ms"] == 7_500


def test_a_client_that_wants_no_reasons_gets_none() -> None:
    """[MQTT-3.1.2-29]."""
    for wanted in (0, 1):
        talk = Dialogue()
        talk.send(encode(connect(properties={P.REQUEST_PROBLEM: wanted}), V5))
        talk.session.receive(encode(pub(1, 1, "$x"), V5), 0)
        splitter = PacketSplitter(1 << 20)
        splitter.feed(talk.session.take_output())
        ((first, content),) = splitter.packets()
        answer = decode(first, content, V5)
        assert isinstance(answer, PublishAnswer)
        assert (Property.REASON_STRING in answer.properties) == bool(wanted)


def test_what_is_sent_at_once_is_carried_out_in_order() -> None:
    """[MQTT-3.8.4-3], [MQTT-3.10.4-1]: packets that name the same filter do not wait for each other's answers."""
    talk = Dialogue()
    talk.send(encode(connect(), V5))
    packets = (sub("a"), sub("a", 0), UnsubscribePacket(6, ("a",)), UnsubscribePacket(7, ("a",)))
    answers = [("SUBACK", 5, (1,)), ("SUBACK", 5, (0,)), ("UNSUBACK", 6, (0,)), ("UNSUBACK", 7, (0x11,))]
    assert talk.send(b"".join(encode(one, V5) for one in packets)) == answers
    twice = SubscribePacket(5, (TopicRequest("b", 1), TopicRequest("b", 0)))
    assert talk.send(encode(twice, V5)) == [("SUBACK", 5, (1, 0))]
    asked = [fields for type, fields in talk.broker.frames if type == FrameType.SUBSCRIBE]
    assert [fields["destination"] for fields in asked].count("topic:b") == 1


@pytest.mark.parametrize(
    ("version", "asked", "told", "kept_ms"), [(V5, 120, 60, 45_000), (V5, 60, None, 45_000), (V4, 120, None, 90_000)]
)
def test_the_broker_bounds_the_keep_alive(version: int, asked: int, told: int | None, kept_ms: int) -> None:
    """[MQTT-3.2.2-21], [MQTT-3.2.2-22]: it says so; clients of 3.1.1 cannot be told."""
    talk = Dialogue(version)
    talk.session.receive(encode(connect(version, keep_alive=asked), version), 0)
    while frames := talk.session.take_frames():
        talk.session.frames(talk.broker.answer(frames), 0)
    splitter = PacketSplitter(1 << 20)
    splitter.feed(talk.session.take_output())
    ((first, content),) = splitter.packets()
    answer = decode(first, content, version)
    assert isinstance(answer, Connack)
    assert answer.properties.get(P.SERVER_KEEP_ALIVE) == told
    hello = next(fields for type, fields in talk.broker.frames if type == FrameType.HELLO)
    assert hello["heartbeat_ms"] == kept_ms


@pytest.mark.parametrize(("reason", "left"), [(0, 0), (4, 1), (0x80, 1), (0x81, 1)])
def test_the_will_goes_with_a_normal_disconnection_only(reason: int, left: int) -> None:
    """[MQTT-3.14.4-3], [MQTT-3.1.2-8], [MQTT-3.1.2-10]."""
    talk = Dialogue()
    talk.send(encode(connect(will=Will("a", b"gone", 1)), V5))
    talk.send(encode(Disconnect(reason), V5))
    lingers = [fields for type, fields in talk.broker.frames if type == FrameType.LINGER]
    assert "will" in lingers[0]
    assert ("will" in lingers[-1]) == bool(left)
