"""Spark's filters as selectors, so that the broker sends only what may pass them.

A filter that is pushed down is returned too, and Spark checks it again. So a selector must let through whatever Spark
would; it may let through more. That holds for comparisons with a literal of the column's own kind, and not for negation
or IS NULL: what does not fit its column is null to Spark, but not to the broker. Nor does it hold for a column of
32-bit numbers: Spark compares what is left of a value there, the broker the value.

>>> price = {"price": t.DoubleType(), "stock": t.StringType()}
>>> selector_of([GreaterThan(("price",), 20.0), EqualTo(("stock",), "O'Neil"), LessThan(("stock",), "X")], price)
"price > 20.0 AND stock = 'O''Neil'"
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import types as t
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from tidings.errors import SelectorError
from tidings.model.selector import Selector
from tidings.pipeline.source.rows import FIXED

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_OFFSET = 2**63 - 1
EXACT_MAX = 2**53  # up to here whole numbers and doubles compare alike, whichever is turned into the other
_COMPARISONS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_LIKES: dict[type[Filter], str] = {StringStartsWith: "{}%", StringEndsWith: "%{}", StringContains: "%{}%"}


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """Offsets above one and up to another."""

    above: int = 0
    up_to: int = _NO_OFFSET


def bounds_of(filters: Sequence[Filter]) -> OffsetBounds:
    """The range of offsets that filters of the column `offset` leave.

    >>> bounds_of([GreaterThan(("offset",), 5), LessThan(("offset",), 9)])
    OffsetBounds(above=5, up_to=8)
    """
    above, up_to = 0, _NO_OFFSET
    for one in filters:
        value = getattr(one, "value", None)
        if getattr(one, "attribute", None) != ("offset",) or type(value) is not int:
            continue
        if isinstance(one, GreaterThan | GreaterThanOrEqual | EqualTo):
            above = max(above, value - (not isinstance(one, GreaterThan)))
        if isinstance(one, LessThan | LessThanOrEqual | EqualTo):
            up_to = min(up_to, value - isinstance(one, LessThan))
    return OffsetBounds(above, max(up_to, 0))


def selector_of(filters: Sequence[Filter], columns: Mapping[str, t.DataType]) -> str:
    """All of them that a broker can check, joined by AND; empty: none."""
    texts = [(_text(one, columns), one) for one in filters]
    own = [text for text, one in texts if text and _speaks_of(text, one.attribute[0])]  # type: ignore[attr-defined]
    return " AND ".join([*own, *filter(None, map(_time, filters))])


def _text(one: Filter, columns: Mapping[str, t.DataType]) -> str:
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] in FIXED or path[0] not in columns:
        return ""
    name, kind = path[0], columns[path[0]]
    if isinstance(one, IsNotNull):
        return f"{name} IS NOT NULL"
    if isinstance(one, In):
        literals = [_literal(value, kind) for value in one.value]
        texts = [literal for literal in literals if literal]
        if not texts or len(texts) < len(literals):
            return ""
        return "(" + " OR ".join(f"{name} = {text}" for text in texts) + ")"
    if type(one) in _LIKES:
        return _like(name, _LIKES[type(one)], one.value)  # type: ignore[attr-defined]
    if type(one) in _COMPARISONS:
        literal = _literal(one.value, kind)  # type: ignore[attr-defined]
        ordered = not isinstance(one, EqualTo) and isinstance(kind, t.StringType | t.BooleanType)
        return f"{name} {_COMPARISONS[type(one)]} {literal}" if literal and not ordered else ""
    return ""


def _time(one: Filter) -> str:
    """A comparison of the column `ts` as one of the time in the message's id, which is in whole milliseconds.

    >>> _time(GreaterThan(("ts",), _EPOCH + timedelta(microseconds=1500)))
    'JMSTimestamp > 1'
    >>> _time(LessThan(("ts",), _EPOCH + timedelta(microseconds=1500)))
    'JMSTimestamp < 2'
    """
    value = getattr(one, "value", None)
    if getattr(one, "attribute", None) != ("ts",) or not isinstance(value, datetime) or value.tzinfo is None:
        return ""
    floor, rest = divmod(value - _EPOCH, timedelta(milliseconds=1))
    ceiling = floor + bool(rest)
    match one:
        case GreaterThan():
            return f"JMSTimestamp > {floor}"
        case GreaterThanOrEqual():
            return f"JMSTimestamp >= {ceiling}"
        case LessThan():
            return f"JMSTimestamp < {ceiling}"
        case LessThanOrEqual():
            return f"JMSTimestamp <= {floor}"
        case EqualTo():
            return f"JMSTimestamp >= {ceiling} AND JMSTimestamp <= {floor}"
        case _:
            return ""


def _literal(value: Any, kind: t.DataType) -> str:
    """As a selector writes it; empty: it cannot be compared alike on both sides."""
    if isinstance(value, bool):
        return str(value).upper() if isinstance(kind, t.BooleanType) else ""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'" if isinstance(kind, t.StringType) else ""
    if (
        isinstance(value, int | float)
        and isinstance(kind, t.NumericType)
        and not isinstance(kind, t.FloatType | t.DecimalType)
    ):
        return repr(value) if math.isfinite(value) and abs(value) < EXACT_MAX else ""
    return ""


def _like(name: str, form: str, text: Any) -> str:
    if not isinstance(text, str):
        return ""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("'", "''")
    return f"{name} LIKE '{form.format(escaped)}' ESCAPE '\\'"


def _speaks_of(text: str, name: str) -> bool:
    """Column names may be words or signs that a selector understands otherwise: `a-b` as a difference.

    >>> _speaks_of("a = 5", "a"), _speaks_of("a-b = 5", "a-b"), _speaks_of("true = 5", "true")
    (True, False, False)
    """
    try:
        return Selector(text).identifiers == {name}
    except SelectorError:
        return False
