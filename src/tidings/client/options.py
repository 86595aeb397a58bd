"""Connection options of a client."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from tidings.client.broker_url import BrokerAddress
from tidings.errors import TidingsError


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    addresses: tuple[BrokerAddress, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    client_id: str = ""
    tls: ssl.SSLContext | None = None
    reconnect: bool = True
    give_up_seconds: float = 60.0
    connect_seconds: float = 10.0
    close_seconds: float = 10.0  # for publications to reach the broker when the client is closed
    heartbeat_ms: int = 10_000
    on_error: Callable[[TidingsError], None] | None = None
