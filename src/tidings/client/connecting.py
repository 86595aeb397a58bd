"""`connect`: the way in."""

import ssl
from collections.abc import Callable

from tidings.client.client import Client
from tidings.client.options import Options, parse_url
from tidings.errors import TidingsError


def connect(
    url: str = "tidings://127.0.0.1:7300",
    *,
    user: str = "",
    password: str = "",
    client_id: str = "",
    tls: ssl.SSLContext | None = None,
    reconnect: bool = True,
    give_up_seconds: float = 60.0,
    heartbeat_ms: int = 10_000,
    on_error: Callable[[TidingsError], None] | None = None,
) -> Client:
    """A client for `tidings://host:port` (`tidings+tls://` for TLS). Use it with `async with`, or `await` it.

    `client_id` names the owner of durable subscriptions; give one if you make any. `on_error` is called with what no
    call could raise: why the broker ended the connection, or refused a publication that nobody waits for.
    """
    host, port, url_user, url_password, encrypted = parse_url(url)
    return Client(
        Options(
            host=host,
            port=port,
            user=user or url_user,
            password=password or url_password,
            client_id=client_id,
            tls=ssl.create_default_context() if encrypted and tls is None else tls,
            reconnect=reconnect,
            give_up_seconds=give_up_seconds,
            heartbeat_ms=heartbeat_ms,
            on_error=on_error,
        )
    )
