"""A queue seen from outside: what waits in it, without consuming any of it.

    orders = client.queue("queue:orders")
    async for found in orders.browse(selector="total > 100"):
        print(found.tag, found.message)
    await orders.move("queue:orders.old", tags=[found.tag])
    await orders.purge()
    await orders.delete()

Tags name messages as long as they wait in their queue.

The counts of `purge` and `move` are too low if the connection was lost meanwhile: messages handled before the loss are
not counted.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from tidings.client.argument_checks import address, flag, tag_list, text, whole
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control, encode_tags


@dataclass(frozen=True, slots=True)
class Browsed:
    """A waiting message; an `attempt` above 1 means that it was delivered before."""

    message: Message
    attempt: int
    tag: int


class QueuePage:
    """Collects the messages of one page, like a subscription would."""

    def __init__(self) -> None:
        self.found: list[Browsed] = []

    def deliver(self, message: Message, attempt: int, tag: int) -> None:
        self.found.append(Browsed(message, attempt, tag))


class QueueClient(Protocol):
    """The methods of `Client` that a queue needs."""

    numbers: "count[int]"
    pages: dict[int, QueuePage]

    async def exchange(self, make: Callable[[int], bytes]) -> dict[str, Value]: ...


class Queue:
    """A queue to browse and manage, by name."""

    def __init__(self, client: QueueClient, name: str | Destination) -> None:
        self.name: str = address("name", name)
        self._client = client

    async def browse(self, *, selector: str = "", page: int = 0) -> AsyncIterator[Browsed]:
        """The waiting messages in delivery order, fetched page by page during the iteration."""
        fields: dict[str, Value] = {"queue": self.name, "selector": text("selector", selector)}
        fields["count"] = whole("page", page)
        more = True
        while more:
            shown, answer = await self._page(fields)
            for one in shown.found:
                yield one
            fields |= {name: answer.get(name, 0) for name in ("seq", "priority")}
            more = bool(answer.get("more"))

    async def _page(self, fields: dict[str, Value]) -> tuple[QueuePage, dict[str, Value]]:
        client = self._client
        number = next(client.numbers)

        def make(receipt: int) -> bytes:
            client.pages[number] = QueuePage()  # a new one, also when it is asked for again on another connection
            return control(FrameType.BROWSE, {**fields, "subscription": number, "receipt": receipt})

        try:
            answer = await client.exchange(make)
            return client.pages[number], answer
        finally:
            client.pages.pop(number, None)

    async def create(self) -> bool:
        """Create the queue, empty; False if it exists."""
        answer = await self._client.exchange(
            lambda receipt: control(FrameType.CREATE, {"queue": self.name, "receipt": receipt})
        )
        return bool(answer.get("created"))

    async def delete(self, *, force: bool = False) -> int:
        """Delete the queue, which must have no consumers and no messages; with `force` these too. Returns the count of
        deleted messages."""
        fields: dict[str, Value] = {"queue": self.name, "force": flag("force", force)}
        answer = await self._client.exchange(lambda receipt: control(FrameType.DELETE, {**fields, "receipt": receipt}))
        return int(answer.get("count", 0))

    async def purge(self, *, tags: Iterable[int] | None = None) -> int:
        """Delete all waiting messages, or only those with these tags; returns the count."""
        return await self._repeat(FrameType.PURGE, {"queue": self.name}, tags)

    async def move(self, target: str | Destination, *, tags: Iterable[int] | None = None) -> int:
        """Move all waiting messages, or only those with these tags, to the end of another queue; returns the count."""
        return await self._repeat(FrameType.MOVE, {"queue": self.name, "target": address("target", target)}, tags)

    async def _repeat(self, type: FrameType, fields: dict[str, Value], tags: Iterable[int] | None) -> int:
        """Repeat the request until the broker reports no more pages."""
        chosen = () if tags is None else tag_list(tags)
        if tags is not None and not chosen:
            return 0  # none is not all
        said, count, more = {**fields, "tags": encode_tags(chosen)}, 0, True
        while more:
            answer = await self._client.exchange(lambda receipt: control(type, {**said, "receipt": receipt}))
            count += int(answer.get("count", 0))
            more = bool(answer.get("more"))
        return count
