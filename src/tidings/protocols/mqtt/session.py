"""A client that speaks MQTT: its session with the broker, without I/O.

    socket ─► receive ─► packets ─► native frames ─► take_frames ─► broker
    socket ◄─ take_output ◄─ packets ◄─ answers, deliveries ◄─ frames ◄─ broker

To the broker it is a client of the native protocol: permissions, limits, flow control and metrics are the broker's own.
A session ends with its connection (ADR 12).
"""

from enum import Enum
from typing import Any, NoReturn, assert_never

from tidings.errors import TidingsError
from tidings.model.message_id import MessageId, MessageIdSource
from tidings.node.clients.subscription_plan import NAME_MAX
from tidings.node.protocol_session import Hello
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.decode import decode, protocol_version
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.mapping import destination_of
from tidings.protocols.mqtt.packets import (
    V4,
    V5,
    Auth,
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
    UnsubscribePacket,
    Will,
)
from tidings.protocols.mqtt.properties import PacketType, Property
from tidings.protocols.mqtt.publisher import RECEIVE_MAXIMUM, TOPIC_ALIAS_MAXIMUM, Publisher
from tidings.protocols.mqtt.reasons import RETURN_CODES, MqttError, Reason, reason_of
from tidings.protocols.mqtt.splitter import PacketSplitter
from tidings.protocols.mqtt.subscriber import MqttSubscriber
from tidings.protocols.native.frames import unsigned
from tidings.protocols.native.peer import Delivered, Dropped, Ended, Fields, NativePeer, Said, Welcomed
from tidings.protocols.native.session import NativeSession
from tidings.protocols.session import Caller

LOGIN_BYTES_MAX = 64 << 10  # of CONNECT, and of what follows it before the answer


class MqttState(Enum):
    CONNECTING = "connecting"
    LOGIN = "login"
    READY = "ready"
    OVER = "over"


class MqttNativeSession(NativeSession):
    """The native session behind an MQTT connection: the client's keep alive says how long it may be silent."""

    def heartbeats(self, hello: Hello, longest_ms: int) -> tuple[int, int]:
        return hello.heartbeat_ms, 0


