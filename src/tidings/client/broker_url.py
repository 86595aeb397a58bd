"""Addresses of brokers: `tidings://user:password@host:port`, and `tidings+tls://` for connections with TLS."""

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tidings.client.argument_checks import text
from tidings.errors import UsageError

DEFAULT_PORT = 7300
ADDRESSES_MAX = 64  # of one URL


class BrokerAddress(NamedTuple):
    host: str
    port: int


class BrokerUrl(NamedTuple):
    addresses: tuple[BrokerAddress, ...]  # in the order in which they are tried
    user: str
    password: str
    encrypted: bool


def without_login(url: str) -> str:
    """The address without user and password, for messages and logs, whatever else is wrong with it.

    >>> without_login("tidings+tls://me:s@cret://x@example.org:7300"), without_login("me:secret@example.org")
    ('tidings+tls://example.org:7300', 'tidings://example.org')
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        scheme, rest = "tidings", url
    return f"{scheme.rpartition('@')[2]}://{rest.rpartition('@')[2]}"


def parse_url(url: str) -> BrokerUrl:
    """The parts of an address; several brokers that stand in for each other are divided by commas.

    >>> parse_url("tidings://me:secret@example.org")
    BrokerUrl(addresses=(BrokerAddress(host='example.org', port=7300),), user='me', password='secret', encrypted=False)
    >>> parse_url("a:7301,b").addresses
    (BrokerAddress(host='a', port=7301), BrokerAddress(host='b', port=7300))
    """
    shown = without_login(text("the address", url))
    scheme, mark, rest = url.partition("://")
    if not mark:
        scheme, rest = "tidings", url
    if scheme not in ("tidings", "tidings+tls"):
        raise UsageError("E_URL", f"the address {shown!r} does not begin with tidings:// or tidings+tls://")
    login, _, hosts = rest.rpartition("@")
    for end in "/?#":
        hosts = hosts.partition(end)[0]
    names = hosts.split(",")
    if len(names) > ADDRESSES_MAX:
        raise UsageError("E_URL", f"the address names {len(names)} brokers; at most {ADDRESSES_MAX} are supported")
    if len(names) > 1 and not all(names):
        raise UsageError("E_URL", f"the address {shown!r} has an empty host between commas")
    addresses = tuple(_address(name, shown) for name in names)
    user, _, password = login.partition(":")
    return BrokerUrl(addresses, unquote(user), unquote(password), scheme == "tidings+tls")


def _address(name: str, shown: str) -> BrokerAddress:
    try:
        parts = urlsplit(f"//{name}")
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise UsageError("E_URL", f"the address {shown!r} has no valid host") from None
    try:
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError:
        port = 0
    if not port:
        raise UsageError("E_URL", f"the address {shown!r} has no valid port")
    return BrokerAddress(parts.hostname or "127.0.0.1", port)
