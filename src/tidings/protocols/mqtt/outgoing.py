"""Messages on their way to an MQTT client: packet ids, flow control, topic aliases, and the client's answers.

Messages of QoS 1 and 2 wait here for a packet id while the client's receive maximum is used up. In a session that
outlives its connection a message's packet id follows from its message id. So a message that comes again, after a lost
connection or a crash of the broker, comes with the packet id that it had; what else has that packet id waits until
it is free. Packet ids between PUBREC and PUBCOMP are in a record with their message ids, written before PUBREL:

    PUBLISH ──► PUBREC ──► KEEP mqtt/out and acknowledged ──on disk──► PUBREL ──► PUBCOMP ──► KEEP ──on disk──► id free
"""

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from tidings.errors import TidingsError
from tidings.kernel.mqtt import MqttPublications
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.kept_record import KeptRecord
from tidings.protocols.mqtt.packets import Connect, Packet, PublishAnswer, PublishPacket
from tidings.protocols.mqtt.properties import PacketType, Property
from tidings.protocols.mqtt.reasons import Reason
from tidings.protocols.mqtt.session_record import OUTGOING, MqttSubscription
from tidings.protocols.native.peer import NativePeer

CREDIT = 128  # messages of a subscription with acknowledgements that the broker may send ahead
IN_FLIGHT_MAX = 1_000
ALIASES_MAX = 64
_RELEASED = struct.Struct("<H16s")


def in_flight_max(connect: Connect) -> int:
    asked: int = connect.properties.get(Property.RECEIVE_MAXIMUM, 0xFFFF)
    return min(asked, IN_FLIGHT_MAX)


def maximum_packet(connect: Connect) -> int:
    """0: any size."""
    most: int = connect.properties.get(Property.MAXIMUM_PACKET, 0)
    return most


@dataclass(slots=True)
class OutgoingMessage:
    subscription: MqttSubscription | None  # None: of an earlier connection
    number: int  # of the broker's subscription
    tag: int  # 0: the broker waits for no acknowledgement
    qos: int
    message_id: bytes
    packet: PublishPacket
    expires_ms: int | None = None
    waited: bool = False  # for a packet id
    again: bool = False  # it may have been sent before
    received: bool = False  # PUBREC has come
    released: bool = False  # and is on disk, in a session that outlives its connection
    complete: bool = False  # PUBCOMP has come


@dataclass(slots=True)
class Unfinished:
    """In the broker's memory while a client is away: what it has been sent, and retained messages among that."""

    sent: dict[int, bytes]  # message ids by packet id
    retained: list[OutgoingMessage]


