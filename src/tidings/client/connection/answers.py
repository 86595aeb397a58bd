"""Answers of a broker: the receipt of a publication, and errors decoded from frames."""

import asyncio
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidings.errors import RemoteError, SecurityError, TidingsError
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.protocols.native.frames import field as field_of

PASSING_CODES = frozenset({"E_DURABLE_BUSY", "E_HOME_AWAY", "E_STORE_FULL", "E_STORE_IO", "E_TYPE_UNREACHABLE"})
LOGIN_CODES = {"E_LOGIN", "E_LOGIN_THROTTLED", "E_LOGIN_TIMEOUT", "E_LOGIN_BUSY", "E_LOGIN_TOKEN", "E_LOGIN_KEYS"}
SECURITY_CODES = frozenset({"E_FORBIDDEN", *LOGIN_CODES})
LATER_CODES = frozenset(
    {"E_LOGIN_THROTTLED", "E_LOGIN_TIMEOUT", "E_LOGIN_BUSY"}
)  # not refused for good: a later try may do


@dataclass(frozen=True, slots=True)
class Receipt:
    """The id of a publication, and its confirmation by the broker."""

    message_id: MessageId
    confirmation: "asyncio.Future[None]" = field(repr=False)

    async def confirmed(self) -> "Receipt":
        """Return when the broker has accepted it (persistent: has it on disk); raise if it refused."""
        await asyncio.shield(self.confirmation)
        return self


def error_of(fields: Mapping[str, Value]) -> TidingsError:
    code = field_of(fields, "code", str) or "E_UNKNOWN"
    reason = field_of(fields, "reason", str) or "the broker gave no reason"
    position = field_of(fields, "position", int) - 1 if "position" in fields else None
    kind = SecurityError if code in SECURITY_CODES else RemoteError
    return kind(code, reason, position=position, fatal=field_of(fields, "fatal", bool))


def again(error: TidingsError) -> TidingsError:
    """A copy of the error for another waiting call: an exception raised twice accumulates traceback entries."""
    return copy.copy(error)


def retrieved(done: "asyncio.Future[Any]") -> None:
    """Future callback: marks an exception as retrieved, so the event loop does not log it as unhandled."""
    if not done.cancelled():
        done.exception()
