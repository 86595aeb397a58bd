"""What a client has asked a broker, and what it answers: a receipt for a publication, or why not."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidings.errors import RemoteError, SecurityError, TidingsError
from tidings.model.message_id import MessageId
from tidings.model.values import Value

PASSING_CODES = frozenset({"E_DURABLE_BUSY", "E_STORE_FULL", "E_STORE_IO", "E_TYPE_UNREACHABLE"})
SECURITY_CODES = frozenset({"E_LOGIN", "E_FORBIDDEN", "E_LOGIN_THROTTLED", "E_LOGIN_TIMEOUT"})
LATER_CODES = frozenset({"E_LOGIN_THROTTLED", "E_LOGIN_TIMEOUT"})  # not refused for good: a later try may do


@dataclass(frozen=True, slots=True)
class Receipt:
    """A publication's id, and whether it is safe yet."""

    message_id: MessageId
    confirmation: "asyncio.Future[None]" = field(repr=False)

    async def confirmed(self) -> "Receipt":
        """Return when the broker has accepted it (persistent: has it on disk); raise if it refused."""
        await asyncio.shield(self.confirmation)
        return self


@dataclass(slots=True)
class Asked:
    """Something asked of the broker that is not answered yet."""

    make: Callable[[int], bytes]  # from its receipt number
    future: "asyncio.Future[dict[str, Value]]"
    repeatable: bool  # makes sense on another connection too


def error_of(fields: Mapping[str, Value]) -> TidingsError:
    code, reason = str(fields.get("code", "E_UNKNOWN")), str(fields.get("reason", "the broker gave no reason"))
    position = int(fields["position"]) - 1 if "position" in fields else None
    kind = SecurityError if code in SECURITY_CODES else RemoteError
    return kind(code, reason, position=position, fatal=bool(fields.get("fatal")))
