"""One tree of errors. Each says whose fault it is (the class), which rule was broken (`code`), and whether
the connection or object can go on (`fatal`). Broken invariants of Tidings itself are asserts, not errors.

>>> raise SelectorError("E_SELECTOR_SYNTAX", "expected a value after '='", position=8)
Traceback (most recent call last):
    ...
tidings.errors.SelectorError: E_SELECTOR_SYNTAX at 8: expected a value after '='
"""

from typing import Any, Self


class TidingsError(Exception):
    """Root of everything Tidings raises on purpose."""

    def __init__(self, code: str, reason: str, *, position: int | None = None, fatal: bool = False) -> None:
        self.code = code
        self.reason = reason
        self.position = position
        self.fatal = fatal
        where = "" if position is None else f" at {position}"
        super().__init__(f"{code}{where}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes: as it is, not made once more from its text."""
        return _restored, (type(self), self.args, self.__dict__)

    def alone(self) -> Self:
        """To be kept or passed on: without the stack it was raised in. That holds the variables of all who were
        called, perhaps a request of megabytes, and one of them is often the error itself: a circle."""
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self


def _restored(kind: type[TidingsError], args: tuple[Any, ...], state: dict[str, Any]) -> TidingsError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(TidingsError):
    """The caller passed something that cannot be right."""


class SelectorError(UsageError):
    """A selector's text is wrong; `position` is the offset of the offending character, from 0."""


class ConfigError(UsageError):
    """A configuration is wrong; `problems` holds everything that is, each with file, line, key and remedy."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("E_CONFIG", "\n".join(problems))


class CodecError(TidingsError):
    """Bytes that are not what they claim to be; `position` is the offset of the offending byte, from 0."""


class LimitError(TidingsError):
    """A configured limit was reached."""


class SecurityError(TidingsError):
    """Who asks may not do that, or did not prove who it is."""


class RemoteProtocolError(TidingsError):
    """The other side does not keep to the protocol."""

    def __init__(self, code: str, reason: str, *, position: int | None = None, fatal: bool = True) -> None:
        super().__init__(code, reason, position=position, fatal=fatal)


class StoreError(TidingsError):
    """The store could not do it. Nothing of the batch in question counts as stored.

    E_STORE_FULL: no space left; E_STORE_IO: the disk refused; both may work again later (`retryable`).
    E_STORE_DAMAGED: bytes on disk fail their checksum; E_STORE_VERSION: not a store, or one of another version;
    E_STORE_LOCKED: another process has it open; E_STORE_CLOSED: it was closed.
    """

    RETRYABLE = frozenset({"E_STORE_FULL", "E_STORE_IO"})

    def __init__(self, code: str, reason: str, *, position: int | None = None) -> None:
        super().__init__(code, reason, position=position, fatal=code not in self.RETRYABLE)

    @property
    def retryable(self) -> bool:
        return self.code in self.RETRYABLE


class ConnectionLostError(TidingsError):
    """The connection to the broker is gone, or could not be made."""


class RemoteError(TidingsError):
    """The broker refused what it was asked for; the code is the broker's."""
