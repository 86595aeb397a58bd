"""Incoming publications of one connection: aliases, QoS 1 and 2, and the order of their answers.

`exactly_once` takes those of QoS 2 in a session that outlives the connection.

PUBACK and PUBREC are sent in the order of the PUBLISH packets [MQTT-4.6.0-2, -3], each when the broker has confirmed
the message. Packet identifiers of QoS 2 are kept from PUBLISH to PUBREL.
"""

from collections.abc import Callable
from functools import partial

from tidings.errors import TidingsError
from tidings.kernel.codec import encode_message
from tidings.kernel.mqtt import MqttPublications
from tidings.model.destination import Destination
from tidings.model.message_id import MessageId
from tidings.protocols.mqtt.exactly_once import ExactlyOnceReceiver
from tidings.protocols.mqtt.mapping import destination_of, message_of
from tidings.protocols.mqtt.packets import V5, Packet, PublishAnswer, PublishPacket
from tidings.protocols.mqtt.properties import PacketType, Property
from tidings.protocols.mqtt.reasons import MqttError, Reason, reason_of
from tidings.protocols.native.peer import NativePeer

RECEIVE_MAXIMUM = 1_000  # of MQTT 5, which tells the client
PACKET_IDS_MAX = 0xFFFF
TOPIC_ALIAS_MAXIMUM = 64
DESTINATIONS_MAX = 1_000  # remembered by topic name
MESSAGE_OVERHEAD = 64  # bytes of a native frame beside its message


def unanswered_max(version: int) -> int:
    """Publications of a client in flight; before MQTT 5 it knows no limit but that of packet identifiers."""
    return RECEIVE_MAXIMUM if version == V5 else PACKET_IDS_MAX


