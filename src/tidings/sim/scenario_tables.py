"""Tables of a scenario's file, field by field: read once, checked, and put into records.

Every refusal is an E_SCENARIO that names the table, counted from 1 where there are several, and the field.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidings.errors import TidingsError, UsageError
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.selector import Selector
from tidings.model.values import Value

WHOLE_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class ScenarioSubscribe:
    at: float
    broker: object  # a name or a number, as in the topology
    selector: str
    durable: bool


@dataclass(frozen=True, slots=True)
class Publish:
    at: float
    broker: object  # a name or a number, as in the topology
    attributes: dict[str, Value]
    persistent: bool
    count: int
    every_ms: float


class Fields:
    """One table of the file."""

    def __init__(self, data: object, where: str, names: set[str] | None = None) -> None:
        if not isinstance(data, dict):
            raise refuse(f"{where} is a table, not {_shown(data)}")
        self.data: dict[str, Any] = data
        self.where = where
        for name in data:
            if names is not None and name not in names:
                raise refuse(f"{where} has no field {name!r}; it may have {', '.join(sorted(names))}")

    def tables(self, name: str, names: set[str] | None = None) -> list["Fields"]:
        found = self.data.get(name, [])
        if not isinstance(found, list):
            raise refuse(f"{name} is a list of tables, [[{name}]], not {_shown(found)}")
        return [Fields(one, f"{name} {number}", names) for number, one in enumerate(found, 1)]

    def number(self, name: str, default: float | None = None) -> float:
        """From 0, and finite."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise refuse(f"{self.where}: {name} is a number from 0, not {_shown(value)}")
        return float(value)

    def whole(self, name: str, default: int) -> int:
        value = self._value(name, default)
        if type(value) is not int or not 0 <= value <= WHOLE_MAX:
            raise refuse(f"{self.where}: {name} is a whole number from 0 to {WHOLE_MAX}, not {_shown(value)}")
        return value

    def text(self, name: str, default: str) -> str:
        value = self._value(name, default)
        if not isinstance(value, str):
            raise refuse(f"{self.where}: {name} is a text, not {_shown(value)}")
        return value

    def yes(self, name: str) -> bool:
        value = self._value(name, False)
        if not isinstance(value, bool):
            raise refuse(f"{self.where}: {name} is true or false, not {_shown(value)}")
        return value

    def _value(self, name: str, default: object) -> Any:
        value = self.data.get(name, default)
        if value is None:
            raise refuse(f"{self.where}: {name} is missing")
        return value


def read_subscribe(fields: Fields) -> ScenarioSubscribe:
    selector = fields.text("selector", "")
    if selector:
        with _naming(f"{fields.where}: selector"):
            Selector(selector)
    return ScenarioSubscribe(fields.number("at"), fields.data.get("broker"), selector, fields.yes("durable"))


def read_publish(fields: Fields) -> Publish:
    where = f"{fields.where}: attributes"
    attributes = Fields(fields.data.get("attributes", {}), where).data
    with _naming(where):
        Message(Destination("check"), attributes)
    return Publish(
        fields.number("at"),
        fields.data.get("broker"),
        attributes,
        fields.yes("persistent"),
        fields.whole("count", 1),
        fields.number("every_ms", 1.0),
    )


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Says of an error where in the file it is."""
    try:
        yield
    except TidingsError as error:
        raise refuse(f"{where}: {error}") from None


def refuse(reason: str) -> UsageError:
    return UsageError("E_SCENARIO", reason)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
