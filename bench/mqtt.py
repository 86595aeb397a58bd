"""CPU time of the broker per message by MQTT, beside Mosquitto (Debian: mosquitto), over sockets.

    python -m bench.mqtt [--save]

One client publishes to r subscribers, all of the same topic, a batch at a time: the next one when all have the last. Of
QoS 1 every message is acknowledged in both directions, and nothing is stored. The servers take turns; a figure is the
CPU time of the server's process (user and system) for a message published, the least of the turns. Then the gateway
alone: packets to native frames and back, without sockets and matching.
"""

import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from bench.harness import save, table
from bench.mqtt_peers import HOST, MqttPeer, mosquitto_peer, tidings_peer
from bench.processes import cpu_seconds
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
from tidings.protocols.native.frames import FrameSplitter, FrameType, control
from tidings.protocols.session import Caller

BATCHES = {0: 500, 1: 100}  # by QoS: with QoS 1 as much as is sent before the first acknowledgement
BATCH, TURNS, TURN_SECONDS = 100, 3, 0.8
TOPIC, PUBACK_BYTES = "ticks/xyz", 4
NOW_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class MqttLoad:
    subscribers: int
    body_bytes: int
    qos: int

    @property
    def batch(self) -> int:
        return BATCHES[self.qos]

    @property
    def packets(self) -> list[bytes]:
        body = b"x" * self.body_bytes
        ids = range(1, self.batch + 1)
        return [encode(PublishPacket(TOPIC, body, self.qos, packet_id=id if self.qos else 0), V4) for id in ids]


