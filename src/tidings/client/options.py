"""Where a client connects to, and how."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from tidings.errors import TidingsError, UsageError

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
    on_error: Callable[[TidingsError], None] | None = None


def parse_url(url: str) -> tuple[str, int, str, str, bool]:
    """Host, port, user, password, and whether to use TLS.

    >>> parse_url("tidings://me:secret@example.org")
    ('example.org', 7300, 'me', 'secret', False)
    """
    parts = urlsplit(url if "://" in url else f"tidings://{url}")
    if parts.scheme not in ("tidings", "tidings+tls"):
        raise UsageError("E_URL", f"the address {url!r} does not begin with tidings:// or tidings+tls://")
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise UsageError("E_URL", f"the address {url!r} has no valid port") from None
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return parts.hostname or "127.0.0.1", port, user, password, parts.scheme == "tidings+tls"
