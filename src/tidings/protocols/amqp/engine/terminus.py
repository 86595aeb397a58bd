"""Sources and targets of links (specification, parts 3.5 and 4.5), read from an attach and written into the answer."""

from dataclasses import dataclass
from typing import TypeAlias

from tidings.errors import RemoteProtocolError
from tidings.protocols.amqp.wire.types import AmqpValue, Array, Described, symbol, uint, ulong

SOURCE, TARGET, COORDINATOR = 0x28, 0x29, 0x30
_NUMBERS = {"amqp:source:list": SOURCE, "amqp:target:list": TARGET, "amqp:coordinator:list": COORDINATOR}
NEVER, WITH_LINK = symbol("never"), symbol("link-detach")
COPY = "copy"


@dataclass(slots=True)
class Terminus:
    """A source; a target has no fields behind `node_properties` but capabilities."""

    address: str | None = None
    durable: int = 0
    expiry_policy: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    node_properties: AmqpValue = None
    distribution_mode: str | None = None
    filter: AmqpValue = None
    default_outcome: AmqpValue = None
    outcomes: AmqpValue = None
    capabilities: AmqpValue = None

    @property
    def capability_names(self) -> tuple[str, ...]:
        given = self.capabilities
        many = given.elements if isinstance(given, Array) else given if isinstance(given, list) else [given]
        return tuple(str(one) for one in many if one is not None)

    def as_source(self) -> Described:
        behind = [_symbol(self.distribution_mode), self.filter, self.default_outcome, self.outcomes]
        return Described(ulong(SOURCE), _trimmed([*self._common(), *behind, self.capabilities]))

    def as_target(self) -> Described:
        return Described(ulong(TARGET), _trimmed([*self._common(), self.capabilities]))

    def _common(self) -> list[AmqpValue]:
        lifetime = [uint(self.durable), symbol(self.expiry_policy), uint(self.timeout)]
        return [self.address, *lifetime, self.dynamic, self.node_properties]


@dataclass(slots=True)
class Coordinator:
    """The target of a link that controls transactions."""

    capabilities: AmqpValue = None

    def as_target(self) -> Described:
        return Described(ulong(COORDINATOR), [self.capabilities])


Target: TypeAlias = Terminus | Coordinator

_COMMON: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("address", (str, symbol)),
    ("durable", (uint,)),
    ("expiry_policy", (symbol, str)),
    ("timeout", (uint,)),
    ("dynamic", (bool,)),
    ("node_properties", (dict,)),
)
_SOURCE = (
    *_COMMON,
    ("distribution_mode", (symbol, str)),
    ("filter", (dict,)),
    ("default_outcome", (Described,)),
    ("outcomes", ()),
    ("capabilities", ()),
)
_TARGET = (*_COMMON, ("capabilities", ()))


def read_source(value: AmqpValue) -> Terminus | None:
    """None: there is none, which is a link that is refused, or asked about."""
    if value is None:
        return None
    if _number(value) != SOURCE:
        raise RemoteProtocolError("E_AMQP_DECODE", "attach: source is not a source")
    return _terminus(value.value, _SOURCE, "source")


def read_target(value: AmqpValue) -> Target | None:
    if value is None:
        return None
    match _number(value):
        case 0x29:
            return _terminus(value.value, _TARGET, "target")
        case 0x30:
            return Coordinator(value.value[0] if value.value else None)
        case _:
            raise RemoteProtocolError("E_AMQP_DECODE", "attach: target is neither a target nor a coordinator")


def _number(value: AmqpValue) -> int:
    if not isinstance(value, Described) or not isinstance(value.value, list):
        return 0
    descriptor = value.descriptor
    if isinstance(descriptor, symbol):
        return _NUMBERS.get(descriptor, 0)
    return int(descriptor) if isinstance(descriptor, ulong) else 0


def _terminus(values: list[AmqpValue], fields: tuple[tuple[str, tuple[type, ...]], ...], which: str) -> Terminus:
    if len(values) > len(fields):
        raise RemoteProtocolError("E_AMQP_DECODE", f"attach: the {which} has more than {len(fields)} fields")
    found: dict[str, AmqpValue] = {}
    for (name, types), value in zip(fields, values, strict=False):
        if value is None:
            continue
        if types and type(value) not in types:
            raise RemoteProtocolError("E_AMQP_DECODE", f"attach: {which}.{name} is of a wrong type")
        found[name] = value
    return Terminus(**found)


def _symbol(text: str | None) -> symbol | None:
    return None if text is None else symbol(text)


def _trimmed(values: list[AmqpValue]) -> list[AmqpValue]:
    while values and values[-1] is None:
        values.pop()
    return values
