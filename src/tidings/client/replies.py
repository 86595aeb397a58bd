"""Requests and their replies: each client has one temporary queue for the replies to all its requests.

    answer = await client.request("prices.quote", {"stock": "XYZ"}, timeout=2)
    print(answer.content)

The other side answers with `await client.reply(delivery, body={"price": 50})`. The queue ends with the connection: on
a new one the client makes another of the same name, and replies that came in between are lost.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from tidings.client.argument_checks import seconds
from tidings.client.bodies import Body
from tidings.client.connection.answers import Receipt
from tidings.client.delivery import Delivery
from tidings.client.subscription import Subscription
from tidings.errors import ConnectionLostError, RemoteError, TidingsError, UsageError
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control


class Replies(ABC):
    """The client's methods for requests and replies."""

    def __init__(self) -> None:
        self._reply_queue = ""  # empty: none was made yet
        self._reply_opening = asyncio.Lock()
        self._reply_reader: asyncio.Task[None] | None = None
        self._awaited: dict[str, asyncio.Future[Delivery]] = {}  # by correlation id

    @abstractmethod
    async def publish(self, *arguments: Any, **options: Any) -> Receipt:
        """Send a message."""

    @abstractmethod
    async def subscribe(self, *arguments: Any, **options: Any) -> Subscription:
        """Subscribe to a destination."""

    @abstractmethod
    async def exchange(self, make: Any, *, repeatable: bool = True, done_code: str = "") -> dict[str, Value]:
        """Send a frame and return the fields of the answer."""

    async def request(
        self,
        destination: str,
        properties: Mapping[str, Value] | None = None,
        body: Body = b"",
        *,
        timeout: float = 30.0,
        **options: Any,
    ) -> Delivery:
        """Send a message and return the first reply to it; E_NO_REPLY if none comes within `timeout` seconds.

        Options as in `publish`. The message expires with the timeout; `reply_to` names a temporary queue, and
        `correlation_id` is what replies repeat.
        """
        allowed = seconds("timeout", timeout)
        await self._open_replies()
        correlation_id = uuid4().hex
        reply: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        self._awaited[correlation_id] = reply
        try:
            async with asyncio.timeout(allowed):
                own = {"expires_in": allowed, "correlation_id": correlation_id, "reply_to": self._reply_queue}
                await self.publish(destination, properties, body, **{**options, **own, "wait": True})
                return await reply
        except TimeoutError:
            raise RemoteError("E_NO_REPLY", f"no reply from {destination} within {allowed:g} s") from None
        finally:
            del self._awaited[correlation_id]
            reply.cancel()

    async def reply(
        self, delivery: Delivery, properties: Mapping[str, Value] | None = None, body: Body = b"", **options: Any
    ) -> Receipt:
        """Answer a request that was delivered; the options are those of `publish`."""
        if delivery.reply_to is None:
            raise UsageError("E_NO_REPLY_TO", "this message wants no reply: it has no reply_to")
        return await self.publish(
            str(delivery.reply_to), properties, body, correlation_id=delivery.correlation_id, **options
        )

    def replies_again(self) -> list[bytes]:
        """Frames that make the temporary queue on a new connection, before it is subscribed to again."""
        return [_make(0, self._reply_queue)] if self._reply_queue else []

    async def _open_replies(self) -> None:
        async with self._reply_opening:
            if self._reply_reader is not None and not self._reply_reader.done():
                return
            name = self._reply_queue or f"queue:tmp.{uuid4().hex}"
            await self.exchange(lambda receipt: _make(receipt, name))
            self._reply_queue = name
            subscription = await self.subscribe(name)
            self._reply_reader = asyncio.create_task(self._read_replies(subscription))

    async def _read_replies(self, subscription: Subscription) -> None:
        problem: TidingsError = ConnectionLostError("E_CLOSED", "the client was closed")
        try:
            async for delivery in subscription:
                waiting = self._awaited.get(delivery.correlation_id or "")
                if waiting is not None and not waiting.done():
                    waiting.set_result(delivery)
        except TidingsError as error:
            problem = error
        for waiting in self._awaited.values():
            if not waiting.done():
                waiting.set_exception(problem)
                with suppress(TidingsError, asyncio.CancelledError):
                    waiting.exception()  # seen: who asked may have given up


def _make(receipt: int, queue: str) -> bytes:
    return control(FrameType.TEMPORARY, {"receipt": receipt, "queue": queue})
