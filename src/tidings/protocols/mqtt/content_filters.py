"""Content filters in a topic filter: `ticks/xyz?price>20&region=EU`, for clients that can only name a topic.

>>> selector_of("price>20&region=EU&active=true&name!=it's")
"price > 20 AND region = 'EU' AND active = TRUE AND name <> 'it''s'"
"""

import re

from tidings.errors import SelectorError
from tidings.model.selector import Selector
from tidings.protocols.mqtt.reasons import MqttError, Reason

_CONDITION = re.compile(r"\s*([A-Za-z_$][\w$.\-]*)\s*(>=|<=|<>|!=|=|<|>)\s*(.*?)\s*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def selector_of(conditions: str) -> str:
    """The selector of conditions joined by `&`: name, operator, and a number, true, false or text."""
    return " AND ".join(_condition(one) for one in conditions.split("&"))


def _condition(text: str) -> str:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise MqttError(Reason.TOPIC_FILTER, f"{text[:80]!r} is not a condition such as price>20 or region=EU")
    name, operator, value = found.groups()
    return f"{name} {'<>' if operator == '!=' else operator} {_literal(value)}"


def _literal(value: str) -> str:
    if _NUMBER.fullmatch(value):
        return value
    if value.lower() in ("true", "false"):
        return value.upper()
    if len(value) > 1 and value[0] == value[-1] == "'":
        value = value[1:-1].replace("''", "'")
    return "'" + value.replace("'", "''") + "'"


def both(*selectors: str) -> str:
    """The conjunction of selectors, each of which must be valid alone."""
    given = [one for one in selectors if one.strip()]
    if len(given) < 2:
        return given[0] if given else ""
    for one in given:
        try:
            Selector(one)
        except SelectorError as error:
            raise MqttError(Reason.TOPIC_FILTER, f"invalid selector: {error.reason}") from None
    return " AND ".join(f"({one})" for one in given)
