"""A connection of calibration that speaks MQTT 5. There are no selectors: each kind of messages has a topic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidings.errors import UsageError
from tidings.lab.calibration.wires import ClientAccount, FrameCounts, LoadMessage, LoadSubscription, refused
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.packets import V5, Connect, PublishPacket, SubscribePacket, TopicRequest
from tidings.protocols.mqtt.properties import Property

_CONNACK, _PUBLISH, _PUBACK, _SUBACK, _DISCONNECT = 2, 3, 4, 9, 14
_REFUSED = 0x80  # reason codes from here on


def kind_topic(topic: str, kind: int) -> str:
    return f"{topic.replace('.', '/')}/{kind}"


@dataclass(slots=True)
class MqttWire:
    account: ClientAccount
    _rest: bytes = b""

    def login(self, client: str, *, publishes: str = "") -> tuple[bytes, int]:
        user, password = self.account.user or None, self.account.password.encode() or None
        return encode(Connect(V5, client, True, user=user, password=password), V5), 1

    def subscribe(self, number: int, plan: LoadSubscription) -> tuple[bytes, int]:
        if plan.durable:
            raise UsageError(
                "E_LAB_PROTOCOL", "persistent messages are not calibrated over MQTT; use native, stomp or amqp"
            )
        kinds = plan.kinds or (number + 1_000_000,)  # one that matches nothing
        topics = tuple(TopicRequest(kind_topic(plan.topic, kind)) for kind in kinds)
        return encode(SubscribePacket(number, topics), V5), 1

    def forget(self, number: int, plan: LoadSubscription) -> tuple[bytes, int]:
        raise AssertionError("it has no durable subscriptions")

    def publisher(self, plans: Sequence[LoadMessage]) -> Callable[[int, int], bytes]:
        frames = []
        for plan in plans:
            properties = {Property.USER: [(name, value) for name, value in plan.properties]}
            packet = PublishPacket(kind_topic(plan.topic, plan.kind), plan.body, properties=properties)
            frames.append(encode(packet, V5))
        return lambda plan, _: frames[plan]

    def feed(self, data: bytes) -> FrameCounts:
        stream, position, found = self._rest + data if self._rest else data, 0, FrameCounts()
        while True:
            after, start = _packet(stream, position)
            if not after:
                break
            kind = stream[position] >> 4
            if kind == _PUBLISH:
                found.messages += 1
            elif kind == _PUBACK:
                found.confirmations += 1
            elif kind in (_CONNACK, _SUBACK):
                code = stream[start + 1] if kind == _CONNACK else stream[after - 1]
                if code >= _REFUSED:
                    raise refused(stream[position:after])
                found.answers += 1
            elif kind == _DISCONNECT:
                raise refused(stream[position:after])
            position = after
        self._rest = stream[position:]
        return found


def _packet(stream: bytes, position: int) -> tuple[int, int]:
    """The ends of the packet at this position and of its header; 0 if it is not there as a whole."""
    size, shift, at = 0, 0, position + 1
    while at < len(stream):
        size |= (stream[at] & 0x7F) << shift
        shift, more, at = shift + 7, stream[at] & 0x80, at + 1
        if not more:
            return (at + size, at) if at + size <= len(stream) else (0, 0)
    return 0, 0
