"""Files that people give us, as text: whatever is wrong with one is said in a line that names it."""

import json
from pathlib import Path
from typing import Any

from tidings.errors import UsageError


def read_text(path: Path, code: str = "E_FILE") -> str:
    """UTF-8, whatever the machine's locale; with the mark that some editors begin it with, or without."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(code, f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(code, f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from None


def as_object(document: Any) -> dict[str, Any]:
    """What we have stored is always a JSON object."""
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    return document


def fault(error: Exception) -> str:
    """What is wrong with a JSON document that could not be read, for people.

    >>> fault(KeyError("format")), fault(ValueError("it is no JSON object")), fault(TypeError("'int' object is …"))
    ("it has no 'format'", 'it is no JSON object', 'a value is of the wrong kind')
    """
    if isinstance(error, KeyError):
        return f"it has no {error!s:.100}"
    return f"{error!s:.100}" if isinstance(error, ValueError) else "a value is of the wrong kind"


def parse_json(text: str, where: object, code: str = "E_FILE") -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise UsageError(code, f"{where}: not JSON we read: too deeply nested") from None
    except ValueError as error:
        raise UsageError(code, f"{where}: not JSON: {error}") from None
