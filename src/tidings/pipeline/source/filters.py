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

EXACT_MAX = 2**53  # up to here whole numbers and doubles compare alike, whichever is turned into the other
_COMPARISONS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_LIKES: dict[type[Filter], str] = {StringStartsWith: "{}%", StringEndsWith: "%{}", StringContains: "%{}%"}


def selector_of(filters: Sequence[Filter], columns: Mapping[str, t.DataType]) -> str:
    """All of them that a broker can check, joined by AND; empty: none."""
    texts = [(_text(one, columns), one) for one in filters]
    return " AND ".join(text for text, one in texts if text and _speaks_of(text, one.attribute[0]))  # type: ignore[attr-defined]


def joined(*selectors: str) -> str:
    """
    >>> joined("a = 1 OR b = 2", "", "c > 3")
    '(a = 1 OR b = 2) AND (c > 3)'
    """
    some = [one for one in selectors if one.strip()]
    return some[0] if len(some) == 1 else " AND ".join(f"({one})" for one in some)


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


def _literal(value: Any, kind: t.DataType) -> str:
    """As a selector writes it; empty: it cannot be compared alike on both sides."""
    if isinstance(value, bool):
        return str(value).upper() if isinstance(kind, t.BooleanType) else ""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'" if isinstance(kind, t.StringType) else ""
    if isinstance(value, int | float) and isinstance(kind, t.NumericType) and not isinstance(kind, t.FloatType):
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
