"""Error classes of Tidings, in one tree. The class names the responsible party, `code` the rule that was broken, and
`fatal` is true if the connection or object is unusable afterwards. Broken invariants of Tidings itself are asserts, not
errors.

>>> raise SelectorError("E_SELECTOR_SYNTAX", "expected a value after '='", position=8)
Traceback (most recent call last):
    ...
tidings.errors.SelectorError: E_SELECTOR_SYNTAX at 8: expected a value after '='
"""

from typing import Any, Self


class TidingsError(Exception):
    """Base class of all errors that Tidings raises on purpose."""

    def __init__(self, code: str, reason: str, *, position: int | None = None, fatal: bool = False) -> None:
        self.code = code
        self.reason = reason
        self.position = position
        self.fatal = fatal
        where = "" if position is None else f" at {position}"
        super().__init__(f"{code}{where}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error as it is, instead of building it again from its text."""
        return _restored, (type(self), self.args, self.__dict__)

    def alone(self) -> Self:
        """The error without its stack, to be kept or passed on. The stack holds the variables of all callers, perhaps a
        request of megabytes, and often the error itself, in a reference cycle."""
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self


def _restored(kind: type[TidingsError], args: tuple[Any, ...], state: dict[str, Any]) -> TidingsError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(TidingsError):
    """The caller passed an invalid argument or made an invalid request."""


class SelectorError(UsageError):
    """A selector's text is invalid; `position` is the offset of the offending character, from 0."""


class ConfigError(UsageError):
    """A configuration is invalid; `problems` lists every problem with file, line, key and remedy."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("E_CONFIG", "\n".join(problems))


class CodecError(TidingsError):
    """Malformed or damaged bytes; `position` is the offset of the offending byte, from 0."""


class LimitError(TidingsError):
    """A configured limit was reached."""


class SecurityError(TidingsError):
    """Authentication failed, or the user lacks permission."""


class RemoteProtocolError(TidingsError):
    """The peer violated the protocol."""

    def __init__(self, code: str, reason: str, *, position: int | None = None, fatal: bool = True) -> None:
        super().__init__(code, reason, position=position, fatal=fatal)


class StoreError(TidingsError):
    """The store failed. Nothing of the batch in question counts as stored.

    E_STORE_FULL: no space left; E_STORE_IO: a disk error; both may work again later (`retryable`).
    E_STORE_DAMAGED: bytes on disk fail their checksum; E_STORE_VERSION: not a store, or one of another version;
    E_STORE_LOCKED: another process has it open; E_STORE_CLOSED: it was closed.
    Of a store in a database: E_STORE_UNAVAILABLE: no writable server can be reached; E_STORE_ACCESS: none lets us in;
    E_STORE_SYNCHRONOUS: no standby has what is written; all three may work again later. E_STORE_LEASE: another process
    writes it now.
    """

    RETRYABLE = frozenset(
        {"E_STORE_FULL", "E_STORE_IO", "E_STORE_UNAVAILABLE", "E_STORE_ACCESS", "E_STORE_SYNCHRONOUS"}
    )

    def __init__(self, code: str, reason: str, *, position: int | None = None) -> None:
        super().__init__(code, reason, position=position, fatal=code not in self.RETRYABLE)

    @property
    def retryable(self) -> bool:
        return self.code in self.RETRYABLE


class ConnectionLostError(TidingsError):
    """The connection to the broker was lost, or could not be established."""


class RemoteError(TidingsError):
    """The broker refused a request; the code is the broker's."""
