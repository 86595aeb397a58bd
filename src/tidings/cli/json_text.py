"""JSON that other programs can read: it has no NaN and no infinity, which Python would write all the same."""

import json
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
        reason = "the answer has a number beyond all floats: some number asked about is too large or too small"
        raise UsageError("E_JSON_NUMBER", reason) from None
