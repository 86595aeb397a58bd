"""Subscriptions of one connection, and what is delivered by them.

A topic filter becomes one subscription of the broker, or two (`a/#` includes `a`). Messages of QoS 1 and 2 wait here
for a packet id while the client's receive maximum is used up; the broker sends as many as it has credit for.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tidings.errors import RemoteError
from tidings.kernel.codec import decode_message
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.filters import both, selector_of
from tidings.protocols.mqtt.mapping import pairs_of, properties_of, qos_of, user_property
from tidings.protocols.mqtt.packets import (
    V5,
    Connect,
    Packet,
    PublishAnswer,
    PublishPacket,
    SubscribePacket,
    SubscriptionAnswer,
    TopicRequest,
    UnsubscribePacket,
)
from tidings.protocols.mqtt.properties import PacketType, Property
from tidings.protocols.mqtt.reasons import MqttError, Reason, reason_of
from tidings.protocols.mqtt.topics import SHARE, patterns, split_conditions, to_topic
from tidings.protocols.native.frames import FrameType
from tidings.protocols.native.peer import Delivered, Fields, NativePeer

CREDIT = 128  # messages of a subscription with acknowledgements that the broker may send ahead
IN_FLIGHT_MAX = 1_000
ALIASES_MAX = 64


@dataclass(slots=True)
class MqttSubscription:
    filter: str
    qos: int
    identifier: int  # 0: none
    shared: str
    selector: str
    policy: str
    no_local: bool
    retain_as_published: bool
    patterns: tuple[str, ...]
    numbers: list[int] = field(default_factory=list)  # of the broker's subscriptions
    used: dict[int, int] = field(default_factory=dict)  # credit to return, by number
    ended: bool = False

    @property
    def limited(self) -> bool:
        """Messages come by credit."""
        return self.qos > 0 or bool(self.shared)


@dataclass(slots=True)
class _InFlight:
    subscription: MqttSubscription
    number: int
    tag: int
    qos: int
    released: bool = False  # PUBREC has come


class MqttSubscriber:
    def __init__(self, peer: NativePeer, connect: Connect, send: Callable[[Packet], None]) -> None:
        properties = connect.properties
        self._peer, self._send, self._version = peer, send, connect.version
        self._in_flight_max = min(properties.get(Property.RECEIVE_MAXIMUM, 0xFFFF), IN_FLIGHT_MAX)
        self._bytes_max: int = properties.get(Property.MAXIMUM_PACKET, 0)
        self._aliases_max = min(properties.get(Property.TOPIC_ALIAS_MAXIMUM, 0), ALIASES_MAX)
        self._aliases: dict[str, int] = {}
        self._by_filter: dict[str, MqttSubscription] = {}
        self._by_number: dict[int, MqttSubscription] = {}
        self._next_number = 0
        self._in_flight: dict[int, _InFlight] = {}
        self._packet_id = 0
        self._waiting: deque[tuple[_InFlight, PublishPacket]] = deque()
        self.waiting_bytes = 0
        self.output: list[bytes] = []

    # --- SUBSCRIBE and UNSUBSCRIBE --------------------------------------------------------------------------------

    def subscribe(self, packet: SubscribePacket) -> None:
        reasons: list[int | None] = [None] * len(packet.topics)

        def answered(place: int, reason: int) -> None:
            reasons[place] = reason
            if None not in reasons:
                done = tuple(one if one is not None else Reason.UNSPECIFIED for one in reasons)
                if self._version != V5:
                    done = tuple(one if one <= 2 else Reason.UNSPECIFIED for one in done)
                self._send(SubscriptionAnswer(PacketType.SUBACK, packet.packet_id, done))

        for place, topic in enumerate(packet.topics):
            try:
                wanted = self._plan(topic, packet)
            except MqttError as error:
                answered(place, error.mqtt_reason)
            else:
                self._subscribe(wanted, partial(answered, place))

    def _plan(self, topic: TopicRequest, packet: SubscribePacket) -> MqttSubscription:
        name, conditions = split_conditions(topic.filter)
        pairs = pairs_of(packet.properties)
        selector = both("" if conditions is None else selector_of(conditions), user_property(pairs, "selector"))
        shared = ""
        if name.startswith(SHARE):
            group, _, name = name.removeprefix(SHARE).partition("/")
            shared = f"{group}/{name}"
        elif name.startswith("$"):
            raise MqttError(Reason.NOT_AUTHORIZED, "topics that begin with $ cannot be subscribed to")
        return MqttSubscription(
            topic.filter,
            topic.qos,
            packet.properties.get(Property.SUBSCRIPTION_ID, 0),
            shared,
            selector,
            user_property(pairs, "slow-policy"),
            topic.no_local,
            topic.retain_as_published,
            patterns(name),
        )

    def _subscribe(self, wanted: MqttSubscription, answered: Callable[[int], None]) -> None:
        """Subscribe with the broker; a subscription of the same filter is replaced [MQTT-3.8.4-3]."""
        waits, errors = len(wanted.patterns), list[RemoteError]()

        def on_answer(answer: Fields | RemoteError) -> None:
            nonlocal waits
            waits -= 1
            if isinstance(answer, RemoteError):
                errors.append(answer)
            if not waits:
                answered(self._subscribed(wanted, errors))

        for each, pattern in enumerate(wanted.patterns):
            self._next_number += 1
            wanted.numbers.append(self._next_number)
            self._by_number[self._next_number] = wanted
            fields: Fields = {"subscription": self._next_number, "destination": f"topic:{pattern}"}
            fields |= {"selector": wanted.selector, "no_local": wanted.no_local, "policy": wanted.policy}
            if wanted.shared:
                # Of a filter with two patterns each has its group.
                fields |= {"shared": f"mqtt/{each}/{wanted.shared}", "ack": "client"}
            if wanted.limited:
                fields["credit"] = CREDIT
            self._peer.ask(FrameType.SUBSCRIBE, fields, on_answer)

    def _subscribed(self, wanted: MqttSubscription, errors: list[RemoteError]) -> int:
        if errors:
            self._end(wanted)
            reason = reason_of(errors[0])
            refused = errors[0].code.startswith(("E_SELECTOR", "E_DESTINATION", "E_POLICY", "E_FRAME_FIELD"))
            return Reason.TOPIC_FILTER if refused else reason
        before = self._by_filter.get(wanted.filter)
        self._by_filter[wanted.filter] = wanted
        if before is not None:
            self._end(before)
        return wanted.qos

    def unsubscribe(self, packet: UnsubscribePacket) -> None:
        reasons = []
        for filter in packet.filters:
            subscription = self._by_filter.pop(filter, None)
            reasons.append(Reason.NO_SUBSCRIPTION if subscription is None else Reason.SUCCESS)
            if subscription is not None:
                self._end(subscription)
        answer = SubscriptionAnswer(PacketType.UNSUBACK, packet.packet_id, tuple(reasons))
        self._peer.ask(FrameType.SYNC, {}, lambda _: self._send(answer))  # nothing more comes after it

    def _end(self, subscription: MqttSubscription) -> None:
        subscription.ended = True
        for number in subscription.numbers:
            if self._by_number.pop(number, None) is not None:
                self._peer.ask(FrameType.UNSUBSCRIBE, {"subscription": number, "release": True}, lambda _: None)

    # --- deliveries -----------------------------------------------------------------------------------------------

    def deliver(self, delivered: Delivered, now_ms: int) -> None:
        subscription = self._by_number.get(delivered.subscription)
        if subscription is None:
            return
        message = decode_message(delivered.message)
        topic = to_topic(message.destination.name)
        entry = _InFlight(subscription, delivered.subscription, delivered.tag, min(subscription.qos, qos_of(message)))
        if topic[0] == "$" and subscription.patterns[0][0] in "*>":  # [MQTT-4.7.2-1]
            self._done(entry)
            return
        properties: dict[Property, Any] = {}
        if self._version == V5:
            properties = properties_of(message, now_ms)
            if subscription.identifier:
                properties[Property.SUBSCRIPTION_ID] = [subscription.identifier]
        packet = PublishPacket(topic, message.body, entry.qos, properties=properties)
        if not entry.qos:
            self._put(packet)
            self._done(entry)
        elif self._waiting or len(self._in_flight) >= self._in_flight_max:
            self._waiting.append((entry, packet))
            self.waiting_bytes += len(packet.payload)
        else:
            self._put_in_flight(entry, packet)

    def _put_in_flight(self, entry: _InFlight, packet: PublishPacket) -> None:
        while True:
            self._packet_id = self._packet_id % 0xFFFF + 1
            if self._packet_id not in self._in_flight:
                break
        numbered = PublishPacket(
            packet.topic, packet.payload, packet.qos, False, False, self._packet_id, packet.properties
        )
        if self._put(numbered):
            self._in_flight[self._packet_id] = entry
        else:
            self._done(entry)

    def _put(self, packet: PublishPacket) -> bool:
        """Write the packet; False if it is larger than the client allows, which counts as sent [MQTT-3.1.2-25]."""
        topic, aliased = packet.topic, packet
        alias = self._aliases.get(topic, 0)
        new = not alias and len(self._aliases) < self._aliases_max
        if new:
            alias = len(self._aliases) + 1
        if alias:
            properties = {**packet.properties, Property.TOPIC_ALIAS: alias}
            shown = topic if new else ""
            aliased = PublishPacket(shown, packet.payload, packet.qos, False, False, packet.packet_id, properties)
        data = encode(aliased, self._version)
        if self._bytes_max and len(data) > self._bytes_max:
            return False
        if new:
            self._aliases[topic] = alias
        self.output.append(data)
        return True

    def _done(self, entry: _InFlight) -> None:
        """The message is the client's, or nobody's: acknowledge it and return its credit."""
        subscription, number = entry.subscription, entry.number
        if subscription.ended:
            return
        if entry.tag:
            self._peer.ack(number, entry.tag)
        if subscription.limited:
            used = subscription.used.get(number, 0) + 1
            if used >= CREDIT // 2:
                self._peer.credit(number, used)
                used = 0
            subscription.used[number] = used

    def _next(self) -> None:
        while self._waiting and len(self._in_flight) < self._in_flight_max:
            entry, packet = self._waiting.popleft()
            self.waiting_bytes -= len(packet.payload)
            if not entry.subscription.ended:
                self._put_in_flight(entry, packet)

    # --- the client's answers -------------------------------------------------------------------------------------

    def answered(self, packet: PublishAnswer) -> None:
        """PUBACK, PUBREC or PUBCOMP."""
        entry = self._in_flight.get(packet.packet_id)
        match packet.type:
            case PacketType.PUBACK:
                if entry is not None and entry.qos == 1:
                    self._finish(packet.packet_id, entry)
            case PacketType.PUBREC:
                self._received(packet, entry)
            case PacketType.PUBCOMP:
                if entry is not None and entry.released:
                    del self._in_flight[packet.packet_id]
                    self._next()

    def _received(self, packet: PublishAnswer, entry: _InFlight | None) -> None:
        if entry is None or entry.qos != 2:
            if packet.reason < 0x80:
                self._send(PublishAnswer(PacketType.PUBREL, packet.packet_id, Reason.PACKET_ID_UNKNOWN))
        elif packet.reason >= 0x80:
            self._finish(packet.packet_id, entry)
        else:
            if not entry.released:
                entry.released = True
                self._done(entry)
            self._send(PublishAnswer(PacketType.PUBREL, packet.packet_id))

    def _finish(self, packet_id: int, entry: _InFlight) -> None:
        del self._in_flight[packet_id]
        self._done(entry)
        self._next()
