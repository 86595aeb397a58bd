"""A source of data for the console: one broker, by its native protocol, as the logged-in user."""

import asyncio
import ssl
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidings.client import Client, connect
from tidings.client.broker_url import without_login
from tidings.errors import SecurityError, TidingsError

ASK_SECONDS = 5.0
RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """As whom to connect. Nobody, at brokers that have no users."""

    user: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)


class Source(Protocol):
    """A broker that can be inspected."""

    @property
    def url(self) -> str: ...

    @property
    def refused(self) -> TidingsError | None:
        """The reason for which the broker refuses this user; asking again is useless."""

    async def inspect(
        self, part: str = "overview", *, offset: int = 0, count: int = 0, containing: str = ""
    ) -> dict[str, Any]: ...

    async def client(self) -> Client:
        """For whatever else there is to be done."""

    async def connect(self) -> Client:
        """A connection of one's own, to be closed by whoever asked for it."""

    async def close(self) -> None: ...


class BrokerSource:
    """Connects when it is first asked, and again after the connection was lost."""

    def __init__(self, url: str, login: BrokerLogin) -> None:
        self._url = url
        self._login = login
        self._client: Client | None = None
        self._opening = asyncio.Lock()
        self._failed_at = -RETRY_SECONDS
        self._failure: Exception | None = None
        self._refused: TidingsError | None = None

    @property
    def url(self) -> str:
        """Without a password, should there be one in it."""
        return without_login(self._url)

    @property
    def refused(self) -> TidingsError | None:
        return self._refused

    async def connect(self) -> Client:
        login = self._login
        tls = login.tls if self._url.startswith("tidings+tls:") else None
        client: Client = await connect(
            self._url, user=login.user, password=login.password, tls=tls, client_id="console", reconnect=False
        )
        return client

    async def client(self) -> Client:
        async with self._opening:
            if self._client is not None and self._client.connected:
                return self._client
            if self._refused is not None:  # each further try would count as a failed login
                raise self._refused
            if self._failure is not None and time.monotonic() - self._failed_at < RETRY_SECONDS:
                raise self._failure
            try:
                self._client = await self.connect()
            except SecurityError as error:
                self._refused = error
                raise
            except (OSError, TidingsError) as error:
                self._failed_at, self._failure = time.monotonic(), error
                raise
            self._failure = None
            return self._client

    async def inspect(
        self, part: str = "overview", *, offset: int = 0, count: int = 0, containing: str = ""
    ) -> dict[str, Any]:
        async with asyncio.timeout(ASK_SECONDS):
            client = await self.client()
            return await client.inspect(part, offset=offset, count=count, containing=containing)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