class MqttSession:
    """`clients` is shared by all MQTT connections of the broker."""

    def __init__(self, clients: MqttClients, caller: Caller) -> None:
        self.state = MqttState.CONNECTING
        self._caller, self._clients = caller, clients
        self._peer = NativePeer(caller.frame_bytes_max + LOGIN_BYTES_MAX)
        self._splitter = PacketSplitter(LOGIN_BYTES_MAX)
        self._output: list[bytes] = []
        self._version = V4
        self._connect: Connect | None = None
        self._client_id = ""
        self._ids: MessageIdSource | None = None
        self._now_ms = 0
        self._will: Will | None = None
        self._publisher: Publisher | None = None
        self._subscriber: MqttSubscriber | None = None

    # --- interface of gateways ------------------------------------------------------------------------------------

    def receive(self, data: bytes, now_ms: int) -> None:
        """Bytes from the client. An error ends the connection, once what `take_output` has is sent."""
        self._now_ms = now_ms
        if self.state is MqttState.OVER:
            return
        self._splitter.feed(data)
        self._take_packets()

    def _take_packets(self) -> None:
        try:
            if self._reads():
                for first, content in self._splitter.packets():
                    self._packet(first, content)
                    if not self._reads():
                        break
            if self.state is MqttState.LOGIN and self._splitter.waiting_bytes > LOGIN_BYTES_MAX:
                raise MqttError(Reason.PACKET_TOO_LARGE, "too many bytes before the login is complete")
        except TidingsError as error:
            self._fail(error)

    def _reads(self) -> bool:
        """Packets are taken; during the login they wait."""
        return self.state in (MqttState.CONNECTING, MqttState.READY)

    def frames(self, data: bytes, now_ms: int) -> None:
        """Native frames from the broker."""
        self._now_ms = now_ms
        self._peer.receive(data, self._said)

    def tick(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def lost(self) -> None:
        """The connection is closed: the will is published unless the client said good-bye."""
        self._leave()
        will, self._will = self._will, None
        if will is not None and self._publisher is not None:
            self._publisher.will(will)
        self.state = MqttState.OVER

    def take_frames(self) -> bytes:
        """For the broker."""
        return self._peer.take()

    def take_output(self) -> bytes:
        """For the client."""
        data = b"".join(self._output)
        self._output.clear()
        return data

    @property
    def waiting_bytes(self) -> int:
        """Bytes held because the client's receive maximum is used up."""
        return 0 if self._subscriber is None else self._subscriber.waiting_bytes

    def take_over(self) -> None:
        """Another connection has the client id now."""
        if self.state is not MqttState.OVER:
            self._end(MqttError(Reason.TAKEN_OVER, "another connection uses this client id"))
            self._peer.close()
            self._caller.wake()

    # --- packets --------------------------------------------------------------------------------------------------

    def _packet(self, first: int, content: bytes) -> None:
        if self._publisher is None or self._subscriber is None:
            if first >> 4 != PacketType.CONNECT:  # [MQTT-3.1.0-1]
                raise MqttError(Reason.PROTOCOL_ERROR, "the first packet must be CONNECT")
            self._version = protocol_version(content)
            packet = decode(first, content, self._version)
            assert isinstance(packet, Connect)
            self._log_in(packet)
            return
        packet = decode(first, content, self._version)
        match packet:
            case PublishPacket():
                self._publisher.publish(packet)
            case PublishAnswer():
                if packet.type is PacketType.PUBREL:
                    self._publisher.release(packet)
                else:
                    self._subscriber.answered(packet)
            case SubscribePacket():
                self._subscriber.subscribe(packet)
            case UnsubscribePacket():
                self._subscriber.unsubscribe(packet)
            case PingRequest():
                self._send(PingResponse())
            case Disconnect():
                self._disconnect(packet)
            case Connect() | Auth() | Connack() | SubscriptionAnswer() | PingResponse():
                raise MqttError(Reason.PROTOCOL_ERROR, f"unexpected packet type {first >> 4}")
            case _:
                assert_never(packet)
        self._output += self._subscriber.output
        self._subscriber.output.clear()

    def _log_in(self, packet: Connect) -> None:
        self._connect, self._client_id = packet, packet.client_id
        if Property.AUTHENTICATION_METHOD in packet.properties:
            raise MqttError(Reason.BAD_AUTHENTICATION, "no authentication method is supported: use user and password")
        if self._version == V4 and not packet.clean:
            if not packet.client_id:  # 3.1.1 [MQTT-3.1.3-8]
                raise MqttError(Reason.CLIENT_ID, "an empty client id needs clean session")
            raise MqttError(Reason.NOT_SUPPORTED_HERE, "sessions that outlive a connection are not available")
        if len(packet.client_id) > NAME_MAX or any(character < " " for character in packet.client_id):
            raise MqttError(Reason.CLIENT_ID, f"a client id must have at most {NAME_MAX} characters, none of control")
        if packet.will is not None:
            if packet.will.retain:
                raise MqttError(Reason.RETAIN_UNSUPPORTED, "retained messages are not available: no RETAIN in a will")
            destination_of(packet.will.topic)
        try:
            password = (packet.password or b"").decode()
        except UnicodeDecodeError:
            raise MqttError(Reason.BAD_LOGIN, "the password is not UTF-8") from None
        self.state = MqttState.LOGIN
        self._peer.hello(
            packet.user or "", password, client_id=packet.client_id, heartbeat_ms=packet.keep_alive * 750
        )  # the broker closes the connection after twice that: one and a half times the keep alive [MQTT-3.1.2-22]

    def _disconnect(self, packet: Disconnect) -> None:
        assert self._connect is not None
        if packet.properties.get(Property.SESSION_EXPIRY) and not self._connect.properties.get(Property.SESSION_EXPIRY):
            raise MqttError(Reason.PROTOCOL_ERROR, "the session expiry was 0 in CONNECT")
        if packet.reason != Reason.DISCONNECT_WITH_WILL:
            self._will = None  # [MQTT-3.14.4-3]
        self.state = MqttState.OVER
        self._peer.close()

    # --- what the broker says -------------------------------------------------------------------------------------

    def _said(self, said: Said) -> None:
        match said:
            case Delivered():
                if self._subscriber is not None and self.state is MqttState.READY:
                    self._subscriber.deliver(said, self._now_ms)
                    self._output += self._subscriber.output
                    self._subscriber.output.clear()
            case Dropped():
                pass  # no packet can tell; docs/protocols.md
            case Welcomed(fields):
                self._welcomed(fields)
            case Ended(error):
                self._end(error)
            case _:
                assert_never(said)

    def _welcomed(self, fields: Fields) -> None:
        assert self._connect is not None
        connect = self._connect
        publisher, broker = unsigned(fields, "publisher"), unsigned(fields, "broker")
        self._ids = MessageIdSource(publisher, broker)
        frame_max = unsigned(fields, "frame_max") or self._caller.frame_bytes_max
        self._splitter.bytes_max = frame_max
        self._publisher = Publisher(self._peer, self._version, frame_max, self._next_id, self._send, self._fail_later)
        self._subscriber = MqttSubscriber(self._peer, connect, self._send)
        self._will = connect.will
        given = connect.properties
        properties: dict[Property, Any] = {}
        if not self._client_id:
            self._client_id = f"auto-{broker}-{publisher}"
            properties[Property.ASSIGNED_CLIENT_ID] = self._client_id
        if given.get(Property.SESSION_EXPIRY):
            properties[Property.SESSION_EXPIRY] = 0
        properties |= {
            Property.RECEIVE_MAXIMUM: RECEIVE_MAXIMUM,
            Property.RETAIN_AVAILABLE: 0,
            Property.MAXIMUM_PACKET: frame_max,
            Property.TOPIC_ALIAS_MAXIMUM: TOPIC_ALIAS_MAXIMUM,
        }
        if given.get(Property.REQUEST_RESPONSE):
            properties[Property.RESPONSE_INFORMATION] = f"reply/{broker}/{publisher}"
        self.state = MqttState.READY
        self._send(Connack(False, Reason.SUCCESS, properties))
        self._clients.enter(connect.user or self._caller.certificate, self._client_id, self)
        self._take_packets()

    def _next_id(self) -> MessageId:
        assert self._ids is not None
        while (found := self._ids.next(self._now_ms)) is None:  # 65 536 in this millisecond
            self._now_ms += 1
        return found

    # --- the end --------------------------------------------------------------------------------------------------

    def _send(self, packet: Packet) -> None:
        if self._connect is not None and not self._connect.properties.get(Property.REQUEST_PROBLEM, 1):
            packet = _without_reason(packet)  # [MQTT-3.1.2-29]
        self._output.append(encode(packet, self._version))

    def _fail(self, error: TidingsError) -> NoReturn:
        self._end(error)
        raise error

    def _fail_later(self, error: TidingsError) -> None:
        """From an answer of the broker, where nothing may be raised."""
        self._end(error)
        self._peer.close()

    def _end(self, error: TidingsError) -> None:
        """Tell the client why, in CONNACK or DISCONNECT, once."""
        if self.state is MqttState.OVER:
            return
        before, self.state = self.state, MqttState.OVER
        self._leave()
        reason = reason_of(error)
        if before is not MqttState.READY:
            self._refuse(reason, error)
        elif self._version == V5:
            why = {Property.REASON_STRING: f"{error.code}: {error.reason}"[:1024]}
            self._output.append(encode(Disconnect(_disconnect_reason(reason), why), V5))

    def _refuse(self, reason: Reason, error: TidingsError) -> None:
        if reason is Reason.UNSUPPORTED_VERSION:
            self._output.append(encode(Connack(False, RETURN_CODES[reason]), V4))  # which every client reads
        elif self._version == V5 and self._connect is not None:
            why = {Property.REASON_STRING: f"{error.code}: {error.reason}"[:1024]}
            self._output.append(encode(Connack(False, reason, why), V5))
        elif reason in RETURN_CODES and self._connect is not None:
            self._output.append(encode(Connack(False, RETURN_CODES[reason]), V4))

    def _leave(self) -> None:
        if self._connect is not None:
            self._clients.leave(self._connect.user or self._caller.certificate, self._client_id, self)


def _disconnect_reason(reason: Reason) -> Reason:
    """A reason code that DISCONNECT may carry."""
    unknown = {Reason.CLIENT_ID, Reason.BAD_LOGIN, Reason.BAD_AUTHENTICATION, Reason.UNSUPPORTED_VERSION}
    return Reason.UNSPECIFIED if reason in unknown or reason is Reason.SERVER_UNAVAILABLE else reason


def _without_reason(packet: Packet) -> Packet:
    if isinstance(packet, PublishAnswer):
        return PublishAnswer(packet.type, packet.packet_id, packet.reason)
    return packet
