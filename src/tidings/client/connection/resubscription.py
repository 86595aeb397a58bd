"""Repeats subscriptions on a new connection."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from tidings.client.connection.answers import PASSING_CODES
from tidings.errors import ConnectionLostError, TidingsError
from tidings.model.values import Value

RESUBSCRIBE_SECONDS = 0.25


class Repeatable(Protocol):
    """A subscription that can be requested again."""

    number: int

    @property
    def closed(self) -> bool: ...

    def request(self, receipt: int) -> bytes: ...


class Requester(Protocol):
    """The methods of `Client` that a repeated subscription needs."""

    @property
    def connected(self) -> bool: ...

    @property
    def generation(self) -> int: ...

    def ask(self, make: Callable[[int], bytes], *, repeatable: bool) -> "asyncio.Future[dict[str, Value]]": ...

    def ended(self, number: int, error: TidingsError) -> None: ...


class Resubscribing:
    def __init__(self, client: Requester) -> None:
        self._client = client

    def repeat(self, subscription: Repeatable) -> None:
        if not self._client.connected or subscription.closed:
            return
        generation = self._client.generation
        future = self._client.ask(subscription.request, repeatable=False)
        future.add_done_callback(lambda done: self._repeated(subscription, generation, done))

    def _repeated(self, subscription: Repeatable, generation: int, done: "asyncio.Future[Any]") -> None:
        """Ends a subscription that could not be restored, unless the connection was lost again."""
        error = None if done.cancelled() else done.exception()
        if not isinstance(error, TidingsError) or isinstance(error, ConnectionLostError):
            return
        if error.code in PASSING_CODES:  # the broker may not have noticed yet that our last connection is gone

            def again() -> None:
                if self._client.generation == generation:
                    self.repeat(subscription)

            asyncio.get_running_loop().call_later(RESUBSCRIBE_SECONDS, again)
        else:
            self._client.ended(subscription.number, error)
