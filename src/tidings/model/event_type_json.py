"""JSON form of event types, for clients and for the command line.

>>> own = {"buyer": AttributeType.STRING, "note": AttributeType.STRING}
>>> sale = EventType("Sale", "Trade", own, frozenset({"note"}))
>>> types_to_json([sale])
'[{"name": "Sale", "parent": "Trade", "attributes": {"buyer": "string", "note": "string?"}, "version": 1}]'
>>> types_from_json(types_to_json([sale])) == [sale]
True
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tidings.errors import TidingsError
from tidings.model.event_type import AttributeType, EventType, EventTypeError

OPTIONAL = "?"  # after the type of an attribute that events may leave out


def types_to_json(types: Iterable[EventType]) -> str:
    return json.dumps([type_to_object(one) for one in types])


def type_to_object(one: EventType) -> dict[str, Any]:
    attributes = {name: shown(kind, optional=name in one.optional) for name, kind in one.attributes.items()}
    return {"name": one.name, "parent": one.parent, "attributes": attributes, "version": one.version}


def shown(kind: AttributeType, *, optional: bool) -> str:
    """A type of attributes as it is written."""
    return f"{kind.value}{OPTIONAL * optional}"


def types_from_json(text: str) -> list[EventType]:
    try:
        return [
            event_type_of(one["name"], one["parent"], one["attributes"], int(one.get("version", 1)))
            for one in json.loads(text)
        ]
    except TidingsError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise EventTypeError("E_TYPE_JSON", f"invalid JSON for event types: {error}") from None


def event_type_of(name: str, parent: str | None, kinds: Mapping[str, str], version: int = 1) -> EventType:
    """Of attributes as they are written: `float`, or `float?` for an optional one."""
    attributes = {one: kind.removesuffix(OPTIONAL) for one, kind in kinds.items()}
    for one, kind in attributes.items():
        if kind not in list(AttributeType):
            known = ", ".join(AttributeType)
            reason = f"attribute {one!r}: unknown type {kind!r}; use one of {known}, with ? after it if it is optional"
            raise EventTypeError("E_TYPE_ATTRIBUTE", reason)
    optional = frozenset(one for one, kind in kinds.items() if kind.endswith(OPTIONAL))
    return EventType(name, parent, {one: AttributeType(kind) for one, kind in attributes.items()}, optional, version)
