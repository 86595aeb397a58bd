"""One tree of errors. Each says whose fault it is (the class), which rule was broken (`code`), and whether
the connection or object can go on (`fatal`). Broken invariants of Tidings itself are asserts, not errors.

>>> raise SelectorError("E_SELECTOR_SYNTAX", "expected a value after '='", position=8)
Traceback (most recent call last):
    ...
tidings.errors.SelectorError: E_SELECTOR_SYNTAX at 8: expected a value after '='
"""


class TidingsError(Exception):
    """Root of everything Tidings raises on purpose."""

    def __init__(self, code: str, reason: str, *, position: int | None = None, fatal: bool = False) -> None:
        self.code = code
        self.reason = reason
        self.position = position
        self.fatal = fatal
        where = "" if position is None else f" at {position}"
        super().__init__(f"{code}{where}: {reason}")


class UsageError(TidingsError):
    """The caller passed something that cannot be right."""


class SelectorError(UsageError):
    """A selector's text is wrong; `position` is the offset of the offending character, from 0."""


class CodecError(TidingsError):
    """Bytes that are not what they claim to be; `position` is the offset of the offending byte, from 0."""


class LimitError(TidingsError):
    """A configured limit was reached."""
