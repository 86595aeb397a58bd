"""Connection options of a client, and parsing of broker addresses."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from tidings.client.argument_checks import text
from tidings.errors import TidingsError, UsageError

DEFAULT_PORT = 7300


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    host: str
    port: int
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


def without_login(url: str) -> str:
    """The address without user and password, for messages and logs, whatever else is wrong with it.

    >>> without_login("tidings+tls://me:s@cret://x@example.org:7300"), without_login("me:secret@example.org")
    ('tidings+tls://example.org:7300', 'tidings://example.org')
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        scheme, rest = "tidings", url
    return f"{scheme.rpartition('@')[2]}://{rest.rpartition('@')[2]}"


def parse_url(url: str) -> tuple[str, int, str, str, bool]:
    """Host, port, user, password, and whether to use TLS.

    >>> parse_url("tidings://me:secret@example.org")
    ('example.org', 7300, 'me', 'secret', False)
    """
    shown = without_login(text("the address", url))
    try:
        parts = urlsplit(url if "://" in url else f"tidings://{url}")
        (parts.hostname or "").encode("idna")
    except ValueError:  # its text may contain the password
        raise UsageError("E_URL", f"the address {shown!r} has no valid host") from None
    if parts.scheme not in ("tidings", "tidings+tls"):
        raise UsageError("E_URL", f"the address {shown!r} does not begin with tidings:// or tidings+tls://")
    try:
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError:
        port = 0
    if not port:
        raise UsageError("E_URL", f"the address {shown!r} has no valid port")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return parts.hostname or "127.0.0.1", port, user, password, parts.scheme == "tidings+tls"
