"""CPU time of the MQTT gateway per message: packets to native frames, and native frames to packets.

    python -m bench.mqtt

The sockets and the forwarding plane are not part of it; `bench.broker` measures those.
"""

import time
from collections.abc import Callable

from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.packets import V4, Connect, PublishAnswer, PublishPacket, SubscribePacket, TopicRequest
from tidings.protocols.mqtt.properties import PacketType
from tidings.protocols.mqtt.session import MqttSession
from tidings.protocols.native.frames import FrameType, control
from tidings.protocols.session import Caller

MESSAGES, BATCH, ROUNDS = 20_000, 100, 5
NOW_MS = 1_700_000_000_000


def session() -> MqttSession:
    """One that is logged in, with a subscription to `ticks/+` of QoS 1 under number 1."""
    made = MqttSession(MqttClients(), Caller("", True, 1 << 20, lambda *_: True))
    made.receive(encode(Connect(V4, "bench", True), V4), NOW_MS)
    made.frames(control(FrameType.WELCOME, {"version": 1, "broker": 1, "publisher": 2, "frame_max": 1 << 20}), NOW_MS)
    made.receive(encode(SubscribePacket(1, (TopicRequest("ticks/+", 1),)), V4), NOW_MS)
    made.frames(control(FrameType.OK, {"receipt": 1}), NOW_MS)
    made.take_frames()
    made.take_output()
    return made


def published(qos: int) -> Callable[[], None]:
    gateway = session()
    packets = [
        encode(PublishPacket("ticks/xyz", b"x" * 16, qos, packet_id=one if qos else 0), V4)
        for one in range(1, BATCH + 1)
    ]
    data, receipt = b"".join(packets), 1

    def work() -> None:
        nonlocal receipt
        gateway.receive(data, NOW_MS)
        gateway.take_frames()
        if qos:
            numbers = range(receipt + 1, receipt + BATCH + 1)
            receipt += BATCH
            payload = BATCH.to_bytes(4, "little") + b"".join(one.to_bytes(4, "little") for one in numbers)
            gateway.frames(encode_frame(FrameType.RECEIPTS, payload), NOW_MS)
        assert len(gateway.take_output()) == (4 * BATCH if qos else 0)

    return work


def delivered(qos: int) -> Callable[[], None]:
    gateway = session()
    properties = {"JMSXMqttQoS": 1} if qos else {}
    message = Message(
        Destination("ticks.xyz"), properties, b"x" * 16, id=MessageId(1, 1, NOW_MS, 0), persistent=qos > 0
    )
    head = (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(8)
    data = encode_frame(FrameType.DELIVER, head + encode_message(message)) * BATCH
    packet_id = 0

    def work() -> None:
        nonlocal packet_id
        gateway.frames(data, NOW_MS)
        assert gateway.take_output()
        for _ in range(BATCH if qos else 0):
            packet_id = packet_id % 0xFFFF + 1
            gateway.receive(encode(PublishAnswer(PacketType.PUBACK, packet_id), V4), NOW_MS)
        gateway.take_frames()

    return work


def main() -> None:
    for name, make in (("published", published), ("delivered", delivered)):
        for qos in (0, 1):
            work, best = make(qos), float("inf")
            for _ in range(ROUNDS):
                before = time.process_time()
                for _ in range(MESSAGES // BATCH):
                    work()
                best = min(best, time.process_time() - before)
            print(f"{name}, QoS {qos}: {best / MESSAGES * 1e6:.1f} µs of CPU a message")


if __name__ == "__main__":
    main()
