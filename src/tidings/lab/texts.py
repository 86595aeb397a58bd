"""Files that people give us, as text: whatever is wrong with one is said in a line that names it."""

import json
from pathlib import Path
from typing import Any

from tidings.errors import UsageError


def read_text(path: Path, code: str = "E_FILE") -> str:
    """UTF-8, whatever the machine's locale."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(code, f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(code, f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from None


def parse_json(text: str, where: object, code: str = "E_FILE") -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise UsageError(code, f"{where}: not JSON we read: too deeply nested") from None
    except ValueError as error:
        raise UsageError(code, f"{where}: not JSON: {error}") from None
