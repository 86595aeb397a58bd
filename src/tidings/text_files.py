"""Reads text files and JSON from users; every error is one line that names the file."""

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
    """The document if it is a JSON object, otherwise a ValueError."""
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    return document


def fault(error: Exception) -> str:
    """Describes for people why a JSON document could not be read.

    >>> fault(KeyError("format")), fault(ValueError("it is not a JSON object")), fault(TypeError("'int' object is …"))
    ("it has no 'format'", 'it is not a JSON object', 'a value is of the wrong kind')
    """
    if isinstance(error, KeyError):
        return f"it has no {error!s:.100}"
    return f"{error!s:.100}" if isinstance(error, ValueError) else "a value is of the wrong kind"


def parse_json(text: str, where: object, code: str = "E_FILE") -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise UsageError(code, f"{where}: JSON nested too deeply") from None
    except ValueError as error:
        raise UsageError(code, f"{where}: not JSON: {error}") from None
