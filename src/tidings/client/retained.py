"""Retained messages: kept by the broker and read by offset, page by page, any number of times.

audit = await client.retain("audit", "ticks.>", age_seconds=86_400)
page = await audit.read(after=0, selector="price > 20")
page.messages, page.next                       # [(offset, message), …] and where to go on
await audit.release(page.next)                 # no longer needed
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidings.client.argument_checks import address, flag, milliseconds, text, whole
from tidings.kernel.codec import decode_message
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control, decode_retained, unsigned

Found: TypeAlias = list[tuple[int, Message]]  # with their offsets
PAGE = 256


@dataclass(frozen=True, slots=True)
class RetainedPage:
    messages: Found
    next: int  # the offset to go on from
    first: int  # the last offset of a deleted message: a reader below it has missed messages
    last: int  # the last offset
    made_ms: int  # when the subscription was made: offsets of another one mean other messages


class RetainedSubscription:
    """Messages that the broker keeps for readers, by name."""

    def __init__(self, client: "RetainedRequests", name: str) -> None:
        self._client, self.name = client, name

    async def make(
        self, destination: str, selector: str, age_ms: int, bytes_max: int, keep_limits: bool
    ) -> tuple[int, int]:
        fields: dict[str, Value] = {"destination": destination, "selector": selector, "age_ms": age_ms}
        return await self._range(FrameType.RETAIN, {**fields, "bytes_max": bytes_max, "keep_limits": keep_limits})

    async def read(
        self,
        after: int = 0,
        *,
        up_to: int = 0,
        selector: str = "",
        messages: int = PAGE,
        bytes_max: int = 0,
        strict: bool = False,
    ) -> RetainedPage:
        """The next messages above an offset, up to another if given; `strict`: an error if some are deleted already."""
        fields: dict[str, Value] = {"name": self.name, "selector": text("selector", selector)}
        fields |= {"after": whole("after", after, 63), "up_to": whole("up_to", up_to, 63)}
        fields |= {"messages": whole("messages", messages), "bytes_max": whole("bytes_max", bytes_max)}
        fields["strict"] = flag("strict", strict)
        answer, found = await self._client.ask_retained(FrameType.READ, fields)
        next, first, last = (unsigned(answer, name, 63) for name in ("next", "first", "last"))
        return RetainedPage(found, next, first, last, unsigned(answer, "made_ms", 63))

    async def read_all(
        self, after: int = 0, *, up_to: int = 0, selector: str = ""
    ) -> AsyncIterator[tuple[int, Message]]:
        """All messages up to an offset; without one, up to the last at the time of the call."""
        up_to = up_to or (await self.range())[1]
        while after < up_to:
            page = await self.read(after, up_to=up_to, selector=selector)
            for one in page.messages:
                yield one
            if page.next <= after:
                break
            after = page.next

    async def range(self) -> tuple[int, int]:
        """The last offset of a deleted message (0: none), and the last offset."""
        page = await self.read(messages=0)
        return page.first, page.last

    async def release(self, up_to: int) -> None:
        """Allow the broker to delete messages up to this offset."""
        await self._range(FrameType.RELEASE, {"up_to": whole("up_to", up_to, 63)})

    async def forget(self) -> None:
        """Stop retaining and delete the retained messages."""
        await self._range(FrameType.RELEASE, {"forget": True}, done_code="E_RETAINED_UNKNOWN")

    async def _range(self, type: FrameType, fields: dict[str, Value], done_code: str = "") -> tuple[int, int]:
        answer, _ = await self._client.ask_retained(type, {"name": self.name, **fields}, done_code)
        return unsigned(answer, "first", 63), unsigned(answer, "last", 63)


class RetainedRequests(ABC):
    """The client's methods for retained messages."""

    def __init__(self) -> None:
        self._retrieved: dict[int, Found] = {}  # by the receipt of the read

    @abstractmethod
    async def exchange(
        self, make: Callable[[int], bytes], *, repeatable: bool = True, done_code: str = ""
    ) -> dict[str, Value]:
        """Send a request and return the fields of the answer."""

    async def retain(
        self,
        name: str,
        destination: str | Destination | DestinationPattern,
        *,
        selector: str = "",
        age_seconds: float = 0,
        bytes_max: int = 0,
        keep_limits: bool = False,
    ) -> RetainedSubscription:
        """Have the broker keep what is published there from now on, to be read again from any offset.

        It exists, under its name and for all clients, until it is forgotten. Without limits messages stay as long as
        the broker's own limit on bytes allows; the oldest are deleted first. An existing one gets these limits,
        or keeps its own with `keep_limits`.
        """
        retained = self.retained(name)
        where, age_ms = address("destination", destination), milliseconds("age_seconds", age_seconds)
        size, keep = whole("bytes_max", bytes_max, 63), flag("keep_limits", keep_limits)
        await retained.make(where, text("selector", selector), age_ms, size, keep)
        return retained

    def retained(self, name: str) -> RetainedSubscription:
        """An existing one, by name."""
        return RetainedSubscription(self, text("name", name))

    async def ask_retained(
        self, type: FrameType, fields: Mapping[str, Value], done_code: str = ""
    ) -> tuple[dict[str, Value], Found]:
        """A request about retained messages: the answer's fields, and the messages that came with it."""
        number = 0

        def make(receipt: int) -> bytes:
            nonlocal number
            number = receipt
            self._retrieved.pop(receipt, None)  # what an answer cut short has left
            return control(type, {**fields, "receipt": receipt})

        try:
            answer = await self.exchange(make, done_code=done_code)
            return answer, self._retrieved.get(number, [])
        finally:
            self._retrieved.pop(number, None)

    def _retained_came(self, payload: bytes) -> None:
        receipt, offset, message = decode_retained(payload)
        self._retrieved.setdefault(receipt, []).append((offset, decode_message(message)))
