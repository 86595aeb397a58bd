"""MQTT sessions on the real engine without sockets, and a client that keeps its own session state.

    MqttClientModel ──packets──► MqttConnection ──native frames──► NodeDriver (engine, plane, store)

What is under way between client and broker is lost when the connection breaks, in both directions.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol

from hardening.support.node_driver import MEGABYTE, NodeDriver
from tidings.broker.security.guard import Anybody
from tidings.delivery.store import Store
from tidings.errors import TidingsError
from tidings.node import inputs
from tidings.node.clients.client_sessions import ClientOptions
from tidings.node.effects import Effect, LogIn
from tidings.node.engine import Engine
from tidings.node.settings import NodeSettings
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.decode import decode
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.packets import (
    V5,
    Connack,
    Connect,
    Disconnect,
    Packet,
    PublishAnswer,
    PublishPacket,
    SubscribePacket,
    SubscriptionAnswer,
    TopicRequest,
    Will,
)
from tidings.protocols.mqtt.properties import PacketType, Property
from tidings.protocols.mqtt.session import MqttNativeSession, MqttSession
from tidings.protocols.mqtt.splitter import PacketSplitter
from tidings.protocols.session import Caller

REFUSED = 0x80  # reason codes from here on


class MqttLine(Protocol):
    """A connection as the client sees it."""

    output: bytes  # from the broker, not read yet

    @property
    def broken(self) -> bool: ...

    def receive(self, data: bytes) -> None:
        """Bytes for the broker."""

    def lose(self) -> None: ...


class MqttPlace(Protocol):
    """A broker that can be connected to."""

    def open_line(self) -> MqttLine: ...

    def pump(self) -> None:
        """Let the broker work, if it does not do so anyway."""


class MqttBroker(NodeDriver):
    """Everybody may log in."""

    def __init__(self, store: Store | None = None) -> None:
        self.sessions: list[MqttConnection] = []
        self.logins: list[LogIn] = []
        self.mqtt_clients = MqttClients()
        self._publishers = count(1)  # over all lives of the broker: none twice
        super().__init__(store, NodeSettings(last_values=True))

    def crash(self) -> None:
        self.sessions.clear()
        self.mqtt_clients = MqttClients()
        self.start()

    def open_line(self) -> "MqttConnection":
        return MqttConnection(self)

    def make_engine(self) -> Engine:
        return Engine(self.plane, self.settings, ClientOptions(self._publishers))

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, LogIn):
            self.logins.append(effect)
        else:
            super()._carry_out(effect)

    def pump(self) -> None:
        """Until nothing moves any more, but for writes that are held."""
        moved = True
        while moved:
            moved = False
            while self.logins:
                login = self.logins.pop(0)
                self.step(inputs.LoggedIn(login.connection, login.hello, Anybody()))
                moved = True
            self.turn()
            for one in list(self.sessions):
                moved |= one.move()


class MqttConnection:
    """The broker's end of one connection: gateway and native session."""

    def __init__(self, broker: MqttBroker) -> None:
        self._broker = broker
        self._gateway = MqttSession(broker.mqtt_clients, Caller("", True, MEGABYTE, lambda *_: True))
        self.output = b""
        self.open = True
        self.number = broker.plane.open()
        broker.closed[:] = [one for one in broker.closed if one != self.number]
        broker.step(inputs.ClientOpened(self.number, MqttNativeSession()))
        broker.sessions.append(self)

    @property
    def broken(self) -> bool:
        return not self.open or self not in self._broker.sessions

    def receive(self, data: bytes) -> None:
        if self.broken:
            return
        try:
            self._gateway.receive(data, self._broker.now_ms)
        except TidingsError:
            self.move()
            self.lose()
        self._broker.pump()

    def move(self) -> bool:
        """Pass on what gateway and broker have for each other."""
        broker, moved = self._broker, False
        if frames := self._gateway.take_frames():
            broker.plane.feed_bytes(self.number, frames, broker.now_ms)
            broker.turn()
            moved = True
        if self.open and (data := broker.plane.take(self.number, MEGABYTE, broker.now_ms)):
            self._gateway.frames(data, broker.now_ms)
            broker.turn()
            moved = True
        self.output += self._gateway.take_output()
        if self.open and self.number in broker.closed:
            broker.closed.remove(self.number)
            self.lose()
            moved = True
        return moved

    def lose(self) -> None:
        if self.broken:
            return
        self.open = False
        self._gateway.lost()
        if frames := self._gateway.take_frames():
            self._broker.plane.feed_bytes(self.number, frames, self._broker.now_ms)
            self._broker.turn()
        self._broker.sessions.remove(self)
        self._broker.step(inputs.ClientLost(self.number))
        self._broker.plane.close(self.number)
        self._broker.turn()


@dataclass(slots=True)
class Publication:
    packet: PublishPacket
    received: bool = False  # PUBREC has come: only PUBREL may follow


