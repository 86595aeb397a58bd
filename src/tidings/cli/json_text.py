"""Writes strictly valid JSON, without the NaN and infinities that Python would write."""

import json
import math
from typing import Any

from tidings.errors import UsageError


def strict_json(document: Any) -> str:
    """
    >>> strict_json({"rate": 2.5})
    '{"rate": 2.5}'
    """
    try:
        return json.dumps(document, allow_nan=False)
    except ValueError:
        reason = "the result exceeds the range of numbers; an argument is too large or too small"
        raise UsageError("E_JSON_NUMBER", reason) from None


def found_json(document: Any, indent: int | None = None) -> str:
    """JSON of measured, simulated or read results, in which NaN and infinities become null.

    >>> found_json({"delivered": 3, "waiting_s": [0.5, float("nan")], "rate_max": float("inf")})
    '{"delivered": 3, "waiting_s": [0.5, null], "rate_max": null}'
    """
    try:
        return json.dumps(document, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_with_nulls(document), indent=indent, allow_nan=False)


def _with_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_nulls(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_with_nulls(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
