"""Event types: a name, a parent, typed attributes (the parent's are inherited); and a tree of them that checks events.

>>> tree = TypeTree()
>>> tree.add(EventType("Trade", attributes={"price": AttributeType.FLOAT}))
True
>>> tree.add(EventType("Sale", "Trade", {"buyer": AttributeType.STRING}))
True
>>> for problem in tree.check("Sale", {"price": "high", "seller": "me"}):
...     print(problem)
E_EVENT_WRONG_TYPE: attribute 'price' of event type 'Sale' is float, not string
E_EVENT_MISSING: attribute 'buyer' of event type 'Sale' is missing
E_EVENT_UNKNOWN: event type 'Sale' has no attribute 'seller'
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tidings.errors import UsageError
from tidings.model.constraint import check_name
from tidings.model.message import check_property_name
from tidings.model.values import Kind, Untyped, Value, reading

LEVELS_MAX = 64  # of a hierarchy of types, the root counted
TRACE_CONTEXT = ("traceparent", "tracestate")  # https://www.w3.org/TR/trace-context/: every event may carry it


class AttributeType(StrEnum):
    BOOL = "bool"
    INT = "int"
    FLOAT = "float"  # an int will do: 1 and 1.0 are the same value
    STRING = "string"
    BYTES = "bytes"
    TIME = "time"  # whole milliseconds since 1970 UTC

    @property
    def kind(self) -> Kind:
        """Kind of the values, as selectors compare them."""
        return _KINDS[self]


_KINDS = {
    AttributeType.BOOL: Kind.BOOL,
    AttributeType.INT: Kind.NUMBER,
    AttributeType.FLOAT: Kind.NUMBER,
    AttributeType.STRING: Kind.STRING,
    AttributeType.BYTES: Kind.BYTES,
    AttributeType.TIME: Kind.NUMBER,
}
_TYPES: dict[type, AttributeType] = {
    bool: AttributeType.BOOL,
    int: AttributeType.INT,
    float: AttributeType.FLOAT,
    str: AttributeType.STRING,
    bytes: AttributeType.BYTES,
}


class EventTypeError(UsageError):
    """An event type, or an event of one, is wrong."""


@dataclass(frozen=True, slots=True)
class EventType:
    name: str
    parent: str | None = None
    attributes: Mapping[str, AttributeType] = field(default_factory=dict)  # its own, without the inherited ones
    optional: frozenset[str] = frozenset()  # those of them that events may leave out
    version: int = field(default=1, compare=False)  # how often it was added in another form (`type_evolution`)

    def __post_init__(self) -> None:
        check_name(self.name)
        if re.search(r"[.*>\x00-\x1f\x7f]", self.name):
            reason = f"{self.name!r}: the name of an event type holds no '.', '*', '>' and no control characters"
            raise EventTypeError("E_TYPE_NAME", reason)
        own = {check_property_name(name): AttributeType(kind) for name, kind in self.attributes.items()}
        object.__setattr__(self, "attributes", own)
        if unknown := self.optional - own.keys():
            reason = f"event type {self.name!r} has no attribute {min(unknown)!r} that could be optional"
            raise EventTypeError("E_TYPE_ATTRIBUTE", reason)

    def __hash__(self) -> int:
        return hash((self.name, self.parent, frozenset(self.attributes.items()), self.optional))

    def extends(self, other: "EventType") -> bool:
        """Reports whether it differs from the other by more optional attributes only: events of that are events of
        this."""
        more = self.attributes.keys() - other.attributes.keys()
        kept = {name: kind for name, kind in self.attributes.items() if name not in more}
        same = (self.name, self.parent, kept) == (other.name, other.parent, dict(other.attributes))
        return same and self.optional == other.optional | more


class TypeTree:
    """All event types a broker knows. A type's parent is known before it, so there are no cycles."""

    def __init__(self, types: Iterable[EventType] = ()) -> None:
        self._types: dict[str, EventType] = {}
        self._children: dict[str, set[str]] = {}
        self._inherited: dict[str, dict[str, AttributeType]] = {}
        self._optional: dict[str, frozenset[str]] = {}  # of a type and its ancestors
        self._levels: dict[str, int] = {}  # 1: it has no parent
        self.add_all(types)

    def __contains__(self, name: str) -> bool:
        return name in self._types

    def __len__(self) -> int:
        return len(self._types)

    def __iter__(self) -> Iterator[EventType]:
        """Parents before children."""
        return iter(self._types.values())

    def __getitem__(self, name: str) -> EventType:
        if name not in self._types:
            raise EventTypeError("E_TYPE_UNKNOWN", f"unknown event type {name!r}")
        return self._types[name]

    def add(self, event_type: EventType) -> bool:
        """Add a type, or a version of it with more optional attributes. False if this version or a larger one is known
        already."""
        name, parent = event_type.name, event_type.parent
        if name in self._types:
            if (known := self._types[name]) == event_type or known.extends(event_type):
                return False
            if event_type.extends(known):
                self._evolve(known, event_type)
                return True
            raise EventTypeError(
                "E_TYPE_REDEFINED",
                f"event type {name!r} is already defined with a different parent or other attributes; a type in use "
                "can only get more optional attributes",
            )
        if parent == name:
            raise EventTypeError("E_TYPE_CYCLE", f"event type {name!r} is its own ancestor")
        if parent is not None and parent not in self._types:
            raise EventTypeError(
                "E_TYPE_PARENT", f"unknown parent {parent!r} of event type {name!r}; define the parent first"
            )
        level = 1 if parent is None else self._levels[parent] + 1
        if level > LEVELS_MAX:
            reason = f"event type {name!r} has {level - 1} ancestors; a hierarchy has at most {LEVELS_MAX} levels"
            raise EventTypeError("E_TYPE_DEPTH", reason)
        self._inherit(event_type)
        self._types[name] = event_type
        self._children[name] = set()
        self._levels[name] = level
        if parent is not None:
            self._children[parent].add(name)
        return True

    def _inherit(self, event_type: EventType) -> None:
        """Adds its attributes to those of its parent."""
        name, parent = event_type.name, event_type.parent
        inherited = self._inherited[parent] if parent is not None else {}
        for attribute, kind in event_type.attributes.items():
            if inherited.get(attribute, kind) != kind:
                reason = f"attribute {attribute!r} of {name!r} is inherited as {inherited[attribute]}, not {kind}"
                raise EventTypeError("E_TYPE_ATTRIBUTE", reason)
        above = self._optional[parent] if parent is not None else frozenset[str]()
        required = event_type.attributes.keys() - event_type.optional | inherited.keys() - above
        self._inherited[name] = {**inherited, **event_type.attributes}
        self._optional[name] = (above | event_type.optional) - required

    def _evolve(self, known: EventType, form: EventType) -> None:
        """Put another form of a type in place of the known one: for its subtypes too, or not at all."""
        names = [known.name, *self.descendants(known.name)]
        before = {name: (self._inherited[name], self._optional[name]) for name in names}
        self._types[known.name] = replace(form, version=max(form.version, known.version + 1))
        try:
            for name in names:
                self._inherit(self._types[name])
        except EventTypeError:
            self._types[known.name] = known
            for name, (inherited, optional) in before.items():
                self._inherited[name], self._optional[name] = inherited, optional
            raise

    def add_all(self, types: Iterable[EventType]) -> None:
        """Take in types in any order: all of them, or none if one is wrong."""
        added: list[str] = []
        try:
            for one in _parents_first(list(types)):
                added += [one.name] if self.add(one) else []
        except EventTypeError:
            for name in reversed(added):
                self.remove(name)
            raise

    def remove(self, name: str) -> EventType:
        """Forget a type; it must not have subtypes."""
        found = self[name]
        if children := self._children[name]:
            raise EventTypeError(
                "E_TYPE_SUBTYPES", f"event type {name!r} has subtypes, such as {min(children)!r}; remove these first"
            )
        del self._types[name], self._children[name], self._inherited[name], self._optional[name], self._levels[name]
        if found.parent is not None:
            self._children[found.parent].discard(name)
        return found

    def attributes(self, name: str) -> dict[str, AttributeType]:
        """All attributes of a type, the inherited ones first."""
        self[name]
        return dict(self._inherited[name])

    def optional(self, name: str) -> frozenset[str]:
        """The attributes of a type, inherited ones too, that events may leave out."""
        self[name]
        return self._optional[name]

    def ancestors(self, name: str) -> list[str]:
        """Parent, grandparent, … root."""
        found: list[str] = []
        parent = self[name].parent
        while parent is not None:
            found.append(parent)
            parent = self._types[parent].parent
        return found

    def descendants(self, name: str) -> list[str]:
        """All subtypes at any depth, nearer ones first."""
        self[name]
        found = sorted(self._children[name])
        for one in found:  # grows while it is walked
            found.extend(sorted(self._children[one]))
        return found

    def is_a(self, name: str, other: str) -> bool:
        """Reports whether events of one type are events of the other: it is the same, or an ancestor."""
        self[other]
        return name == other or other in self.ancestors(name)

    def check(self, name: str, properties: Mapping[str, Value]) -> list[EventTypeError]:
        """Everything that is wrong with an event's properties; nothing: it may be published."""
        if name not in self._types:
            return [EventTypeError("E_TYPE_UNKNOWN", f"unknown event type {name!r}")]
        declared = self._inherited[name]
        problems = []
        for attribute, kind in declared.items():
            if attribute not in properties:
                if attribute in self._optional[name]:
                    continue
                reason = f"attribute {attribute!r} of event type {name!r} is missing"
                problems.append(EventTypeError("E_EVENT_MISSING", reason))
            elif not _fits(given := _type_of(properties[attribute], kind), kind):
                reason = f"attribute {attribute!r} of event type {name!r} is {kind}, not {given or 'a value'}"
                problems.append(EventTypeError("E_EVENT_WRONG_TYPE", reason))
        for attribute in properties:
            if attribute not in declared and not attribute.startswith("JMSX") and attribute not in TRACE_CONTEXT:
                reason = f"event type {name!r} has no attribute {attribute!r}"
                problems.append(EventTypeError("E_EVENT_UNKNOWN", reason))
        return problems


def _type_of(value: Value, wanted: AttributeType) -> AttributeType | None:
    """Untyped text has the type that is wanted if it reads as such a value."""
    if type(value) is Untyped:
        given = _TYPES.get(type(reading(value)))
        return given if _fits(given, wanted) else AttributeType.STRING
    return _TYPES.get(type(value))


def _fits(given: AttributeType | None, wanted: AttributeType) -> bool:
    return given is wanted or (given is AttributeType.INT and wanted in (AttributeType.FLOAT, AttributeType.TIME))


def _parents_first(types: list[EventType]) -> Iterator[EventType]:
    waiting = {one.name: one for one in types}
    if wrong := [one.name for one in types if waiting[one.name] != one]:
        raise EventTypeError("E_TYPE_REDEFINED", f"event type {wrong[0]!r} is defined twice with different content")
    for one in types:
        chain: list[str] = []
        name: str | None = one.name
        while name in waiting:
            if name in chain:
                raise EventTypeError("E_TYPE_CYCLE", f"event type {name!r} is its own ancestor")
            chain.append(name)
            name = waiting[name].parent
        for name in reversed(chain):
            yield waiting.pop(name)
