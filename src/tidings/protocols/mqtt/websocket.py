"""MQTT over WebSocket: binary messages, cut anywhere, with the subprotocol `mqtt` [MQTT-6.0.0-1] to [MQTT-6.0.0-4]."""

from collections.abc import Callable

from tidings.protocols.mqtt.session import MqttSession, MqttState
from tidings.protocols.session import Caller
from tidings.protocols.websocket.frames import WebSocketLayer

SUBPROTOCOLS = ("mqtt", "mqttv3.1")
HEADERS_BYTES_MAX = 64 << 10  # of one WebSocket message beside a packet of the largest size


class MqttWebSocketSession:
    """An MQTT session whose bytes are in WebSocket frames."""

    def __init__(self, make_session: Callable[[Caller], MqttSession], origins: tuple[str, ...], caller: Caller) -> None:
        self._session, self._caller = make_session(caller), caller
        self._layer = WebSocketLayer(origins, subprotocols=SUBPROTOCOLS, binary=True)
        self._closed = False

    def receive(self, data: bytes, now_ms: int) -> None:
        """Bytes from the client. An error ends the connection, once what `take_output` has is sent."""
        if self._session.state is MqttState.READY:
            self._layer.message_bytes_max = self._caller.frame_bytes_max + HEADERS_BYTES_MAX
        payload = self._layer.receive(data)
        if payload:
            self._session.receive(payload, now_ms)
        if self._layer.ended and not self._closed:
            self._closed = True
            self._session.lost()

    def frames(self, data: bytes, now_ms: int) -> None:
        """Native frames from the broker."""
        self._session.frames(data, now_ms)

    def tick(self, now_ms: int) -> None:
        self._session.tick(now_ms)

    def lost(self) -> None:
        """The connection is closed: release what is held for it."""
        self._session.lost()

    def take_frames(self) -> bytes:
        """For the broker."""
        return self._session.take_frames()

    def take_output(self) -> bytes:
        """For the client."""
        output = self._session.take_output()
        data = self._layer.to_send()
        if output:
            data += self._layer.wrap(output)
        if self._session.state is MqttState.OVER:
            self._layer.close()
            data += self._layer.to_send()
        return data

    @property
    def waiting_bytes(self) -> int:
        """Bytes held because the client's receive maximum is used up."""
        return self._session.waiting_bytes
