"""Making a connection to another broker, with or without TLS.

If the handshake fails because of what the peer has shown, the peer gets the alert: event loops close the socket
before OpenSSL's alert is sent, and the peer would only see that the connection ended.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from tidings.broker.security.tls import farewell_of


async def dial(make: Callable[[], asyncio.BaseProtocol], host: str, port: int, tls: ssl.SSLContext | None) -> None:
    loop = asyncio.get_running_loop()
    if tls is None:
        await loop.create_connection(make, host, port)
        return
    ours = await _connected(loop, host, port)
    with ours:
        try:
            await loop.create_connection(make, sock=ours.dup(), ssl=tls, server_hostname=host)
        except ssl.SSLError as error:
            with suppress(OSError):
                ours.send(farewell_of(error))
            raise


async def _connected(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """By the first of the host's addresses that answers."""
    failure = OSError(f"{host} has no address")
    for family, type, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        made = socket.socket(family, type, protocol)
        try:
            made.setblocking(False)
            await loop.sock_connect(made, address)
        except OSError as error:
            made.close()
            failure = error
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failure
