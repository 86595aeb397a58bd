"""Event types at a client: add and remove them, advertise them, publish their events, subscribe to them.

    await client.add_type("Trade", {"price": "float"})
    await client.advertise_type("Trade")
    trades = await client.subscribe(type="Trade", selector="price > 20")
    await client.publish_event("Trade", {"price": 50.0})

An event is checked here before it is sent, and again by the broker. Advertisements last as long as the client: after a
lost connection they are sent again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from tidings.client.argument_checks import a_name, text
from tidings.client.bodies import Body
from tidings.client.connection.answers import Receipt
from tidings.errors import UsageError
from tidings.model.event_type import EventType, EventTypeError, TypeTree
from tidings.model.event_type_json import event_type_of, types_from_json, types_to_json
from tidings.model.event_type_topics import topic_of
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control, field

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventTypes(ABC):
    """The client's methods for event types."""

    def __init__(self) -> None:
        self._advertised: dict[str, tuple[str, TypeTree]] = {}  # by type: the topic of its events, and what they have

    @abstractmethod
    async def exchange(
        self, make: Callable[[int], bytes], *, repeatable: bool = True, done_code: str = ""
    ) -> dict[str, Value]:
        """Send a request and return the fields of the answer."""

    @abstractmethod
    async def publish(self, destination: str, properties: Mapping[str, Value] | None, body: Body) -> Receipt:
        """Send a message."""

    async def add_type(
        self, event_type: str | EventType, attributes: Mapping[str, str] | None = None, *, parent: str | None = None
    ) -> None:
        """Make an event type known: its own attributes (bool, int, float, string, bytes, time) beside its parent's.

        `float?` is an optional attribute, which events may leave out. Adding a type that is known in the same form, or
        with more optional attributes, does nothing; with more optional attributes than before it gets these, also
        while it is used.
        """
        if not isinstance(event_type, EventType):
            if attributes is not None and not isinstance(attributes, Mapping):
                raise UsageError("E_ARGUMENT", f"attributes must be a mapping, not {type(attributes).__name__}")
            if parent is not None:
                text("parent", parent)
            event_type = event_type_of(text("event_type", event_type), parent, _kinds(attributes or {}))
        await self._about_types("add", types=types_to_json([event_type]))

    async def remove_type(self, name: str) -> None:
        """Forget a type. It must have no subtypes, no subscribers and nobody who advertises it."""
        await self._about_types("remove", a_name("name", name), done_code="E_TYPE_UNKNOWN")

    async def types(self) -> list[EventType]:
        """The types known to this broker, parents first; in a network, possibly not all."""
        return await self._about_types("show")

    async def get_type(self, name: str) -> list[EventType]:
        """A type after its ancestors, the root first; in a network, other brokers are asked."""
        return await self._about_types("show", a_name("name", name))

    async def advertise_type(self, name: str) -> None:
        """Say that this client publishes events of a type, which it must before it does."""
        chain = await self._about_types("advertise", a_name("name", name))
        self._advertised[name] = (topic_of(tuple(one.name for one in chain)), TypeTree(chain))

    async def unadvertise_type(self, name: str) -> None:
        """Withdraw the advertisement of an event type."""
        if self._advertised.pop(text("name", name), None) is None:
            raise UsageError("E_TYPE_UNADVERTISED", f"this client does not advertise event type {name!r}")
        await self._about_types("unadvertise", name, done_code="E_TYPE_UNADVERTISED")

    async def publish_event(
        self, name: str, properties: Mapping[str, Value | datetime] | None = None, body: Body = b"", **options: Any
    ) -> Receipt:
        """Send an event of an advertised type; options as in `publish`. An error says what does not fit the type.

        An attribute of type time is a datetime with a time zone, or the milliseconds since 1970.
        """
        if text("name", name) not in self._advertised:
            raise UsageError("E_TYPE_UNADVERTISED", f"advertise event type {name!r} before you publish its events")
        topic, tree = self._advertised[name]
        values = {attribute: _value(attribute, value) for attribute, value in (properties or {}).items()}
        if problems := tree.check(name, values):
            raise EventTypeError(problems[0].code, "; ".join(one.reason for one in problems))
        return await self.publish(topic, values, body, **{"type": name, **options})

    # --- for the client -------------------------------------------------------------------------------------------

    def types_advertised_again(self) -> Iterator[bytes]:
        """Frames for a new connection, without a receipt: a refusal is reported as an asynchronous error."""
        return (_frame({"operation": "advertise", "name": name}, 0) for name in self._advertised)

    async def _about_types(
        self, operation: str, name: str = "", types: str = "", done_code: str = ""
    ) -> list[EventType]:
        fields: dict[str, Value] = {"operation": operation, "name": name, "types": types}
        answer = await self.exchange(partial(_frame, fields), done_code=done_code)
        return types_from_json(field(answer, "types", str) or "[]")


def _value(attribute: str, value: Value | datetime) -> Value:
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise UsageError("E_ARGUMENT", f"{attribute} must be a datetime with a time zone")
    return (value - EPOCH) // timedelta(milliseconds=1)


def _kinds(attributes: Mapping[str, str]) -> dict[str, str]:
    return {text("attribute", name): text(f"type of {name}", kind) for name, kind in attributes.items()}


def _frame(fields: Mapping[str, Value], receipt: int) -> bytes:
    return control(FrameType.TYPE, {**fields, "receipt": receipt})
