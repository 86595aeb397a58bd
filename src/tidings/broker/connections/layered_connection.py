"""A client's socket with frames around its protocol, such as WebSocket's. They come off and on here."""

from collections.abc import Callable

from tidings.broker.connections.connection import ClientConnection, ConnectionServices
from tidings.node.protocol_session import ProtocolSession
from tidings.protocols.session import Layer

HEADERS_BYTES_MAX = 64 << 10  # what a message may have besides its body


class LayeredConnection(ClientConnection):
    def __init__(
        self, services: ConnectionServices, session: ProtocolSession, layer: Layer, frame_bytes_max: Callable[[], int]
    ) -> None:
        super().__init__(services, session)
        self._layer, self._frame_bytes_max = layer, frame_bytes_max
        self._known = False  # its first bytes were looked at

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.services.layer_buffer

    def buffer_updated(self, size: int) -> None:
        layer = self._layer
        if not self._known:
            self._known = True
            if self.speaks_foreign(self.services.layer_buffer[:size]):
                return
        if self.logged_in:
            layer.message_bytes_max = self._frame_bytes_max() + HEADERS_BYTES_MAX
        payload = layer.receive(bytes(self.services.layer_buffer[:size]))
        self._put(layer.to_send())
        room = len(self.services.forwarder.buffer)
        for start in range(0, len(payload), room):
            piece = payload[start : start + room]
            if self.number < 0:
                return
            self.services.forwarder.buffer[: len(piece)] = piece
            self.take(len(piece))
        if layer.ended and self._transport is not None:
            self._transport.close()

    def write(self, data: bytes) -> None:
        self._put(self._layer.wrap(data))

    def close(self) -> None:
        self._layer.close()
        self._put(self._layer.to_send())
        super().close()

    def _put(self, data: bytes) -> None:
        if data:
            super().write(data)