@dataclass(slots=True)
class MqttClientModel:
    """A client whose session state survives everything that happens to the broker."""

    broker: MqttPlace
    id: str
    version: int = V5
    clean: bool = False
    properties: dict[Property, Any] = field(default_factory=lambda: {Property.SESSION_EXPIRY: 3600})
    will: Will | None = None
    ids: int = 20  # packet ids, used again soon
    messages: list[PublishPacket] = field(default_factory=list)  # delivered to the application
    packets: list[Packet] = field(default_factory=list)  # all that came, in order
    unfinished: dict[int, Publication] = field(default_factory=dict)
    confirmed: list[bytes] = field(default_factory=list)  # payloads whose publication is complete
    present: bool | None = None
    _connection: MqttLine | None = None
    _splitter: PacketSplitter = field(default_factory=lambda: PacketSplitter(MEGABYTE))
    _sent: deque[bytes] = field(default_factory=deque)
    _held: set[int] = field(default_factory=set)  # packet ids between PUBREC and PUBREL
    _next_id: int = 0

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.broken

    def connect(self, **fields: Any) -> None:
        """Connect, and when the answer comes send again what is unfinished."""
        self.lose()
        self._connection, self._splitter = self.broker.open_line(), PacketSplitter(MEGABYTE)
        self._sent.clear()
        self.present = None
        clean = fields.pop("clean", self.clean)
        packet = Connect(self.version, self.id, clean, will=self.will, properties=self.properties)
        self.send(replace(packet, **fields))

    def lose(self) -> None:
        if self._connection is not None:
            self._connection.lose()
            self.broker.pump()

    def send(self, packet: Packet) -> None:
        self._sent.append(encode(packet, self.version))

    def flush(self, count: int = 1_000_000) -> None:
        """The broker gets the next packets."""
        while self._sent and count:
            count -= 1
            data = self._sent.popleft()
            if self._connection is not None:
                self._connection.receive(data)

    def subscribe(self, filter: str, qos: int, **options: Any) -> None:
        properties = options.pop("properties", {})
        self.send(SubscribePacket(self._take_id(), (TopicRequest(filter, qos, **options),), properties))

    def publish(self, topic: str, payload: bytes, qos: int, **fields: Any) -> None:
        packet = PublishPacket(topic, payload, qos, packet_id=self._take_id() if qos else 0, **fields)
        if qos:
            self.unfinished[packet.packet_id] = Publication(packet)
        self.send(packet)

    def disconnect(self, reason: int = 0, **properties: Any) -> None:
        self.send(Disconnect(reason, properties.get("properties", {})))
        self.flush()

    def _take_id(self) -> int:
        while True:
            self._next_id = self._next_id % self.ids + 1
            if self._next_id not in self.unfinished:
                return self._next_id

    def read(self) -> None:
        """Take what has come, and answer."""
        if self._connection is None:
            return
        data, self._connection.output = self._connection.output, b""
        self._splitter.feed(data)
        for first, content in self._splitter.packets():
            packet = decode(first, content, self.version)
            self.packets.append(packet)
            self._took(packet)

    def _took(self, packet: Packet) -> None:
        match packet:
            case Connack():
                self.present = packet.session_present
                self._resume()
            case PublishPacket():
                if packet.qos != 2 or packet.packet_id not in self._held:
                    self.messages.append(packet)
                if packet.qos == 2:
                    self._held.add(packet.packet_id)
                if packet.qos:
                    answer = PacketType.PUBACK if packet.qos == 1 else PacketType.PUBREC
                    self.send(PublishAnswer(answer, packet.packet_id))
            case PublishAnswer(PacketType.PUBREL, id):
                self._held.discard(id)
                self.send(PublishAnswer(PacketType.PUBCOMP, id))
            case PublishAnswer(PacketType.PUBREC, id) if packet.reason >= REFUSED:
                self.unfinished.pop(id, None)
            case PublishAnswer(PacketType.PUBREC, id):
                if id in self.unfinished:
                    self.unfinished[id].received = True
                self.send(PublishAnswer(PacketType.PUBREL, id))
            case PublishAnswer(_, id):
                done = self.unfinished.pop(id, None)
                if done is not None and packet.reason < REFUSED:
                    self.confirmed.append(done.packet.payload)
            case SubscriptionAnswer() | Disconnect():
                pass
            case _:
                raise AssertionError(f"unexpected {packet}")

    def _resume(self) -> None:
        if not self.present:
            self._held.clear()
        for id, publication in self.unfinished.items():
            if publication.received:
                self.send(PublishAnswer(PacketType.PUBREL, id))
            else:
                self.send(replace(publication.packet, dup=True))

    def settle(self, until: Callable[[], bool] = lambda: False) -> None:
        """Exchange everything until nothing moves any more."""
        for _ in range(10_000):
            self.flush()
            self.broker.pump()
            before = len(self.packets)
            self.read()
            if until() or (len(self.packets) == before and not self._sent):
                return
        raise AssertionError("it does not come to an end")

    def take(self) -> list[PublishPacket]:
        self.settle()
        found, self.messages = self.messages, []
        return found


def client(broker: MqttBroker, id: str, **fields: Any) -> MqttClientModel:
    made = MqttClientModel(broker, id, **fields)
    made.connect()
    made.settle()
    return made


def subscriber(
    broker: MqttBroker, id: str = "reader", filter: str = "t/#", qos: int = 2, **fields: Any
) -> MqttClientModel:
    made = client(broker, id, **fields)
    made.subscribe(filter, qos)
    made.settle()
    return made


def payloads(packets: list[PublishPacket]) -> list[bytes]:
    return [one.payload for one in packets]
