"""Sends and acknowledgements that happen together or not at all.

async with client.transaction() as work:
    await work.publish("queue:invoices", {"order": 17})
    await order.ack()          # of a subscription made with work.subscribe(...)

With ack="auto" a commit acknowledges all that was received so far by the session's subscriptions, the last message
too; a rollback gives it back.

A transaction begins with `begin`, or with the first thing that is part of it: a message sent or received. It does not
outlive its connection. If that breaks while `commit` waits for the broker's answer the outcome is
unknown: the error is E_COMMIT_UNKNOWN. Any other code means that nothing was committed. With a key it is safe to
commit again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tidings.client.argument_checks import text, whole
from tidings.client.bodies import Body
from tidings.client.connection.answers import Receipt, again, retrieved
from tidings.client.connection.reconnecting_connection import ReconnectingConnection
from tidings.client.subscription import Subscription
from tidings.errors import ConnectionLostError, RemoteError, TidingsError, UsageError
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, unsigned

BLOCK = 256  # encoded messages that are sent before other tasks have a turn


class TransactionClient(Protocol):
    """The methods of `Client` that a transaction needs."""

    async def ready(self) -> None: ...

    async def publish(self, *arguments: Any, **options: Any) -> Receipt: ...

    async def send_encoded(self, messages: Sequence[bytes], session: int) -> int: ...

    async def subscribe(self, *arguments: Any, **options: Any) -> Subscription: ...

    async def commit(self, session: int, key: str, number: int, digest: str) -> dict[str, Value]: ...

    async def rollback(self, session: int) -> None: ...

    def ask_session(self, type: FrameType, session: int) -> "asyncio.Future[dict[str, Value]]": ...

    def take_session(self, transaction: "Transaction") -> int: ...

    def leave_session(self, number: int) -> None: ...


class Transaction:
    """A transacted session: after `commit` the next thing that is part of it begins the next transaction."""

    def __init__(self, client: TransactionClient, line: ReconnectingConnection) -> None:
        self.open = False
        self.last_commit: tuple[int, str] = (0, "")  # number and digest of the last commit with a key
        self._client = client
        self._line = line
        self._session = 0  # its number on the wire, from when it is needed until the transaction's end
        self._generation = 0  # of the connection it was begun on
        self._begun: asyncio.Future[dict[str, Value]] | None = None
        self._subscriptions: list[Subscription] = []

    @property
    def session(self) -> int:
        if not self._session:
            self._session = self._client.take_session(self)
        return self._session

    @property
    def lost(self) -> bool:
        """True if the connection it was begun on is closed."""
        return self.open and not (self._line.connected and self._line.generation == self._generation)

    async def begin(self) -> None:
        """Begin a transaction; E_TRANSACTION_OPEN if one is open."""
        await self._client.ready()
        if self.open and not self.lost:
            raise UsageError(
                "E_TRANSACTION_OPEN", "a transaction is open in this session: commit or roll it back first"
            )
        self._end()
        begun = self._begin()
        try:
            await asyncio.shield(begun)
        except TidingsError:
            self._end()
            raise
        except asyncio.CancelledError:
            if not self.lost:  # the broker has it open, or will: nobody would end it
                self._client.ask_session(FrameType.ROLLBACK, self.session).add_done_callback(retrieved)
            self._end()
            raise

    async def publish(
        self,
        destination: str | Destination,
        properties: Mapping[str, Value] | None = None,
        body: Body = b"",
        **fields: Any,
    ) -> Receipt:
        """As `Client.publish`; the message is visible after `commit`, which fails if the broker refuses it."""
        self.check()
        await self._client.ready()
        self.use()
        return await self._client.publish(destination, properties, body, session=self.session, **fields)

    async def publish_encoded(self, messages: Sequence[bytes]) -> None:
        """Publish messages that `tidings.kernel.codec.encode_message` has made; they get their ids here.

        Many times as fast as `publish` for each: nothing is checked here, and the commit answers for all.
        """
        self.check()
        await self._client.ready()
        self.use()
        sent = 0
        while sent < len(messages):
            self.check()
            sent += await self._client.send_encoded(messages[sent : sent + BLOCK], self.session)

    async def subscribe(self, destination: str | Destination | DestinationPattern = "", **options: Any) -> Subscription:
        """As `Client.subscribe`; acknowledgements count only with `commit`."""
        subscription = await self._client.subscribe(destination, transaction=self, **options)
        self._subscriptions.append(subscription)
        return subscription

    async def commit(self, key: str = "", number: int = 0, digest: str = "") -> bool:
        """Commit, or raise an error if nothing was committed (E_COMMIT_UNKNOWN: outcome unknown).

        With a key it is committed once: False if this number, or a higher one, was committed under the key before; then
        `last_commit` has the number that was committed last, and the digest that was given with it.
        """
        text("key", key)
        text("digest", digest)
        whole("number", number, 63)
        if self.lost:
            self._abandon()
            raise _gone()
        await self._client.ready()
        self.use()
        self._received()
        begun = self._begun
        try:
            answer = await self._client.commit(self.session, key, number, digest)
            if not answer.get("duplicate"):
                self.last_commit = (number, digest)
                return True
            self.last_commit = (unsigned(answer, "number", 63), str(answer.get("digest", "")))
            return False
        except RemoteError:
            cause = begun.exception() if begun is not None and begun.done() else None
            if isinstance(cause, TidingsError):  # it never began
                raise again(cause) from None
            raise
        finally:
            self._end()

    async def rollback(self) -> None:
        """Undo the transaction; acknowledged messages are delivered again."""
        if self.lost:
            self._abandon()
        if not self.open:
            return
        self._received()
        try:
            await self._client.rollback(self.session)
        except RemoteError as error:
            if error.code != "E_TRANSACTION_NONE":
                raise
        except ConnectionLostError:
            pass  # the transaction ended with the connection
        finally:
            self._end()

    async def __aenter__(self) -> "Transaction":
        await self.begin()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.open:
            return
        if kind is None:
            await self.commit()
        else:
            await self.rollback()

    # --- for the client -------------------------------------------------------------------------------------------

    def use(self) -> None:
        """Something becomes part of it: it begins, unless it has begun."""
        if not self.open:
            self._begin()

    def check(self) -> None:
        if self.lost:
            raise _gone()

    def left(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _begin(self) -> "asyncio.Future[dict[str, Value]]":
        """Without waiting for the answer: what follows on the connection follows it at the broker."""
        begun = self._client.ask_session(FrameType.BEGIN, self.session)
        begun.add_done_callback(retrieved)
        self.open, self._generation, self._begun = True, self._line.generation, begun
        return begun

    def _received(self) -> None:
        """Make messages that are acknowledged automatically part of the transaction."""
        for subscription in self._subscriptions:
            subscription.finish()

    def _abandon(self) -> None:
        """It is gone with its connection; what came on the new one meanwhile cannot be part of it."""
        for subscription in self._subscriptions:
            subscription.retry_unfinished()
        self._end()

    def _end(self) -> None:
        self.open, self._begun = False, None
        if self._session:
            self._client.leave_session(self._session)
            self._session = 0


def _gone() -> ConnectionLostError:
    return ConnectionLostError("E_CONNECTION_LOST", "the transaction ended with its connection: nothing was committed")
