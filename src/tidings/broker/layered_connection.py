"""A client's socket with frames around its protocol, such as WebSocket's. They come off and on here."""

from typing import TYPE_CHECKING

from tidings.broker.connection import ClientConnection
from tidings.broker.gateway_connection import GatewayConnection
from tidings.broker.listening import Listener
from tidings.broker.session import Layer, Session

if TYPE_CHECKING:
    from tidings.broker.server import Broker

HEADERS_BYTES_MAX = 64 << 10  # what a message may have besides its body


class LayeredConnection(ClientConnection):
    def __init__(self, broker: "Broker", session: Session, layer: Layer) -> None:
        super().__init__(broker, session)
        self._layer = layer

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.broker.layer_buffer

    def buffer_updated(self, size: int) -> None:
        layer = self._layer
        if self.logged_in:
            layer.message_bytes_max = self.broker.limits.frame_bytes_max + HEADERS_BYTES_MAX
        payload = layer.receive(bytes(self.broker.layer_buffer[:size]))
        self._put(layer.to_send())
        room = len(self.broker.buffer)
        for start in range(0, len(payload), room):
            piece = payload[start : start + room]
            if self.number < 0:
                return
            self.broker.buffer[: len(piece)] = piece
            super().buffer_updated(len(piece))
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


def make_connection(broker: "Broker", listener: Listener) -> ClientConnection:
    """For a client that comes to this listener."""
    session = listener.make_session()
    if listener.make_gateway is not None:
        connection: ClientConnection = GatewayConnection(broker, session, listener.make_gateway)
    elif listener.make_layer is None:
        connection = ClientConnection(broker, session)
    else:
        connection = LayeredConnection(broker, session, listener.make_layer())
    connection.protocol = listener.protocol or session.name
    return connection
