"""Questions of administrators: the path of a message, the state of a broker; and the end of a connection."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import Any

from tidings.client.argument_checks import a_name, flag, text, whole
from tidings.errors import UsageError
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control, field
from tidings.tracking.query.key_codec import FoundMessages
from tidings.tracking.query.key_codec import from_json as found_from_json
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

        `why`: the name of a subscriber; the path's `reasons` then say why it did or did not get the message. Its
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

    async def find_messages(
        self, key: str, value: Value, *, since: datetime | None = None, until: datetime | None = None, count: int = 100
    ) -> FoundMessages:
        """The messages in which an attribute has this value, oldest first: the newest `count` (at most 1000).

        Brokers record the attributes that `[tracking] keys` names. Text also finds the number or boolean that it reads
        as; of a `traceparent` the trace id is enough. `since` and `until` bound the messages' times.
        """
        fields: dict[str, Value] = {"key": a_name("key", key), "value": value, "count": whole("count", count)}
        fields |= {"first_ms": _ms("since", since), "last_ms": _ms("until", until)}
        answer = await self.exchange(lambda receipt: control(FrameType.TRACE, {**fields, "receipt": receipt}))
        return found_from_json(field(answer, "found", str))

    async def inspect(
        self, part: str = "overview", *, offset: int = 0, count: int = 0, containing: str = ""
    ) -> dict[str, Any]:
        """The state of the broker; of a list (`part`) the items from `offset` that contain a text. See docs/wire.md."""
        fields: dict[str, Value] = {"part": text("part", part), "containing": text("containing", containing)}
        fields |= {"offset": whole("offset", offset), "count": whole("count", count)}
        answer = await self.exchange(lambda receipt: control(FrameType.INSPECT, {**fields, "receipt": receipt}))
        found: dict[str, Any] = json.loads(field(answer, "status", str))
        return found


def _ms(name: str, moment: datetime | None) -> int:
    if moment is None:
        return 0
    if not isinstance(moment, datetime) or moment.tzinfo is None or moment.timestamp() < 0:
        raise UsageError("E_ARGUMENT", f"{name} must be a datetime since 1970 with a time zone")
    return int(moment.timestamp() * 1000)
