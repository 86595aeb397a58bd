"""Subscriptions that the broker has, or may have, and that nobody here wants.

A consumer that is left behind at the broker takes messages which others should have: so whoever gives up subscribing
halfway unsubscribes, and so does a client that is sent something for a subscription which it does not know.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control


class RemoveOrphan(Protocol):
    def __call__(self, make: Callable[[int], bytes], *, repeatable: bool) -> "asyncio.Future[dict[str, Value]]": ...


class OrphanSubscriptions:
    def __init__(self, ask: RemoveOrphan) -> None:
        self._ask = ask
        self._leaving: set[int] = set()  # unsubscribed on this connection; deliveries may still be on their way

    def dismiss(self, number: int) -> "asyncio.Future[dict[str, Value]]":
        """Unsubscribe. What was delivered and is not settled nobody saw: it does not count as tried."""
        fields: dict[str, Value] = {"subscription": number, "release": True}
        self._leaving.add(number)
        future = self._ask(
            lambda receipt: control(FrameType.UNSUBSCRIBE, {**fields, "receipt": receipt}), repeatable=False
        )
        future.add_done_callback(lambda done: self._dismissed(number, done))
        return future

    def abandon(self, number: int, asked: "asyncio.Future[dict[str, Value]]") -> None:
        """Nobody waits any more for the answer to this subscription."""
        dismissed = self.dismiss(number)

        def answered(done: "asyncio.Future[Any]") -> None:
            # A broker that looks for an event type, or another connection, makes it after it was to be dismissed.
            if _succeeded(done) and dismissed.done() and not _succeeded(dismissed):
                self.dismiss(number)

        asked.add_done_callback(answered)

    def stray(self, number: int) -> None:
        """Something was delivered for a subscription that is not known."""
        if number not in self._leaving:
            self.dismiss(number)

    def lost(self) -> None:
        """The connection is gone, and with it what was subscribed on it."""
        self._leaving.clear()

    def _dismissed(self, number: int, done: "asyncio.Future[Any]") -> None:
        if _succeeded(done):  # otherwise it is remembered: to be asked once is enough
            self._leaving.discard(number)


def _succeeded(done: "asyncio.Future[Any]") -> bool:
    return not done.cancelled() and done.exception() is None
