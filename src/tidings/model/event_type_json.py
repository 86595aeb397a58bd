"""JSON form of event types, for clients and for the command line.

>>> sale = EventType("Sale", "Trade", {"buyer": AttributeType.STRING})
>>> types_to_json([sale])
'[{"name": "Sale", "parent": "Trade", "attributes": {"buyer": "string"}}]'
>>> types_from_json(types_to_json([sale])) == [sale]
True
"""

import json
from collections.abc import Iterable
from typing import Any

from tidings.errors import TidingsError
from tidings.model.event_type import AttributeType, EventType, EventTypeError


def types_to_json(types: Iterable[EventType]) -> str:
    return json.dumps([type_to_object(one) for one in types])


def type_to_object(one: EventType) -> dict[str, Any]:
    attributes = {name: kind.value for name, kind in one.attributes.items()}
    return {"name": one.name, "parent": one.parent, "attributes": attributes}


def types_from_json(text: str) -> list[EventType]:
    try:
        return [EventType(one["name"], one["parent"], attributes_of(one["attributes"])) for one in json.loads(text)]
    except TidingsError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise EventTypeError("E_TYPE_JSON", f"invalid JSON for event types: {error}") from None


def attributes_of(kinds: dict[str, str]) -> dict[str, AttributeType]:
    """Names of types as types; an error names those there are."""
    for name, kind in kinds.items():
        if kind not in list(AttributeType):
            known = ", ".join(AttributeType)
            raise EventTypeError("E_TYPE_ATTRIBUTE", f"attribute {name!r}: unknown type {kind!r}; use one of {known}")
    return {name: AttributeType(kind) for name, kind in kinds.items()}
