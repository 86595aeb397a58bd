"""The listeners for clients of a broker."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from tidings.broker.connections.connection_limits import ConnectionLimits
from tidings.broker.connections.listener import Listener, TlsHandshakes
from tidings.broker.log_rate_limit import LogRateLimit
from tidings.broker.security.tls_failures import TlsFailures
from tidings.errors import UsageError
from tidings.node.limits import BrokerLimits
from tidings.node.protocol_session import ProtocolSession
from tidings.protocols.session import Caller, Gateway, Layer


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    make_session: Callable[[], ProtocolSession]
    host: str = "127.0.0.1"
    port: int = 7300
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    make_layer: Callable[[], Layer] | None = None  # for protocols inside frames
    make_gateway: Callable[[Caller], Gateway] | None = None  # another protocol, translated into the session's
    protocol: str = ""  # its name, if it is not the session's


class ClientListeners(Listener):
    def __init__(
        self, listener: ListenerSettings, make: Callable[[], asyncio.BaseProtocol], handshakes: TlsHandshakes
    ) -> None:
        super().__init__(listener.host, listener.port, make, handshakes, listener.tls)
        self.listener = listener

    async def open(self) -> None:
        try:
            await super().open()
        except OSError as error:
            where = f"{self.listener.host} port {self.listener.port}"
            reason = f"cannot listen on {where} ({error.strerror or error}); choose another address or port"
            raise UsageError("E_LISTEN", reason) from None


def client_handshakes(limits: Callable[[], BrokerLimits], lines: LogRateLimit) -> TlsHandshakes:
    """TLS handshakes of clients, which count as connections from their first byte."""
    connection_limits = ConnectionLimits(lambda: (limits().connections_max, limits().connections_per_address_max))
    return TlsHandshakes(connection_limits, TlsFailures(lines), lambda: limits().login_seconds)
