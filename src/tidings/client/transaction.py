"""Sends and acknowledgements that happen together or not at all.

async with client.transaction() as work:
    await work.publish("queue:invoices", {"order": 17})
    await order.ack()          # of a subscription made with work.subscribe(...)
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidings.client.subscription import Subscription
from tidings.errors import ConnectionLostError, RemoteError
from tidings.model.values import Value

if TYPE_CHECKING:
    from tidings.client.answers import Receipt
    from tidings.client.client import Client


class Transaction:
    """A transacted session: `commit` ends one transaction and begins the next."""

    def __init__(self, client: "Client", session: int) -> None:
        self._client = client
        self.session = session
        self.open = False
        self._generation = 0  # of the connection it was begun on

    async def begin(self) -> None:
        await self._client.begin(self.session)
        self.open, self._generation = True, self._client.generation

    async def publish(
        self, destination: str, properties: Mapping[str, Value] | None = None, body: bytes = b"", **fields: Any
    ) -> "Receipt":
        """As `Client.publish`; nobody sees the message before `commit`, which fails if the broker refuses it."""
        return await self._client.publish(destination, properties, body, session=self.session, **fields)

    async def subscribe(self, destination: str, **options: Any) -> Subscription:
        """As `Client.subscribe`; acknowledgements count only with `commit`."""
        return await self._client.subscribe(destination, session=self.session, **options)

    async def commit(self, key: str = "", number: int = 0) -> bool:
        """All of it happens now, or an error says that nothing did.

        With a key it happens once: False if this number, or a higher one, was committed under the key before.
        """
        self.open = False
        new = await self._client.commit(self.session, key, number)
        await self.begin()
        return new

    async def rollback(self) -> None:
        """Nothing of it happened; acknowledged messages are delivered again."""
        self.open = False
        try:
            await self._client.rollback(self.session)
        except RemoteError as error:
            if error.code != "E_TRANSACTION_NONE":  # it ended with an earlier connection: just as well
                raise
        await self.begin()

    async def __aenter__(self) -> "Transaction":
        await self.begin()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.open:
            return
        self.open = False
        if self._client.connected and self._client.generation == self._generation:
            await (self._client.commit(self.session) if kind is None else self._client.rollback(self.session))
        elif kind is None:
            reason = "the transaction ended with its connection: nothing of it happened"
            raise ConnectionLostError("E_CONNECTION_LOST", reason)
