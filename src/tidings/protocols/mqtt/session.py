"""A client that speaks MQTT: its session with the broker, without I/O.

    socket ─► receive ─► packets ─► native frames ─► take_frames ─► broker
    socket ◄─ take_output ◄─ packets ◄─ answers, deliveries ◄─ frames ◄─ broker

To the broker it is a client of the native protocol: permissions, limits, flow control and metrics are the broker's own.
What outlives a connection is the broker's: records, durable subscriptions, a will (ADR 12).
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NoReturn, assert_never

from tidings.errors import RemoteError, TidingsError
from tidings.kernel.codec import encode_message
from tidings.kernel.mqtt import MqttLimits, MqttPublications
from tidings.model.message_id import MessageId
from tidings.node.clients.subscription_plan import NAME_MAX
from tidings.node.protocol_session import Hello
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.decode import decode, protocol_version
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.exactly_once import ExactlyOnceReceiver
from tidings.protocols.mqtt.mapping import check_payload, destination_of, message_of
from tidings.protocols.mqtt.outgoing import ALIASES_MAX, CREDIT, Outgoing, in_flight_max, maximum_packet
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
    without_reason_string,
)
from tidings.protocols.mqtt.properties import PacketType, Property
from tidings.protocols.mqtt.publisher import RECEIVE_MAXIMUM, TOPIC_ALIAS_MAXIMUM, Publisher, unanswered_max
from tidings.protocols.mqtt.reasons import RETURN_CODES, MqttError, Reason, reason_of
from tidings.protocols.mqtt.session_opening import EncodedWill, SessionOpening, SessionState, linger, milliseconds
from tidings.protocols.mqtt.splitter import PacketSplitter
from tidings.protocols.mqtt.subscriber import MqttSubscriber
from tidings.protocols.native.frames import FrameType, unsigned, whole_frame
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
        self._named = False  # the version is the client's
        self._client_id = ""
        self._plain: MqttPublications | None = None  # the kernel's path
        self._broker_id = 0
        self._waiting = b""  # of the broker's frames, one that is not complete
        self._now_ms = 0
        self._will: EncodedWill | None = None
        self._state: SessionState | None = None
        self._outgoing: Outgoing | None = None
        self._successor: Callable[[], None] | None = None  # waits until this connection has released what is its own
        self._entered = False  # it is this client's only connection
        self._frame_max = 0
        self._publisher_id = 0
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
            while self._reads():
                self._take_plain()
                if (packet := self._splitter.next()) is None:
                    break
                self._packet(*packet)
            if self.state is MqttState.LOGIN and self._splitter.waiting_bytes > LOGIN_BYTES_MAX:
                raise MqttError(Reason.PACKET_TOO_LARGE, "too many bytes before the login is complete")
        except TidingsError as error:
            self._fail(error)

    def _take_plain(self) -> None:
        """Let the kernel take what needs no Python."""
        plain = self._plain
        if plain is None or self._outgoing is None:
            return
        self._splitter.take(lambda data, at: plain.take(data, at, self._now_ms))
        if frames := plain.take_frames():
            self._peer.forward(frames)
        self._outgoing.next()  # a PUBACK frees a packet id, also where the broker hears nothing of it

    def _reads(self) -> bool:
        """Packets are taken; during the login they wait."""
        return self.state in (MqttState.CONNECTING, MqttState.READY)

    def frames(self, data: bytes, now_ms: int) -> None:
        """Native frames from the broker."""
        self._now_ms = now_ms
        whole, at = self._waiting + data if self._waiting else data, 0
        while size := whole_frame(whole, at):
            if used := self._give(whole, at):
                at += used
                continue
            self._peer.receive(whole[at : at + size], self._said)
            at += size
        self._waiting = whole[at:]

    def _give(self, frames: bytes, at: int) -> int:
        """Give the kernel what needs no Python; returns how many bytes it has taken."""
        if self._plain is None or self.state is not MqttState.READY:
            return 0
        used = self._plain.give(frames, at, self._now_ms)
        self._put_given()
        return used

    def _put_given(self) -> None:
        """Pass on what the kernel has for client and broker."""
        assert self._plain is not None
        if output := self._plain.take_output():
            self._output.append(output)
        if frames := self._plain.take_frames():
            self._peer.forward(frames)

    def tick(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def lost(self) -> None:
        """The connection is closed; the broker publishes the will unless the client said good-bye."""
        if self.state is MqttState.READY and self._subscriber is not None:
            self._subscriber.release()
        self._leave()
        self.state = MqttState.OVER
        self._released()

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
        return 0 if self._outgoing is None else self._outgoing.waiting_bytes

    def take_over(self, then: Callable[[], None]) -> None:
        """Another connection has the client id now."""
        self._successor = then
        if self.state is not MqttState.OVER:
            self._end(MqttError(Reason.TAKEN_OVER, "another connection uses this client id"))
        if self._entered:  # otherwise it still waits for the one before
            self._peer.ask(FrameType.SYNC, {}, lambda _: self._released())
        self._caller.wake()

    def _released(self) -> None:
        """The next connection of this client may go on."""
        self._peer.close()
        then, self._successor = self._successor, None
        if then is not None:
            then()

    # --- packets --------------------------------------------------------------------------------------------------

    def _packet(self, first: int, content: bytes) -> None:
        if self._publisher is None or self._subscriber is None or self._outgoing is None:
            if first >> 4 != PacketType.CONNECT:  # [MQTT-3.1.0-1]
                raise MqttError(Reason.PROTOCOL_ERROR, "the first packet must be CONNECT")
            self._version = protocol_version(content)
            self._named = True
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
                    self._outgoing.answered(packet)
            case SubscribePacket() | UnsubscribePacket():
                self._subscriber.take(packet)
            case PingRequest():
                self._send(PingResponse())
            case Disconnect():
                self._disconnect(packet)
            case Connect() | Auth() | Connack() | SubscriptionAnswer() | PingResponse():
                raise MqttError(Reason.PROTOCOL_ERROR, f"unexpected packet type {first >> 4}")
            case _:
                assert_never(packet)

    def _log_in(self, packet: Connect) -> None:
        self._connect, self._client_id = packet, packet.client_id
        if Property.AUTHENTICATION_METHOD in packet.properties:
            raise MqttError(Reason.BAD_AUTHENTICATION, "no authentication method is supported: use user and password")
        if self._version == V4 and not packet.clean and not packet.client_id:  # 3.1.1 [MQTT-3.1.3-8]
            raise MqttError(Reason.CLIENT_ID, "an empty client id needs clean session")
        if len(packet.client_id) > NAME_MAX or any(character < " " for character in packet.client_id):
            raise MqttError(
                Reason.CLIENT_ID, f"a client id has at most {NAME_MAX} characters and no control characters"
            )
        if packet.will is not None:
            check_payload(packet.will)
            destination_of(packet.will.topic)
        try:
            password = (packet.password or b"").decode()
        except UnicodeDecodeError:
            raise MqttError(Reason.BAD_LOGIN, "the password is not UTF-8") from None
        self.state = MqttState.LOGIN
        self._peer.hello(
            packet.user or "", password, client_id=packet.client_id, heartbeat_ms=self._keep_alive(packet) * 750
        )  # the broker closes the connection after twice that: one and a half times the keep alive [MQTT-3.1.2-22]

    def _keep_alive(self, packet: Connect) -> int:
        """Seconds; MQTT 5 clients can be given fewer than they asked for [MQTT-3.2.2-21]; 0: no keep alive."""
        most = max(2 * self._caller.heartbeat_ms // 1000, 1) if self._version == V5 else packet.keep_alive
        return min(packet.keep_alive, most)

    def _disconnect(self, packet: Disconnect) -> None:
        assert self._connect is not None
        assert self._state is not None
        assert self._subscriber is not None
        lifetime_ms = self._state.lifetime_ms
        if Property.SESSION_EXPIRY in packet.properties:
            changed = milliseconds(packet.properties[Property.SESSION_EXPIRY])
            if changed and not lifetime_ms:
                raise MqttError(Reason.PROTOCOL_ERROR, "the session expiry was 0 in CONNECT")
            lifetime_ms = changed
        will = self._will if packet.reason else None  # [MQTT-3.14.4-3]
        if will is not self._will or lifetime_ms != self._state.lifetime_ms:
            self._peer.ask(FrameType.LINGER, linger(lifetime_ms, will), lambda _: None)
        self._subscriber.release()
        self._leave()
        self.state = MqttState.OVER
        self._peer.close()

    # --- what the broker says -------------------------------------------------------------------------------------

    def _said(self, said: Said) -> None:
        match said:
            case Delivered():
                if self._subscriber is not None and self.state is MqttState.READY:
                    self._subscriber.deliver(said, self._now_ms)
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
        self._publisher_id, self._broker_id = publisher, broker
        self._frame_max = unsigned(fields, "frame_max") or self._caller.frame_bytes_max
        self._plain = MqttPublications(publisher, broker, self._version == V5, self._limits(connect))
        self._splitter.bytes_max = self._frame_max
        properties: dict[Property, Any] = {
            Property.RECEIVE_MAXIMUM: RECEIVE_MAXIMUM,
            Property.MAXIMUM_PACKET: self._frame_max,
            Property.TOPIC_ALIAS_MAXIMUM: TOPIC_ALIAS_MAXIMUM,
        }
        if (keep_alive := self._keep_alive(connect)) != connect.keep_alive:
            properties[Property.SERVER_KEEP_ALIVE] = keep_alive
        if not self._client_id:
            self._client_id = f"auto-{broker}-{publisher}"
            properties[Property.ASSIGNED_CLIENT_ID] = self._client_id
            self._peer.ask(FrameType.IDENTIFY, {"client": self._client_id}, lambda _: None)
        if connect.properties.get(Property.REQUEST_RESPONSE):
            properties[Property.RESPONSE_INFORMATION] = f"reply/{broker}/{publisher}"
        if connect.will is not None:
            self._will = self._encoded_will(connect.will)

        def opened(state: SessionState | RemoteError) -> None:
            if isinstance(state, RemoteError):
                self._fail_later(state)
            elif self.state is MqttState.LOGIN:
                self._opened(state, connect, properties)

        opening = SessionOpening(self._peer, connect, self._will, publisher, opened)
        self._clients.enter(self._user, self._client_id, self, partial(self._enter, opening))

    def _limits(self, connect: Connect) -> MqttLimits:
        limits = MqttLimits()
        limits.packet_bytes_max, limits.unanswered_max = self._frame_max, unanswered_max(self._version)
        limits.in_flight_max, limits.credit_step = in_flight_max(connect), CREDIT // 2
        limits.outgoing_packet_bytes_max = maximum_packet(connect)
        limits.aliases_max = min(connect.properties.get(Property.TOPIC_ALIAS_MAXIMUM, 0), ALIASES_MAX)
        return limits

    @property
    def _user(self) -> str:
        return (self._connect.user if self._connect is not None else None) or self._caller.certificate

    def _encoded_will(self, will: Will) -> EncodedWill:
        message = message_of(will, destination_of(will.topic), self._next_id())
        delay_s, expiry_s = will.properties.get(Property.WILL_DELAY, 0), will.properties.get(Property.MESSAGE_EXPIRY, 0)
        return EncodedWill(encode_message(message), 1000 * delay_s, 1000 * expiry_s)

    def _enter(self, opening: SessionOpening) -> None:
        """The connection before it has released what was its own."""
        self._entered = True
        if self.state is MqttState.OVER:  # and the next one waits already
            self._released()
        else:
            opening.start()
        self._caller.wake()

    def _opened(self, state: SessionState, connect: Connect, properties: dict[Property, Any]) -> None:
        assert self._plain is not None
        persistent, self._state = state.persistent, state
        fail, write = self._fail_later, self._output.append
        receiver = ExactlyOnceReceiver(self._peer, state.incoming, fail) if persistent else None
        self._publisher = Publisher(
            self._peer,
            self._plain,
            self._version,
            self._frame_max,
            self._next_id,
            self._send,
            self._encode,
            self._put_given,
            fail,
            receiver,
        )
        self._outgoing = Outgoing(
            self._peer, self._plain, connect, self._send, write, fail, lambda: self._now_ms, persistent=persistent
        )
        self._subscriber = MqttSubscriber(
            self._peer, self._plain, connect, self._outgoing, self._send, fail, state.record, persistent=persistent
        )
        connack = Connack(state.present, Reason.SUCCESS, properties)
        if not self._encode(connack):
            self._fail_later(MqttError(Reason.PACKET_TOO_LARGE, "CONNACK exceeds the client's maximum packet size"))
            return
        self.state = MqttState.READY
        self._send(connack)
        before = self._clients.take_unfinished(self._user, self._client_id)
        if state.present:
            self._outgoing.resume(state.outgoing, before)
            self._subscriber.resume()
        self._take_packets()

    def _next_id(self) -> MessageId:
        assert self._plain is not None
        ms, counter = self._plain.next_id(self._now_ms)
        return MessageId(self._publisher_id, self._broker_id, ms, counter)

    # --- the end --------------------------------------------------------------------------------------------------

    def _send(self, packet: Packet) -> None:
        if not self._put(packet):
            self._fail_later(MqttError(Reason.PACKET_TOO_LARGE, "an answer exceeds the client's maximum packet size"))

    def _put(self, packet: Packet) -> bool:
        """False: the packet is larger than the client allows."""
        data = self._encode(packet)
        self._output.append(data)
        return bool(data)

    def _encode(self, packet: Packet) -> bytes:
        """Nothing if it is larger than the client allows [MQTT-3.1.2-24], without its reason string too."""
        connect = self._connect
        if connect is None:
            return encode(packet, self._version)
        if isinstance(packet, PublishAnswer) and not connect.properties.get(Property.REQUEST_PROBLEM, 1):
            packet = without_reason_string(packet)  # [MQTT-3.1.2-29]
        data, most = encode(packet, self._version), maximum_packet(connect)
        if most and len(data) > most:
            data = encode(without_reason_string(packet), self._version)
        return b"" if most and len(data) > most else data

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
        before = self.state
        if before is MqttState.READY and self._subscriber is not None:
            self._subscriber.release()
        self._leave()
        self.state = MqttState.OVER
        reason = reason_of(error)
        if before is not MqttState.READY:
            self._refuse(reason, error)
        elif self._version == V5:
            why = {Property.REASON_STRING: f"{error.code}: {error.reason}"[:1024]}
            self._put(Disconnect(_disconnect_reason(reason), why))

    def _refuse(self, reason: Reason, error: TidingsError) -> None:
        if reason is Reason.UNSUPPORTED_VERSION:
            self._output.append(encode(Connack(False, RETURN_CODES[reason]), V4))  # which every client reads
        elif self._version == V5 and self._named:
            why = {Property.REASON_STRING: f"{error.code}: {error.reason}"[:1024]}
            self._put(Connack(False, reason, why))
        elif reason in RETURN_CODES and self._connect is not None:
            self._output.append(encode(Connack(False, RETURN_CODES[reason]), V4))

    def _leave(self) -> None:
        """The client id is free for others; called once or more."""
        if self._connect is None or not self._client_id:
            return
        keeps = self.state is MqttState.READY and self._state is not None and self._state.persistent
        unfinished = self._outgoing.unfinished() if keeps and self._outgoing is not None else None
        self._clients.leave(self._user, self._client_id, self, unfinished)


def _disconnect_reason(reason: Reason) -> Reason:
    """A reason code that DISCONNECT may carry."""
    unknown = {Reason.CLIENT_ID, Reason.BAD_LOGIN, Reason.BAD_AUTHENTICATION, Reason.UNSUPPORTED_VERSION}
    return Reason.UNSPECIFIED if reason in unknown or reason is Reason.SERVER_UNAVAILABLE else reason
