"""Makes the connection of a client: plain, framed or translated."""

from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.connections.connection import ClientConnection, ConnectionServices
from tidings.broker.connections.gateway_connection import GatewayConnection, GatewayServices
from tidings.broker.connections.layered_connection import LayeredConnection


class ConnectionMaker:
    def __init__(self, services: ConnectionServices, gateways: GatewayServices) -> None:
        self._services, self._gateways = services, gateways

    def make(self, listener: ListenerSettings) -> ClientConnection:
        session, services = listener.make_session(), self._services
        connection: ClientConnection
        if listener.make_gateway is not None:
            connection = GatewayConnection(services, session, self._gateways, listener.make_gateway)
        elif listener.make_layer is not None:
            layer, limits = listener.make_layer(), self._gateways.limits
            connection = LayeredConnection(services, session, layer, lambda: limits().frame_bytes_max)
        else:
            connection = ClientConnection(services, session)
        connection.protocol = listener.protocol or session.name
        plain = listener.make_gateway is None and listener.make_layer is None
        connection.expects = listener.protocol or (session.name if plain else "")
        return connection
