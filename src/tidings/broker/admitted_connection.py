"""Connections of a broker with admission control (admission.py): they may have to pause after a read."""

import asyncio
from typing import TYPE_CHECKING

from tidings.broker import layered_connection
from tidings.broker.connection import ClientConnection
from tidings.broker.gateway_connection import GatewayConnection
from tidings.broker.layered_connection import LayeredConnection
from tidings.broker.listening import Listener
from tidings.kernel.forwarder import Flag

if TYPE_CHECKING:
    from tidings.broker.server import Broker


class AdmittedConnection(ClientConnection):
    def buffer_updated(self, size: int) -> None:
        super().buffer_updated(size)
        broker = self.broker
        assert broker.admission is not None
        pause = broker.admission.took(broker.forwarder.received())
        if pause > 0 and self.number >= 0:
            self.pause_reading()
            asyncio.get_running_loop().call_later(pause, self._after_pause)

    def _after_pause(self) -> None:
        if self.number >= 0 and not self.closing:  # perhaps somebody else holds it up by now: the forwarder knows
            self.broker.react(self, int(Flag.BLOCKED), flush=False)


class AdmittedLayered(AdmittedConnection, LayeredConnection):
    pass


class AdmittedGateway(AdmittedConnection, GatewayConnection):
    pass


def make_connection(broker: "Broker", listener: Listener) -> ClientConnection:
    """For a client that comes to this listener."""
    if broker.admission is None:
        return layered_connection.make_connection(broker, listener)
    session = listener.make_session()
    if listener.make_gateway is not None:
        return AdmittedGateway(broker, session, listener.make_gateway)
    if listener.make_layer is None:
        return AdmittedConnection(broker, session)
    return AdmittedLayered(broker, session, listener.make_layer())
