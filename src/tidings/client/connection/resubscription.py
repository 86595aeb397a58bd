"""Subscriptions made anew on a new connection."""

import asyncio
from typing import TYPE_CHECKING, Any

from tidings.client.connection.answers import PASSING_CODES
from tidings.errors import ConnectionLostError, TidingsError

if TYPE_CHECKING:
    from tidings.client.client import Client
    from tidings.client.subscription import Subscription

RESUBSCRIBE_SECONDS = 0.25


class Resubscribing:
    def __init__(self, client: "Client") -> None:
        self._client = client

    def repeat(self, subscription: "Subscription") -> None:
        if not self._client.connected or subscription.closed:
            return
        generation = self._client.generation
        future = self._client.ask(subscription.request, repeatable=False)
        future.add_done_callback(lambda done: self._repeated(subscription, generation, done))

    def _repeated(self, subscription: "Subscription", generation: int, done: "asyncio.Future[Any]") -> None:
        """A subscription that could not be made anew is over, unless the connection was merely lost again."""
        error = None if done.cancelled() else done.exception()
        if not isinstance(error, TidingsError) or isinstance(error, ConnectionLostError):
            return
        if error.code in PASSING_CODES:  # the broker may not have noticed yet that our last connection is gone

            def again() -> None:
                if self._client.generation == generation:
                    self.repeat(subscription)

            asyncio.get_running_loop().call_later(RESUBSCRIBE_SECONDS, again)
        else:
            self._client.ended(subscription, error)
