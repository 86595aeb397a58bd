"""A message: a destination, header fields, typed properties, and an opaque body.

>>> message = Message(Destination.parse("ticks.xyz"), {"price": 50}, b"...", priority=7)
>>> attributes = message.attributes()
>>> attributes["price"], attributes["JMSPriority"], attributes["@topic"]
(50, 7, 'ticks.xyz')
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings.errors import UsageError
from tidings.model.constraint import check_name
from tidings.model.destination import Destination
from tidings.model.message_id import MessageId
from tidings.model.values import INT_MAX, Value, check

PRIORITY_MAX, PRIORITY_DEFAULT = 9, 4
PROPERTIES_MAX = 2**16 - 1 - 6  # the wire counts attributes in 16 bits, header fields included


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    destination: Destination
    properties: Mapping[str, Value] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    id: MessageId = MessageId.NONE
    persistent: bool = False
    priority: int = PRIORITY_DEFAULT
    timestamp_ms: int | None = None
    expiration_ms: int | None = None
    correlation_id: str | None = None
    reply_to: Destination | None = None
    type: str | None = None
    deliver_at_ms: int | None = None  # not before; None once it is delivered

    def __post_init__(self) -> None:
        properties = {check_property_name(name): _check(name, value) for name, value in self.properties.items()}
        if len(properties) > PROPERTIES_MAX:
            raise UsageError("E_MESSAGE_PROPERTIES", f"a message has at most {PROPERTIES_MAX} properties")
        object.__setattr__(self, "properties", properties)
        _demand(isinstance(self.destination, Destination), "destination", "a Destination")
        _demand(isinstance(self.body, bytes), "body", "bytes")
        _demand(isinstance(self.id, MessageId), "id", "a MessageId")
        _demand(isinstance(self.persistent, bool), "persistent", "True or False")
        _demand(_is_int(self.priority, 0, PRIORITY_MAX), "priority", f"an integer from 0 to {PRIORITY_MAX}")
        for name, least in (("timestamp_ms", 0), ("expiration_ms", 1), ("deliver_at_ms", 1)):
            value = getattr(self, name)
            _demand(value is None or _is_int(value, least, INT_MAX), name, f"milliseconds since 1970, at least {least}")
        for name in ("correlation_id", "type"):
            text = getattr(self, name)
            _demand(text is None or isinstance(text, str), name, "text")
            if text is not None:
                _check(name, text)
        _demand(self.reply_to is None or isinstance(self.reply_to, Destination), "reply_to", "a Destination")

    def headers(self) -> dict[str, Value]:
        """The header fields that are set and travel as attributes, in the order of the wire."""
        reply_to = None if self.reply_to is None else str(self.reply_to)
        values = (self.correlation_id, self.type, reply_to, self.timestamp_ms, self.expiration_ms, self.deliver_at_ms)
        return {name: value for name, value in zip(HEADER_TYPES, values, strict=True) if value is not None}

    def attributes(self) -> dict[str, Value]:
        """The attributes that selectors and routing see (docs/wire.md)."""
        seen: dict[str, Value] = {"JMSTimestamp": self.id.ms}
        seen.update(self.headers())
        seen.update(self.properties)
        seen["JMSPriority"] = self.priority
        seen["JMSDeliveryMode"] = "PERSISTENT" if self.persistent else "NON_PERSISTENT"
        seen["JMSMessageID"] = self.id.jms
        seen[self.destination.attribute] = self.destination.name
        return seen

    def expired(self, now_ms: int) -> bool:
        return self.expiration_ms is not None and now_ms >= self.expiration_ms

    def _key(self) -> tuple[object, ...]:
        types = {name: type(value) for name, value in self.properties.items()}  # 1 == True, but not here
        fixed = (self.destination, self.body, self.id, self.persistent, self.priority)
        return (*fixed, self.headers(), dict(self.properties), types)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Message) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.destination, self.id, self.body))


# Header fields that travel as attributes, in the order of the wire, and their types.
HEADER_TYPES: dict[str, type] = {
    "JMSCorrelationID": str,
    "JMSType": str,
    "JMSReplyTo": str,
    "JMSTimestamp": int,
    "JMSExpiration": int,
    "JMSDeliveryTime": int,
}


def check_property_name(name: str) -> str:
    """A property's name: none that belongs to the header or to the routing."""
    if not isinstance(name, str):
        raise UsageError("E_MESSAGE_NAME", "a property's name must be a str")
    check_name(name)
    if reserved(name):
        raise UsageError("E_MESSAGE_NAME", f"{name!r} is reserved; property names must not begin with '@' or 'JMS'")
    return name


def reserved(name: str) -> bool:
    """Reports whether no property may have this name."""
    return name.startswith("@") or (name.startswith("JMS") and not name.startswith("JMSX"))


def _check(name: str, value: object) -> Value:
    try:
        return check(value)
    except UsageError as error:
        raise UsageError(error.code, f"{name}: {error.reason}", position=error.position) from None


def _is_int(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _demand(right: bool, name: str, what: str) -> None:
    if not right:
        raise UsageError("E_MESSAGE_FIELD", f"{name} must be {what}")
