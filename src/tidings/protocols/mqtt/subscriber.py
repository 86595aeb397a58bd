"""Subscriptions of one MQTT session, and the messages that they, and SUBSCRIBE for retained ones, bring.

A topic filter becomes one subscription of the broker, or two (`a/#` includes `a`). In a session that outlives its
connection those of QoS 1 and 2 are durable subscriptions of the broker, except shared ones.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tidings.errors import RemoteError, TidingsError
from tidings.kernel.codec import decode_message
from tidings.kernel.mqtt import MqttPublications
from tidings.model.message import Message
from tidings.protocols.mqtt.content_filters import both, selector_of
from tidings.protocols.mqtt.kept_record import KeptRecord
from tidings.protocols.mqtt.mapping import is_retained, pairs_of, properties_of, qos_of, user_property
from tidings.protocols.mqtt.outgoing import CREDIT, Outgoing, OutgoingMessage
from tidings.protocols.mqtt.packets import (
    V5,
    Connect,
    Packet,
    PublishPacket,
    SubscribePacket,
    SubscriptionAnswer,
    TopicRequest,
    UnsubscribePacket,
)
from tidings.protocols.mqtt.properties import PacketType, Property
from tidings.protocols.mqtt.reasons import MqttError, Reason, reason_of
from tidings.protocols.mqtt.session_record import SUBSCRIPTIONS, MqttSubscription, SessionRecord
from tidings.protocols.mqtt.topics import SHARE, split_conditions, to_topic
from tidings.protocols.native.frames import FrameType, unsigned
from tidings.protocols.native.peer import Delivered, Fields, NativePeer

RETAINED_PAGE = 64  # retained messages that are read at a time


def _filters(packet: SubscribePacket | UnsubscribePacket) -> set[str]:
    return set(packet.filters) if isinstance(packet, UnsubscribePacket) else {one.filter for one in packet.topics}


class MqttSubscriber:
    """`record` is that of the session; `persistent`: it outlives the connection."""

    def __init__(
        self,
        peer: NativePeer,
        plain: MqttPublications,
        connect: Connect,
        outgoing: Outgoing,
        send: Callable[[Packet], None],
        fail: Callable[[TidingsError], None],
        record: SessionRecord,
        *,
        persistent: bool,
    ) -> None:
        self._peer, self._plain, self._send, self._version = peer, plain, send, connect.version
        self._outgoing, self._persistent = outgoing, persistent
        self._record = record
        self._kept = KeptRecord(peer, SUBSCRIPTIONS, record.to_bytes, fail)
        self._by_number: dict[int, MqttSubscription] = {}
        self._next_number = 0
        self._now_ms = 0
        self._under_way: set[str] = set()  # filters of SUBSCRIBE packets that are not answered
        self._queue: list[SubscribePacket | UnsubscribePacket] = []  # the first waits for one of those
        self._taking = False

    # --- a session that goes on -----------------------------------------------------------------------------------

    def resume(self) -> None:
        for subscription in list(self._record.subscriptions.values()):
            self._subscribe(subscription, lambda _: None)

    def release(self) -> None:
        """The connection ends: what was sent and is not acknowledged does not count as tried."""
        self._outgoing.keep_shared()
        for number, subscription in self._by_number.items():
            if subscription.limited:
                self._peer.ask(FrameType.UNSUBSCRIBE, {"subscription": number, "release": True}, lambda _: None)

    def _then_kept(self, then: Callable[[], None]) -> None:
        """Call this when the session's subscriptions are on disk, if they outlive the connection."""
        if self._persistent:
            self._kept.changed(then)
        else:
            then()

    # --- SUBSCRIBE and UNSUBSCRIBE --------------------------------------------------------------------------------

    def take(self, packet: SubscribePacket | UnsubscribePacket) -> None:
        """Packets that name the same filter are carried out one after the other."""
        self._queue.append(packet)
        self._take_queued()

    def _take_queued(self) -> None:
        if self._taking:  # by an answer that was there at once
            return
        self._taking = True
        while self._queue and self._under_way.isdisjoint(_filters(self._queue[0])):
            packet = self._queue.pop(0)
            if isinstance(packet, SubscribePacket):
                self._subscribe_all(packet)
            else:
                self._unsubscribe_all(packet)
        self._taking = False

    def _subscribe_all(self, packet: SubscribePacket) -> None:
        self._under_way |= _filters(packet)
        reasons: list[int | None] = [None] * len(packet.topics)
        retained: list[MqttSubscription] = []

        def answered(place: int, reason: int) -> None:
            reasons[place] = reason
            if None not in reasons:
                done = tuple(one if one is not None else Reason.UNSPECIFIED for one in reasons)
                if self._version != V5:
                    done = tuple(one if one <= 2 else Reason.UNSPECIFIED for one in done)
                self._then_kept(partial(self._subscribed, packet.packet_id, done, retained))
                self._under_way -= _filters(packet)
                self._take_queued()

        last = {topic.filter: place for place, topic in enumerate(packet.topics)}
        for place, topic in enumerate(packet.topics):
            try:
                wanted = self._plan(topic, packet)
            except MqttError as error:
                answered(place, error.mqtt_reason)
                continue
            if place != last[topic.filter]:  # replaced by a later one of the packet [MQTT-3.8.4-3]
                answered(place, topic.qos)
                continue
            new = wanted.filter not in self._record.subscriptions
            if not wanted.shared and (topic.retain_handling == 0 or (topic.retain_handling == 1 and new)):
                retained.append(wanted)
            self._subscribe_or_change(wanted, partial(answered, place))

    def _subscribed(self, packet_id: int, reasons: tuple[int, ...], retained: Iterable[MqttSubscription]) -> None:
        self._send(SubscriptionAnswer(PacketType.SUBACK, packet_id, reasons))
        for one in retained:
            if (current := self._record.subscriptions.get(one.filter)) is not None:
                self._read_retained(current)

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
        found = MqttSubscription(
            topic.filter,
            topic.qos,
            packet.properties.get(Property.SUBSCRIPTION_ID, 0),
            shared,
            selector,
            user_property(pairs, "slow-policy"),
            topic.no_local,
            topic.retain_as_published,
            name,
            exclusive=user_property(pairs, "exclusive").lower() == "true",
        )
        if found.exclusive and not shared:
            raise MqttError(Reason.TOPIC_FILTER, "exclusive is for shared subscriptions ($share/group/filter)")
        found.wait = user_property(pairs, "wait")
        if self._persistent and topic.qos and not shared:
            found.durable = self._record.take_durable()
        return found

    def _subscribe_or_change(self, wanted: MqttSubscription, answered: Callable[[int], None]) -> None:
        """A subscription of the same filter is replaced, without a gap if it brings the same [MQTT-3.8.4-3]."""
        before = self._record.subscriptions.get(wanted.filter)
        if before is None or not before.same_messages(wanted):
            self._subscribe(wanted, answered)
            return
        before.qos, before.identifier = wanted.qos, wanted.identifier
        before.no_local, before.retain_as_published = wanted.no_local, wanted.retain_as_published
        for number in before.numbers:
            self._tell_kernel(number, before)
        if not wanted.wait:
            answered(wanted.qos)
            return

        def known(answer: Fields | RemoteError) -> None:
            answered(reason_of(answer) if isinstance(answer, RemoteError) else wanted.qos)

        self._peer.ask(FrameType.SYNC, {"wait": wanted.wait}, known)

    def _subscribe(self, wanted: MqttSubscription, answered: Callable[[int], None]) -> None:
        """Subscribe with the broker."""
        waits, errors = len(wanted.patterns), list[RemoteError]()

        def on_answer(answer: Fields | RemoteError) -> None:
            nonlocal waits
            waits -= 1
            if isinstance(answer, RemoteError):
                errors.append(answer)
            if not waits:
                answered(self._added(wanted, errors))

        for place, pattern in enumerate(wanted.patterns):
            self._next_number += 1
            wanted.numbers.append(self._next_number)
            self._by_number[self._next_number] = wanted
            self._tell_kernel(self._next_number, wanted)
            fields: Fields = {"subscription": self._next_number, "destination": f"topic:{pattern}"}
            fields |= {"selector": wanted.selector, "policy": wanted.policy}
            if wanted.shared:
                # Of a filter with two patterns each has its group.
                fields |= {"shared": f"mqtt/{place}/{wanted.shared}", "ack": "client", "exclusive": wanted.exclusive}
            elif wanted.durable:
                fields |= {"durable": wanted.durable_name(place), "ack": "client"}
            else:
                fields["no_local"] = wanted.no_local
            if wanted.wait:
                fields["wait"] = wanted.wait
            if wanted.limited:
                fields["credit"] = CREDIT
            self._peer.ask(FrameType.SUBSCRIBE, fields, on_answer)

    def _tell_kernel(self, number: int, subscription: MqttSubscription) -> None:
        identifier = subscription.identifier if self._version == V5 else 0
        plain = not (subscription.durable and subscription.no_local)  # `_own` decides
        self._plain.set_subscription(
            number, subscription.qos, identifier, subscription.retain_as_published, subscription.limited, plain
        )

    def _added(self, wanted: MqttSubscription, errors: list[RemoteError]) -> int:
        before = self._record.subscriptions.get(wanted.filter)
        if errors:
            if before is wanted:  # of an earlier connection, and no longer allowed
                del self._record.subscriptions[wanted.filter]
            self._end(wanted)
            reason = reason_of(errors[0])
            refused = errors[0].code.startswith(("E_SELECTOR", "E_DESTINATION", "E_POLICY", "E_FRAME_FIELD"))
            return Reason.TOPIC_FILTER if refused else reason
        self._record.subscriptions[wanted.filter] = wanted
        if before is not None and before is not wanted:
            self._end(before)
        return wanted.qos

    def _unsubscribe_all(self, packet: UnsubscribePacket) -> None:
        reasons = []
        for filter in packet.filters:
            subscription = self._record.subscriptions.pop(filter, None)
            reasons.append(Reason.NO_SUBSCRIPTION if subscription is None else Reason.SUCCESS)
            if subscription is not None:
                self._end(subscription)
        answer = SubscriptionAnswer(PacketType.UNSUBACK, packet.packet_id, tuple(reasons))
        # Nothing more comes after it.
        self._peer.ask(FrameType.SYNC, {}, lambda _: self._then_kept(lambda: self._send(answer)))

    def _end(self, subscription: MqttSubscription) -> None:
        subscription.ended = True
        for place, number in enumerate(subscription.numbers):
            self._plain.remove_subscription(number)
            if self._by_number.pop(number, None) is not None:
                self._peer.ask(FrameType.UNSUBSCRIBE, {"subscription": number, "release": True}, lambda _: None)
            if subscription.durable:
                name = subscription.durable_name(place)
                self._peer.ask(FrameType.UNSUBSCRIBE, {"durable": name}, lambda _: None)

    # --- deliveries -----------------------------------------------------------------------------------------------

    def deliver(self, delivered: Delivered, now_ms: int) -> None:
        self._now_ms = now_ms
        subscription = self._by_number.get(delivered.subscription)
        if subscription is None:
            return
        message = decode_message(delivered.message)
        outgoing = self._outgoing_message(subscription, message)
        outgoing.number, outgoing.tag, outgoing.again = delivered.subscription, delivered.tag, delivered.attempt > 1
        if self._hidden(subscription, outgoing.packet.topic) or self._own(subscription, message):
            self._outgoing.done(outgoing)
        else:
            self._outgoing.offer(outgoing)

    def _outgoing_message(
        self, subscription: MqttSubscription, message: Message, *, retained: bool = False
    ) -> OutgoingMessage:
        qos = min(subscription.qos, qos_of(message))
        properties: dict[Property, Any] = {}
        if self._version == V5:
            properties = properties_of(message, self._now_ms)
            if subscription.identifier:
                properties[Property.SUBSCRIPTION_ID] = [subscription.identifier]
        retain = retained or (subscription.retain_as_published and is_retained(message))
        packet = PublishPacket(to_topic(message.destination.name), message.body, qos, retain, properties=properties)
        return OutgoingMessage(subscription, 0, 0, qos, bytes(message.id), packet, message.expiration_ms)

    def _hidden(self, subscription: MqttSubscription, topic: str) -> bool:
        return topic[0] == "$" and subscription.patterns[0][0] in "*>"  # [MQTT-4.7.2-1]

    def _own(self, subscription: MqttSubscription, message: Message) -> bool:
        """The client has published it, and does not want it; of other subscriptions the broker sees to that."""
        durable = subscription.durable > 0
        return durable and subscription.no_local and message.id.publisher in self._record.publishers

    # --- retained messages ----------------------------------------------------------------------------------------

    def _read_retained(self, subscription: MqttSubscription) -> None:
        """Once all that was published before is where it can be read."""
        for pattern in subscription.patterns:
            self._peer.ask(FrameType.SYNC, {}, partial(self._read_first_page, subscription, pattern))

    def _read_first_page(self, subscription: MqttSubscription, pattern: str, _: Fields | RemoteError) -> None:
        self._read_page(subscription, pattern, 0)

    def _read_page(self, subscription: MqttSubscription, pattern: str, after: int) -> None:
        found: list[Message] = []

        def answered(answer: Fields | RemoteError) -> None:
            if isinstance(answer, RemoteError) or subscription.ended:
                return
            for message in found:
                outgoing = self._outgoing_message(subscription, message, retained=True)
                if not self._hidden(subscription, outgoing.packet.topic):
                    self._outgoing.offer(outgoing)
            if found:
                self._read_page(subscription, pattern, unsigned(answer, "next", 63))

        fields: Fields = {"destination": f"topic:{pattern}", "selector": subscription.selector}
        fields |= {"after": after, "messages": RETAINED_PAGE}
        self._peer.ask(
            FrameType.READ, fields, answered, on_message=lambda _, message: found.append(decode_message(message))
        )