class Outgoing:
    """`plain` has what the kernel's path shares with this one."""

    def __init__(
        self,
        peer: NativePeer,
        plain: MqttPublications,
        connect: Connect,
        send: Callable[[Packet], None],
        write: Callable[[bytes], None],
        fail: Callable[[TidingsError], None],
        now_ms: Callable[[], int],
        *,
        persistent: bool,
    ) -> None:
        self._peer, self._plain, self._send, self._write = peer, plain, send, write
        self._now_ms = now_ms
        self._version = connect.version
        self._in_flight_max, self._bytes_max = in_flight_max(connect), maximum_packet(connect)
        self._in_flight: dict[int, OutgoingMessage] = {}  # that the kernel has not sent
        self._received_ids: set[bytes] = set()  # message ids between PUBREC and PUBCOMP
        self._waiting: deque[OutgoingMessage] | tuple[()] = ()  # an idle connection needs none
        self._persistent = plain.persistent = persistent
        self._record = KeptRecord(peer, OUTGOING, self._released_ids, fail)
        self.waiting_bytes = 0

    # --- a session that goes on -----------------------------------------------------------------------------------

    def resume(self, record: bytes, before: Unfinished) -> None:
        """Go on where the last connection ended: what was received is released again [MQTT-4.4.0-1]."""
        for packet_id, message_id in before.sent.items():
            self._plain.add_earlier(packet_id, message_id)
        for packet_id, message_id in _RELEASED.iter_unpack(record):
            packet = PublishPacket("", b"", 2, packet_id=packet_id)
            message = OutgoingMessage(None, 0, 0, 2, message_id, packet, received=True, released=True)
            self._add_in_flight(packet_id, message)
            self._hold(message_id)
            self._send(PublishAnswer(PacketType.PUBREL, packet_id))
        for one in before.retained:
            self.offer(replace(one, subscription=None, again=True))

    def keep_shared(self) -> None:
        """The connection ends: what this member of a group was sent with QoS 2 is its own, and nobody else's.

        [MQTT-4.8.2-4], [MQTT-4.8.2-5].
        """
        for one in self._in_flight.values():
            subscription = one.subscription
            if one.tag and one.qos == 2 and not one.received and subscription is not None and subscription.shared:
                self._peer.ack(one.number, one.tag)
                one.tag = 0

    def unfinished(self) -> Unfinished:
        open = {id: one for id, one in self._in_flight.items() if not one.received}
        retained = [one for one in (*open.values(), *self._waiting) if not one.tag]
        sent = {id: one.message_id for id, one in open.items()}
        return Unfinished(sent | self._plain.sent(), retained)

    def _released_ids(self) -> bytes:
        found = [(id, one) for id, one in self._in_flight.items() if one.received and not one.complete]
        return b"".join(_RELEASED.pack(id, one.message_id) for id, one in found)

    # --- to the client --------------------------------------------------------------------------------------------

    def offer(self, message: OutgoingMessage) -> None:
        if not message.qos:
            self._put(message.packet)
            self.done(message)
        elif self._persistent and message.message_id in self._received_ids:
            self.done(message)  # the client has it
        else:
            if not isinstance(self._waiting, deque):
                self._waiting = deque()
            self._waiting.append(message)
            self._plain.waiting += 1
            self.waiting_bytes += len(message.packet.payload)
            self.next()
            message.waited = bool(self._waiting) and self._waiting[-1] is message

    def next(self) -> None:
        """Send what waits, as far as packet ids are free."""
        while self._waiting and self._plain.in_flight < self._in_flight_max:
            assert isinstance(self._waiting, deque)
            message = self._waiting[0]
            packet_id = self._plain.packet_id(message.message_id)
            if self._plain.is_in_flight(packet_id):
                return
            self._waiting.popleft()
            self._plain.waiting -= 1
            self.waiting_bytes -= len(message.packet.payload)
            if message.subscription is not None and message.subscription.ended:
                continue
            again = message.again or self._plain.was_sent(packet_id, message.message_id)
            if again or self._is_due(message):
                self._put_in_flight(message, packet_id, again=again)
            else:
                self.done(message)  # [MQTT-3.3.2-5]

    def _is_due(self, message: OutgoingMessage) -> bool:
        """False: it has expired while it waited. What is left of its time is said as it is now [MQTT-3.3.2-6]."""
        expires_ms = message.expires_ms
        if expires_ms is None or not message.waited:
            return True
        left_s = (expires_ms - self._now_ms() + 999) // 1000
        if Property.MESSAGE_EXPIRY in message.packet.properties:
            properties = {**message.packet.properties, Property.MESSAGE_EXPIRY: max(left_s, 0)}
            message.packet = replace(message.packet, properties=properties)
        return left_s > 0

    def _add_in_flight(self, packet_id: int, message: OutgoingMessage) -> None:
        self._in_flight[packet_id] = message
        self._plain.put(packet_id)

    def _remove_in_flight(self, packet_id: int) -> None:
        del self._in_flight[packet_id]
        self._plain.free(packet_id)

    def _hold(self, message_id: bytes) -> None:
        self._received_ids.add(message_id)
        self._plain.held = len(self._received_ids)

    def _put_in_flight(self, message: OutgoingMessage, packet_id: int, *, again: bool) -> None:
        message.packet = replace(message.packet, dup=again, packet_id=packet_id)
        if self._put(message.packet):
            self._add_in_flight(packet_id, message)
        else:
            self.done(message)

    def _put(self, packet: PublishPacket) -> bool:
        """Write the packet; False if it is larger than the client allows, which counts as sent [MQTT-3.1.2-25]."""
        alias = self._plain.alias(packet.topic)
        new = 0 if alias else self._plain.next_alias
        aliased = packet
        if alias or new:
            properties = {**packet.properties, Property.TOPIC_ALIAS: alias or new}
            aliased = replace(packet, topic=packet.topic if new else "", properties=properties)
        data = encode(aliased, self._version)
        if self._bytes_max and len(data) > self._bytes_max:
            return False
        if new:
            self._plain.add_alias(packet.topic)
        self._write(data)
        return True

    def done(self, message: OutgoingMessage) -> None:
        """The message is the client's, or nobody's: acknowledge it and return its credit."""
        subscription, number = message.subscription, message.number
        if subscription is None or subscription.ended or not number:
            return
        if message.tag:
            self._peer.ack(number, message.tag)
        if more := self._plain.use(number):
            self._peer.credit(number, more)

    # --- the client's answers -------------------------------------------------------------------------------------

    def answered(self, packet: PublishAnswer) -> None:
        """PUBACK, PUBREC or PUBCOMP."""
        message = self._in_flight.get(packet.packet_id)
        match packet.type:
            case PacketType.PUBACK:
                if message is not None and message.qos == 1:
                    self._finish(packet.packet_id, message)
                elif self._plain.acknowledge(packet.packet_id):
                    self._peer.forward(self._plain.take_frames())
                    self.next()
            case PacketType.PUBREC:
                self._received(packet, message)
            case PacketType.PUBCOMP:
                if message is not None and message.released and not message.complete:
                    self._completed(packet.packet_id, message)

    def _received(self, packet: PublishAnswer, message: OutgoingMessage | None) -> None:
        if message is None or message.qos != 2:
            if packet.reason < 0x80:
                self._send(PublishAnswer(PacketType.PUBREL, packet.packet_id, Reason.PACKET_ID_UNKNOWN))
        elif packet.reason >= 0x80:
            if not message.received:
                self._finish(packet.packet_id, message)
        elif message.released:
            self._send(PublishAnswer(PacketType.PUBREL, packet.packet_id))
        elif not message.received:
            message.received = True
            if self._persistent:
                self._hold(message.message_id)
                subscription, ack = message.subscription, (message.number, message.tag)
                open = subscription is not None and not subscription.ended and message.tag > 0
                self._record.changed(lambda: self._release(packet.packet_id, message), ack=ack if open else None)
                message.tag = 0
            else:
                self._release(packet.packet_id, message)

    def _release(self, packet_id: int, message: OutgoingMessage) -> None:
        message.released = True
        self.done(message)
        self._send(PublishAnswer(PacketType.PUBREL, packet_id))

    def _completed(self, packet_id: int, message: OutgoingMessage) -> None:
        message.complete = True
        if self._persistent:
            self._record.changed(lambda: self._free(packet_id, message))
        else:
            self._free(packet_id, message)

    def _free(self, packet_id: int, message: OutgoingMessage) -> None:
        self._received_ids.discard(message.message_id)
        self._plain.held = len(self._received_ids)
        self._remove_in_flight(packet_id)
        self.next()

    def _finish(self, packet_id: int, message: OutgoingMessage) -> None:
        self._remove_in_flight(packet_id)
        self.done(message)
        self.next()
