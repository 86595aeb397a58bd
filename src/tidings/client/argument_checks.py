"""Checks arguments of the client's methods before anything is sent, and names the wrong one in a UsageError.

>>> text("selector", None)
Traceback (most recent call last):
    ...
tidings.errors.UsageError: E_ARGUMENT: selector must be text, not NoneType
>>> whole("window", 2**32)
Traceback (most recent call last):
    ...
tidings.errors.UsageError: E_ARGUMENT: window must be a whole number from 0 to 4294967295
>>> address("destination", Destination.parse("queue:orders"))
'queue:orders'
"""

import math
from collections.abc import Iterable

from tidings.errors import UsageError
from tidings.model.destination import Destination, DestinationPattern


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(f"{name} must be text, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _wrong(f"{name} contains an unpaired surrogate at position {error.start}") from None
    return value


def a_name(what: str, value: object) -> str:
    if not text(what, value):
        raise _wrong(f"{what} must not be empty")
    return str(value)


def address(name: str, value: object) -> str:
    """A destination or a pattern of them, as text or as an object."""
    if isinstance(value, Destination | DestinationPattern):
        return str(value)
    if not isinstance(value, str):
        raise _wrong(f"{name} must be text or a Destination, not {type(value).__name__}")
    return text(name, value)


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(f"{name} must be True or False")
    return value


def whole(name: str, value: object, bits: int = 32) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << bits:
        raise _wrong(f"{name} must be a whole number from 0 to {(1 << bits) - 1}")
    return value


def seconds(name: str, value: object) -> float:
    """A duration; infinity is allowed, NaN is not."""
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
        raise _wrong(f"{name} must be a number of seconds")
    return value


def milliseconds(name: str, value: object, bits: int = 48) -> int:
    """Seconds converted to whole milliseconds."""
    try:
        return whole(name, round(seconds(name, value) * 1000), bits)
    except (UsageError, OverflowError):
        raise _wrong(f"{name} must be a number of seconds from 0 to {(1 << bits) // 1000 - 1}") from None


def tag_list(value: Iterable[int]) -> tuple[int, ...]:
    try:
        return tuple(whole("a tag", tag, 64) for tag in value)
    except TypeError:
        raise _wrong(f"tags must be an iterable of whole numbers, not {type(value).__name__}") from None


def _wrong(reason: str) -> UsageError:
    return UsageError("E_ARGUMENT", reason)