class BenchClient:
    def __init__(self, peer: MqttPeer, name: str) -> None:
        self._socket = socket.create_connection((HOST, peer.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send(encode(Connect(V4, name, True), V4))
        self.read(4)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self, size: int, on_data: Callable[[bytes], bytes] | None = None) -> None:
        """Read so many bytes; what `on_data` makes of them is sent."""
        while size > 0:
            data = self._socket.recv(1 << 18)
            assert data, "the server has closed the connection"
            size -= len(data)
            if on_data is not None:
                self.send(on_data(data))
        assert size == 0, "more than was expected"

    def subscribe(self, qos: int) -> None:
        self.send(encode(SubscribePacket(1, (TopicRequest(TOPIC, qos),)), V4))
        self.read(5)

    def close(self) -> None:
        self._socket.close()


class MqttTurn:
    """Clients of one server with one load; `step` is one batch."""

    def __init__(self, peer: MqttPeer, load: MqttLoad) -> None:
        self._load, self._packets = load, load.packets
        self._data = b"".join(self._packets)
        self._publisher = BenchClient(peer, "publisher")
        self._readers = [BenchClient(peer, f"reader{number}") for number in range(load.subscribers)]
        for reader in self._readers:
            reader.subscribe(load.qos)

    def step(self) -> None:
        self._publisher.send(self._data)
        for reader in self._readers:
            reader.read(len(self._data), self._acknowledge() if self._load.qos else None)
        if self._load.qos:
            self._publisher.read(PUBACK_BYTES * self._load.batch)

    def _acknowledge(self) -> Callable[[bytes], bytes]:
        """Makes PUBACKs of PUBLISH packets, all of the same size, as they come in."""
        size, rest = len(self._packets[0]), b""
        place = self._packets[0].index(TOPIC.encode()) + len(TOPIC)

        def acknowledge(data: bytes) -> bytes:
            nonlocal rest
            whole = rest + data
            end = len(whole) // size * size
            rest = whole[end:]
            return b"".join([b"\x40\x02" + whole[at : at + 2] for at in range(place, end, size)])

        return acknowledge

    def close(self) -> None:
        for one in (self._publisher, *self._readers):
            one.close()


def turn(peer: MqttPeer, load: MqttLoad) -> float:
    """Microseconds of the server's CPU a message."""
    clients = MqttTurn(peer, load)
    clients.step()
    before, count, end = cpu_seconds(peer.pid), 0, time.monotonic() + TURN_SECONDS
    while time.monotonic() < end or cpu_seconds(peer.pid) - before < TURN_SECONDS / 4:
        clients.step()
        count += load.batch
    spent = cpu_seconds(peer.pid) - before
    clients.close()
    return spent / count * 1e6


def beside_mosquitto() -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    with ExitStack() as stack:
        peers = [stack.enter_context(one()) for one in (tidings_peer, mosquitto_peer)]
        for qos in (0, 1):
            for subscribers in (1, 10, 40):
                for body_bytes in (16, 1024):
                    load = MqttLoad(subscribers, body_bytes, qos)
                    best = [float("inf")] * 2
                    for _ in range(TURNS):
                        best = [min(one, turn(peer, load)) for one, peer in zip(best, peers, strict=True)]
                    told = f"{best[0]:.2f}", f"{best[1]:.2f}", f"{best[1] / best[0]:.1f}"
                    rows.append((qos, subscribers, body_bytes, *told))
                    print(*rows[-1], flush=True)
    return rows


# --- the gateway alone ------------------------------------------------------------------------------------------------


def session() -> MqttSession:
    """One that is logged in, with a subscription to the topic of QoS 1 under number 1."""
    made = MqttSession(MqttClients(), Caller("", True, 1 << 20, lambda *_: True))
    made.receive(encode(Connect(V4, "bench", True), V4), NOW_MS)
    made.frames(control(FrameType.WELCOME, {"version": 1, "broker": 1, "publisher": 2, "frame_max": 1 << 20}), NOW_MS)
    made.frames(control(FrameType.OK, {"receipt": 1}), NOW_MS)
    made.receive(encode(SubscribePacket(1, (TopicRequest(TOPIC, 1),)), V4), NOW_MS)
    made.frames(control(FrameType.OK, {"receipt": 2}), NOW_MS)
    made.take_frames()
    assert made.take_output()
    return made


def published(qos: int) -> Callable[[], None]:
    gateway, data = session(), b"".join(MqttLoad(1, 16, qos).packets[:BATCH])

    def work() -> None:
        gateway.receive(data, NOW_MS)
        frames = gateway.take_frames()
        if qos:
            numbers = [frame.payload[:4] for frame in FrameSplitter(1 << 20).feed(frames)]
            gateway.frames(encode_frame(FrameType.RECEIPTS, BATCH.to_bytes(4, "little") + b"".join(numbers)), NOW_MS)
        assert len(gateway.take_output()) == (PUBACK_BYTES * BATCH if qos else 0)

    return work


def delivered(qos: int) -> Callable[[], None]:
    gateway = session()
    properties = {"JMSXMqttQoS": 1} if qos else {}
    destination = Destination("ticks.xyz")
    message = Message(destination, properties, b"x" * 16, id=MessageId(1, 1, NOW_MS, 0), persistent=qos > 0)
    head = (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(8)
    data = encode_frame(FrameType.DELIVER, head + encode_message(message)) * BATCH
    packet_id = 0

    def work() -> None:
        nonlocal packet_id
        gateway.frames(data, NOW_MS)
        assert gateway.take_output()
        answers = []
        for _ in range(BATCH if qos else 0):
            packet_id = packet_id % 0xFFFF + 1
            answers.append(encode(PublishAnswer(PacketType.PUBACK, packet_id), V4))
        if answers:
            gateway.receive(b"".join(answers), NOW_MS)
        gateway.take_frames()

    return work


def alone() -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for name, make in (("published", published), ("delivered", delivered)):
        for qos in (0, 1):
            work, best = make(qos), float("inf")
            for _ in range(TURNS):
                before = time.process_time()
                for _ in range(20):
                    work()
                best = min(best, time.process_time() - before)
            rows.append((name, qos, f"{best / BATCH / 20 * 1e6:.2f}"))
    return rows


def main() -> None:
    columns = ("QoS", "subscribers", "body bytes", "Tidings µs", "Mosquitto µs", "Mosquitto / Tidings")
    rows = beside_mosquitto()
    table("CPU of the server a message published", columns, rows)
    gateway_columns = ("direction", "QoS", "µs")
    gateway_rows = alone()
    table("CPU of the gateway alone", gateway_columns, gateway_rows)
    if "--save" in sys.argv:
        told = [dict(zip(columns, row, strict=True)) for row in rows]
        save("mqtt", {"rows": told, "gateway": [dict(zip(gateway_columns, row, strict=True)) for row in gateway_rows]})


if __name__ == "__main__":
    main()
