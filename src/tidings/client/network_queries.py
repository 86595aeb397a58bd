"""Questions of administrators: the path of a message, the state of a broker; and the end of a connection."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tidings.client.argument_checks import flag, text, whole
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control, field
from tidings.tracking.query.path import Path, WhyNot
from tidings.tracking.query.path_json import from_json


class Observing(ABC):
    """The client's methods for these queries."""

    @abstractmethod
    async def exchange(
        self, make: Callable[[int], bytes], *, repeatable: bool = True, done_code: str = ""
    ) -> dict[str, Value]:
        """Send a request and return the fields of the answer."""

    async def trace(
        self,
        message: MessageId | str,
        *,
        everywhere: bool = False,
        why: str | WhyNot = "",
    ) -> Path:
        """The path of a message: the brokers it passed and its recipients, as far as recorded.

        `message` is what a receipt or a delivery has as `message_id`. `everywhere` also asks brokers
        beside the route, which tells false positives from brokers that have the message.

        `why`: the name of a subscriber; the path's `reasons` then say why it has the message, or has it not. Its
        selector is compared with what the brokers still have of the message, or with what a `WhyNot` says of it.
        """
        wanted = str(message) if isinstance(message, MessageId) else text("message", message)
        fields: dict[str, Value] = {"message": wanted, "everywhere": flag("everywhere", everywhere)}
        if why:
            asked = why if isinstance(why, WhyNot) else WhyNot(why)
            given = json.dumps(dict(asked.attributes)) if asked.destination or asked.attributes else ""
            where = text("destination", asked.destination)
            fields |= {"why": text("subscriber", asked.subscriber), "destination": where, "attributes": given}
        answer = await self.exchange(lambda receipt: control(FrameType.TRACE, {**fields, "receipt": receipt}))
        return from_json(field(answer, "path", str))

    async def end_connection(self, number: int) -> None:
        """End a client's connection, numbered as by `inspect("connections")`. Needs the right to manage `>`."""
        asked = whole("number", number)
        await self.exchange(lambda receipt: control(FrameType.DISCONNECT, {"connection": asked, "receipt": receipt}))

    async def inspect(
        self, part: str = "overview", *, offset: int = 0, count: int = 0, containing: str = ""
    ) -> dict[str, Any]:
        """The state of the broker; of a list (`part`) the items from `offset` that contain a text. See docs/wire.md."""
        fields: dict[str, Value] = {"part": text("part", part), "containing": text("containing", containing)}
        fields |= {"offset": whole("offset", offset), "count": whole("count", count)}
        answer = await self.exchange(lambda receipt: control(FrameType.INSPECT, {**fields, "receipt": receipt}))
        found: dict[str, Any] = json.loads(field(answer, "status", str))
        return found
