"""What a client asks about the network instead of with it: where a message went, how a broker is."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tidings.client.argument_checks import flag, text, whole
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control, field
from tidings.tracking.query.path import Path
from tidings.tracking.query.path_json import from_json


class Observing(ABC):
    """A client's part in this."""

    @abstractmethod
    async def request(
        self, make: Callable[[int], bytes], *, repeatable: bool = True, done_code: str = ""
    ) -> dict[str, Value]:
        """Ask the broker; the answer's fields."""

    async def trace(self, message: MessageId | str, *, everywhere: bool = False) -> Path:
        """Where a message went: which brokers it passed and who got it, as far as that is recorded.

        `message` is what a receipt or a delivery has as `message_id`. `everywhere` asks brokers beside the route too,
        which tells false positives from brokers that really have it.
        """
        wanted = str(message) if isinstance(message, MessageId) else text("message", message)
        fields: dict[str, Value] = {"message": wanted, "everywhere": flag("everywhere", everywhere)}
        answer = await self.request(lambda receipt: control(FrameType.TRACE, {**fields, "receipt": receipt}))
        return from_json(field(answer, "path", str))

    async def inspect(
        self, part: str = "overview", *, offset: int = 0, count: int = 0, containing: str = ""
    ) -> dict[str, Any]:
        """How the broker is; of a list (`part`) the items from `offset` that mention a text. See docs/wire.md."""
        fields: dict[str, Value] = {"part": text("part", part), "containing": text("containing", containing)}
        fields |= {"offset": whole("offset", offset), "count": whole("count", count)}
        answer = await self.request(lambda receipt: control(FrameType.INSPECT, {**fields, "receipt": receipt}))
        found: dict[str, Any] = json.loads(field(answer, "status", str))
        return found
