"""Reports errors of commands: one line each, and for a selector the position in its text."""

import sys

from tidings.errors import ConfigError, SelectorError, TidingsError, UsageError
from tidings.extras import EXTRA_OF, missing

FAILED, USED_WRONGLY = 1, 2


def report(error: Exception) -> int:
    """Print the error and return the exit status. Errors of unknown types are raised again."""
    match error:
        case ConfigError():
            _print(*error.problems)
            return USED_WRONGLY
        case TidingsError():
            _print(f"tidings: {error}")
            return USED_WRONGLY if isinstance(error, UsageError) else FAILED
        case ModuleNotFoundError() if (package := (error.name or "").partition(".")[0]) in EXTRA_OF:
            return report(missing(package))
        case OSError():
            _print(f"tidings: {error}")
            return FAILED
        case _:
            raise error


def show_selector(text: str, error: TidingsError) -> SelectorError:
    """The same error, with the text and a mark below the position.

    >>> print(show_selector("price >", SelectorError("E_SELECTOR_SYNTAX", "expected a value", position=7)).reason)
    expected a value
      price >
             ^
    """
    assert error.position is not None
    line = "".join(" " if character.isspace() else character for character in text)
    reason = f"{error.reason}\n  {line}\n  {' ' * error.position}^"
    return SelectorError(error.code, reason, position=error.position)


def _print(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr)  # noqa: T201
