"""`connect`: creates an asyncio client."""

import ssl
from collections.abc import Callable

from tidings.client.argument_checks import flag, seconds, text, whole
from tidings.client.broker_url import parse_url
from tidings.client.client import Client
from tidings.client.options import ConnectOptions
from tidings.errors import TidingsError, UsageError


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
    close_seconds: float = 10.0,
    on_error: Callable[[TidingsError], None] | None = None,
) -> Client:
    """A client for `tidings://host:port` (`tidings+tls://` for TLS). Use it with `async with`, or `await` it.

    Several brokers that stand in for each other are divided by commas, as in `tidings://a:7300,b:7300`. They are tried
    in this order; after a loss, from the one that was connected on.

    `client_id` names the owner of durable subscriptions; give one if you make any. `on_error` is called with errors
    that no call can raise: the broker closed the connection, refused a publication without confirmation, or dropped
    messages of a subscription. `close_seconds` is how long `close` waits until all that was published has arrived.
    """
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        raise UsageError("E_ARGUMENT", "tls must be an ssl.SSLContext")
    if on_error is not None and not callable(on_error):
        raise UsageError("E_ARGUMENT", "on_error must be a function")
    addresses, url_user, url_password, encrypted = parse_url(url)
    return Client(
        ConnectOptions(
            addresses=addresses,
            user=text("user", user) or url_user,
            password=text("password", password) or url_password,
            client_id=text("client_id", client_id),
            tls=ssl.create_default_context() if encrypted and tls is None else tls,
            reconnect=flag("reconnect", reconnect),
            give_up_seconds=seconds("give_up_seconds", give_up_seconds),
            close_seconds=seconds("close_seconds", close_seconds),
            heartbeat_ms=whole("heartbeat_ms", heartbeat_ms),
            on_error=on_error,
        )
    )
