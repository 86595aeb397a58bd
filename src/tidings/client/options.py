"""Where to connect, as whom, and how patiently."""

import ssl
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from tidings.errors import UsageError

DEFAULT_PORT = 7300


@dataclass(frozen=True, slots=True)
class Options:
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    client_id: str = ""
    tls: ssl.SSLContext | None = None
    reconnect: bool = True
    give_up_seconds: float = 60.0
    connect_seconds: float = 10.0
    heartbeat_ms: int = 10_000


def options_from(
    url: str,
    *,
    user: str = "",
    password: str = "",
    client_id: str = "",
    tls: ssl.SSLContext | None = None,
    reconnect: bool = True,
    give_up_seconds: float = 60.0,
    heartbeat_ms: int = 10_000,
) -> Options:
    parts = urlsplit(url if "://" in url else f"tidings://{url}")
    if parts.scheme not in ("tidings", "tidings+tls"):
        raise UsageError("E_URL", f"the address {url!r} does not begin with tidings:// or tidings+tls://")
    if parts.scheme == "tidings+tls" and tls is None:
        tls = ssl.create_default_context()
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise UsageError("E_URL", f"the address {url!r} has no valid port") from None
    return Options(
        host=parts.hostname or "127.0.0.1",
        port=port,
        user=user or unquote(parts.username or ""),
        password=password or unquote(parts.password or ""),
        client_id=client_id,
        tls=tls,
        reconnect=reconnect,
        give_up_seconds=give_up_seconds,
        heartbeat_ms=heartbeat_ms,
    )
