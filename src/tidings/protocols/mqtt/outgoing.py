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
from zlib import crc32

from tidings.errors import TidingsError
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


@dataclass(slots=True)
class OutgoingMessage:
    subscription: MqttSubscription | None  # None: of an earlier connection
    number: int  # of the broker's subscription
    tag: int  # 0: the broker waits for no acknowledgement
    qos: int
    message_id: bytes
    packet: PublishPacket
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
    def __init__(
        self,
        peer: NativePeer,
        connect: Connect,
        send: Callable[[Packet], None],
        write: Callable[[bytes], None],
        fail: Callable[[TidingsError], None],
        *,
        persistent: bool,
    ) -> None:
        properties = connect.properties
        self._peer, self._send, self._write, self._version = peer, send, write, connect.version
        self._in_flight_max = min(properties.get(Property.RECEIVE_MAXIMUM, 0xFFFF), IN_FLIGHT_MAX)
        self._bytes_max: int = properties.get(Property.MAXIMUM_PACKET, 0)
        self._aliases_max = min(properties.get(Property.TOPIC_ALIAS_MAXIMUM, 0), ALIASES_MAX)
        self._aliases: dict[str, int] = {}
        self._in_flight: dict[int, OutgoingMessage] = {}
        self._received_ids: set[bytes] = set()  # message ids between PUBREC and PUBCOMP
        self._before = Unfinished({}, [])
        self._packet_id = 0
        self._waiting: deque[OutgoingMessage] = deque()
        self._persistent = persistent
        self._record = KeptRecord(peer, OUTGOING, self._released_ids, fail)
        self.waiting_bytes = 0

    # --- a session that goes on -----------------------------------------------------------------------------------

    def resume(self, record: bytes, before: Unfinished) -> None:
        """Go on where the last connection ended: what was received is released again [MQTT-4.4.0-1]."""
        self._before = before
        for packet_id, message_id in _RELEASED.iter_unpack(record):
            packet = PublishPacket("", b"", 2, packet_id=packet_id)
            self._in_flight[packet_id] = OutgoingMessage(
                None, 0, 0, 2, message_id, packet, received=True, released=True
            )
            self._received_ids.add(message_id)
            self._send(PublishAnswer(PacketType.PUBREL, packet_id))
        for one in before.retained:
            self.offer(replace(one, subscription=None, again=True))

    def unfinished(self) -> Unfinished:
        open = {id: one for id, one in self._in_flight.items() if not one.received}
        retained = [one for one in (*open.values(), *self._waiting) if not one.tag]
        return Unfinished({id: one.message_id for id, one in open.items()}, retained)

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
            self._waiting.append(message)
            self.waiting_bytes += len(message.packet.payload)
            self._next()

    def _next(self) -> None:
        while self._waiting and len(self._in_flight) < self._in_flight_max:
            message = self._waiting[0]
            packet_id = self._id_for(message)
            if packet_id in self._in_flight:
                return
            self._waiting.popleft()
            self.waiting_bytes -= len(message.packet.payload)
            if message.subscription is None or not message.subscription.ended:
                self._put_in_flight(message, packet_id)

    def _id_for(self, message: OutgoingMessage) -> int:
        if self._persistent:
            return crc32(message.message_id) % 0xFFFF + 1
        while True:
            self._packet_id = self._packet_id % 0xFFFF + 1
            if self._packet_id not in self._in_flight:
                return self._packet_id

    def _put_in_flight(self, message: OutgoingMessage, packet_id: int) -> None:
        again = message.again or self._before.sent.pop(packet_id, None) == message.message_id
        message.packet = replace(message.packet, dup=again, packet_id=packet_id)
        if self._put(message.packet):
            self._in_flight[packet_id] = message
        else:
            self.done(message)

    def _put(self, packet: PublishPacket) -> bool:
        """Write the packet; False if it is larger than the client allows, which counts as sent [MQTT-3.1.2-25]."""
        topic, aliased = packet.topic, packet
        alias = self._aliases.get(topic, 0)
        new = not alias and len(self._aliases) < self._aliases_max
        if new:
            alias = len(self._aliases) + 1
        if alias:
            properties = {**packet.properties, Property.TOPIC_ALIAS: alias}
            aliased = replace(packet, topic=topic if new else "", properties=properties)
        data = encode(aliased, self._version)
        if self._bytes_max and len(data) > self._bytes_max:
            return False
        if new:
            self._aliases[topic] = alias
        self._write(data)
        return True

    def done(self, message: OutgoingMessage) -> None:
        """The message is the client's, or nobody's: acknowledge it and return its credit."""
        subscription, number = message.subscription, message.number
        if subscription is None or subscription.ended or not number:
            return
        if message.tag:
            self._peer.ack(number, message.tag)
        if subscription.limited:
            used = subscription.used.get(number, 0) + 1
            if used >= CREDIT // 2:
                self._peer.credit(number, used)
                used = 0
            subscription.used[number] = used

    # --- the client's answers -------------------------------------------------------------------------------------

    def answered(self, packet: PublishAnswer) -> None:
        """PUBACK, PUBREC or PUBCOMP."""
        message = self._in_flight.get(packet.packet_id)
        match packet.type:
            case PacketType.PUBACK:
                if message is not None and message.qos == 1:
                    self._finish(packet.packet_id, message)
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
                self._received_ids.add(message.message_id)
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
        del self._in_flight[packet_id]
        self._next()

    def _finish(self, packet_id: int, message: OutgoingMessage) -> None:
        del self._in_flight[packet_id]
        self.done(message)
        self._next()
