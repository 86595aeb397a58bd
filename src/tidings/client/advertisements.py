"""Advertisements: announcements of what will be published, required by routing schemes such as covering.

    offer = await client.advertise("ticks.>", selector="price > 0")
    offer.used                     # whether the broker's routing scheme uses it
    await offer.withdraw()

Subscribers at other brokers receive what is published after their interest has come back along the advertisement,
usually some round trips later. After a lost connection advertisements are sent again.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from tidings.client.argument_checks import address, text
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control, field


class Advertisement:
    """An announcement that messages to a topic pattern will be published."""

    def __init__(self, client: "AdvertisementRequests", number: int, destination: str, selector: str) -> None:
        self._client, self.number = client, number
        self.destination, self.selector = destination, selector
        self.used = False  # the broker's routing scheme uses it

    def request(self, receipt: int) -> bytes:
        fields: dict[str, Value] = {"number": self.number, "destination": self.destination, "selector": self.selector}
        return control(FrameType.ADVERTISE, {**fields, "receipt": receipt})

    async def withdraw(self) -> None:
        """Withdraw the advertisement."""
        await self._client.withdraw(self.number)


class AdvertisementRequests(ABC):
    """The client's methods for advertisements."""

    def __init__(self) -> None:
        self._advertisements: dict[int, Advertisement] = {}
        self._advertisement_numbers = itertools.count(1)

    @abstractmethod
    async def exchange(
        self, make: Callable[[int], bytes], *, repeatable: bool = True, done_code: str = ""
    ) -> dict[str, Value]:
        """Send a request and return the fields of the answer."""

    async def advertise(
        self, destination: str | Destination | DestinationPattern, selector: str | None = None
    ) -> Advertisement:
        """Say that messages to this topic pattern will be published, as far as they match the selector."""
        pattern, wanted = address("destination", destination), text("selector", selector or "")
        one = Advertisement(self, next(self._advertisement_numbers), pattern, wanted)
        one.used = field(await self.exchange(one.request), "used", bool)
        self._advertisements[one.number] = one
        return one

    async def withdraw(self, number: int) -> None:
        if self._advertisements.pop(number, None) is not None:
            fields: dict[str, Value] = {"number": number, "withdraw": True}
            await self.exchange(
                lambda receipt: control(FrameType.ADVERTISE, {**fields, "receipt": receipt}), repeatable=False
            )

    def advertised_again(self) -> Iterator[bytes]:
        """Frames for a new connection, without a receipt: a refusal is reported as an asynchronous error."""
        return (one.request(0) for one in self._advertisements.values())
