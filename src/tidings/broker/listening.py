"""Where clients of a broker connect."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from tidings.broker.crowd import Crowd
from tidings.broker.door import Door, Handshakes
from tidings.broker.failed_handshakes import FailedHandshakes
from tidings.broker.log_rate_limit import LogRateLimit
from tidings.errors import UsageError
from tidings.node.limits import Limits
from tidings.node.protocol_session import Session
from tidings.protocols.session import Caller, Gateway, Layer


@dataclass(frozen=True, slots=True)
class Listener:
    make_session: Callable[[], Session]
    host: str = "127.0.0.1"
    port: int = 7300
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    make_layer: Callable[[], Layer] | None = None  # if there are frames around the protocol
    make_gateway: Callable[[Caller], Gateway] | None = None  # another protocol, translated into the session's
    protocol: str = ""  # its name, if it is not the session's


class Listening(Door):
    def __init__(self, listener: Listener, make: Callable[[], asyncio.BaseProtocol], handshakes: Handshakes) -> None:
        super().__init__(listener.host, listener.port, make, handshakes, listener.tls)
        self.listener = listener

    async def open(self) -> None:
        try:
            await super().open()
        except OSError as error:
            where = f"{self.listener.host} port {self.listener.port}"
            reason = f"cannot listen on {where} ({error.strerror or error}); is another broker running there?"
            raise UsageError("E_LISTEN", reason) from None


def client_handshakes(limits: Callable[[], Limits], lines: LogRateLimit) -> Handshakes:
    """Who comes in by TLS counts as a connection from the first."""
    crowd = Crowd(lambda: (limits().connections_max, limits().connections_per_address_max))
    return Handshakes(crowd, FailedHandshakes(lines), lambda: limits().login_seconds)
