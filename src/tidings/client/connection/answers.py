"""What a client has asked a broker, and what it answers: a receipt for a publication, or why not."""

import asyncio
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidings.errors import RemoteError, SecurityError, TidingsError
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.protocols.native.frames import field as field_of

PASSING_CODES = frozenset({"E_DURABLE_BUSY", "E_STORE_FULL", "E_STORE_IO", "E_TYPE_UNREACHABLE"})
SECURITY_CODES = frozenset({"E_LOGIN", "E_FORBIDDEN", "E_LOGIN_THROTTLED", "E_LOGIN_TIMEOUT", "E_LOGIN_BUSY"})
LATER_CODES = frozenset(
    {"E_LOGIN_THROTTLED", "E_LOGIN_TIMEOUT", "E_LOGIN_BUSY"}
)  # not refused for good: a later try may do


@dataclass(frozen=True, slots=True)
class Receipt:
    """A publication's id, and whether it is safe yet."""

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
    """The same error for another who waits, or for the next call: one that is raised again grows by its stack."""
    return copy.copy(error)


def retrieved(done: "asyncio.Future[Any]") -> None:
    """A callback: an error that nobody waits for is not an unhandled one of the event loop."""
    if not done.cancelled():
        done.exception()