class Publisher:
    """`plain` has what the kernel's path shares with this one; `settled` is called when answers may be ready; `fail`
    ends the connection.
    """

    def __init__(
        self,
        peer: NativePeer,
        plain: MqttPublications,
        version: int,
        frame_bytes_max: int,
        next_id: Callable[[], MessageId],
        send: Callable[[Packet], None],
        encode: Callable[[Packet], bytes],
        settled: Callable[[], None],
        fail: Callable[[TidingsError], None],
        exactly_once: ExactlyOnceReceiver | None,
    ) -> None:
        self._peer, self._plain, self._version, self._frame_bytes_max = peer, plain, version, frame_bytes_max
        self._next_id, self._send, self._encode_packet, self._fail = next_id, send, encode, fail
        self._on_settled = settled
        self._destinations: dict[str, Destination] = {}
        self._exactly_once = exactly_once
        # Packet ids of QoS 2 that wait for PUBREL.
        self._received: set[int] = set() if exactly_once is None else set(exactly_once.received)
        plain.received = len(self._received)
        peer.on_foreign_refusal = self._refused

    def publish(self, packet: PublishPacket) -> None:
        topic = self._topic(packet)
        reserved = topic.startswith("$")  # nobody may exchange messages by such topics [MQTT-4.7.2-1]
        if not packet.qos:
            if reserved:
                return
            self._peer.publish(self._encode(packet, topic), None)
            return
        if packet.packet_id in self._received and packet.qos == 1:
            self._send_in_use(packet.packet_id)
            return
        if packet.packet_id in self._received:  # sent again: the message was taken [MQTT-4.3.3-10]
            if not self._plain.waits_for_pubrec(packet.packet_id):
                self._send(PublishAnswer(PacketType.PUBREC, packet.packet_id))
            return
        most = unanswered_max(self._version)
        if self._plain.unanswered + len(self._received) >= most:
            raise MqttError(Reason.RECEIVE_MAXIMUM, f"more than {most} publications in flight")
        settled = partial(self._settled, self._plain.add_unanswered(packet.packet_id, packet.qos), packet)
        if reserved and self._version != V5:  # there is no negative answer but the end of the connection
            settled(None)
            return
        try:
            message = self._encode(packet, topic)
        except TidingsError as error:
            settled(error)
            return
        if packet.qos == 2:
            self._note_received(packet.packet_id)
        if packet.qos == 2 and self._exactly_once is not None:
            self._exactly_once.publish(packet.packet_id, message, settled)
        else:
            self._peer.publish(message, settled)

    def _send_in_use(self, packet_id: int) -> None:
        """The packet id is that of a publication with QoS 2 that is not complete."""
        if self._version != V5:
            raise MqttError(Reason.PACKET_ID_IN_USE, f"packet identifier {packet_id} is in use")
        self._send(PublishAnswer(PacketType.PUBACK, packet_id, Reason.PACKET_ID_IN_USE))

    def _note_received(self, packet_id: int) -> None:
        self._received.add(packet_id)
        self._plain.received = len(self._received)

    def _forget_received(self, packet_id: int) -> None:
        self._received.discard(packet_id)
        self._plain.received = len(self._received)

    def release(self, packet: PublishAnswer) -> None:
        """PUBREL: the packet id may be used again."""
        known = packet.packet_id in self._received
        if known and self._exactly_once is not None:
            self._exactly_once.release(packet.packet_id, lambda: self._released(packet.packet_id, Reason.SUCCESS))
        else:
            self._released(packet.packet_id, Reason.SUCCESS if known else Reason.PACKET_ID_UNKNOWN)

    def _released(self, packet_id: int, reason: Reason) -> None:
        self._forget_received(packet_id)
        self._send(PublishAnswer(PacketType.PUBCOMP, packet_id, reason))

    def _topic(self, packet: PublishPacket) -> str:
        alias = packet.properties.get(Property.TOPIC_ALIAS)
        if alias is None:
            return packet.topic
        if alias > TOPIC_ALIAS_MAXIMUM:  # [MQTT-3.3.2-9]
            raise MqttError(Reason.TOPIC_ALIAS, f"topic alias {alias} exceeds {TOPIC_ALIAS_MAXIMUM}")
        if packet.topic:
            self._plain.set_topic(alias, packet.topic)
        elif not self._plain.topic(alias):
            raise MqttError(Reason.PROTOCOL_ERROR, f"topic alias {alias} has no topic")
        return self._plain.topic(alias)

    def _encode(self, packet: PublishPacket, topic: str) -> bytes:
        destination = self._destinations.get(topic)
        if destination is None:
            destination = destination_of(topic)
            if len(self._destinations) >= DESTINATIONS_MAX:
                self._destinations.clear()
            self._destinations[topic] = destination
        message = encode_message(message_of(packet, destination, self._next_id()))
        if len(message) + MESSAGE_OVERHEAD > self._frame_bytes_max:
            raise MqttError(Reason.PACKET_TOO_LARGE, f"message exceeds {self._frame_bytes_max} bytes")
        return message

    def _settled(self, number: int, packet: PublishPacket, error: TidingsError | None) -> None:
        answer = b""
        if error is not None:
            self._forget_received(packet.packet_id)
            if self._version != V5:  # there is no negative answer: end the connection [3.1.1 MQTT-3.3.5-2]
                self._fail(error)
                return
            answer = self._encode_packet(_refusal(packet.packet_id, packet.qos, error))
        self._plain.settle(number, answer)
        self._on_settled()

    def _refused(self, receipt: int, error: TidingsError) -> None:
        """A publication that the kernel has taken."""
        packet_id = self._plain.unanswered_id(receipt)
        if packet_id is not None:
            self._settled(receipt, PublishPacket("", b"", 1, packet_id=packet_id), error)


def _refusal(packet_id: int, qos: int, error: TidingsError) -> PublishAnswer:
    why = {Property.REASON_STRING: f"{error.code}: {error.reason}"}
    type = PacketType.PUBREC if qos == 2 else PacketType.PUBACK
    return PublishAnswer(type, packet_id, _answer_reason(error), why)


def _answer_reason(error: TidingsError) -> Reason:
    """The reason code for PUBACK and PUBREC, which know only some."""
    reason = reason_of(error)
    allowed = (Reason.NOT_AUTHORIZED, Reason.TOPIC_NAME, Reason.QUOTA, Reason.PAYLOAD_FORMAT)
    return reason if reason in allowed else Reason.UNSPECIFIED
