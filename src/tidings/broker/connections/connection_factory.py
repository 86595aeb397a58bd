"""Makes the connection of a client: plain, framed or translated, and with admission control where that is on."""

import asyncio
from collections.abc import Callable

from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.connections.connection import ClientConnection, ConnectionServices
from tidings.broker.connections.gateway_connection import GatewayConnection, GatewayServices
from tidings.broker.connections.layered_connection import LayeredConnection
from tidings.kernel.forwarder import Flag
from tidings.node.clients.admission import Admission


class ConnectionMaker:
    """`admission`: publishers may have to pause after a read (admission.py)."""

    def __init__(self, services: ConnectionServices, gateways: GatewayServices, admission: Admission | None) -> None:
        self._services, self._gateways, self._admission = services, gateways, admission

    def make(self, listener: ListenerSettings) -> ClientConnection:
        session, services = listener.make_session(), self._services
        connection: ClientConnection
        if listener.make_gateway is not None:
            connection = GatewayConnection(services, session, self._gateways, listener.make_gateway)
        elif listener.make_layer is not None:
            layer = listener.make_layer()
            connection = LayeredConnection(services, session, layer, self._gateways.frame_bytes_max)
        else:
            connection = ClientConnection(services, session)
        if self._admission is not None:
            _admit(connection, self._admission)
        connection.protocol = listener.protocol or session.name
        return connection


def _admit(connection: ClientConnection, admission: Admission) -> None:
    """After each of its reads the connection may have to pause."""
    read: Callable[[int], None] = connection.buffer_updated
    services = connection.services

    def buffer_updated(size: int) -> None:
        read(size)
        pause = admission.took(services.forwarder.received())
        if pause > 0 and connection.number >= 0:
            connection.pause_reading()
            asyncio.get_running_loop().call_later(pause, after_pause)

    def after_pause() -> None:
        if connection.number >= 0 and not connection.closing:  # something else may hold it up: the forwarder knows
            services.table.react(connection, int(Flag.BLOCKED), flush=False)

    connection.buffer_updated = buffer_updated  # type: ignore[method-assign]
