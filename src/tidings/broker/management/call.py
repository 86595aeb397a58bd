"""One call of a management operation: its validated values, its client, and the parts of the broker it may use."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path
from typing import Any

from tidings.broker.broker_view import BrokerView
from tidings.broker.inspection import Item, may_inspect, state
from tidings.broker.management.parameters import Values
from tidings.broker.management.session import ManagementConnection
from tidings.broker.membership import Membership
from tidings.broker.security.audit import Audit
from tidings.broker.security.guard import Guard
from tidings.errors import SecurityError
from tidings.node.clients.subscriptions import EVERYTHING
from tidings.node.protocol_session import Inspect


@dataclass(frozen=True, slots=True)
class BrokerControl:
    """Controls of the broker process for administrators; `check` and `reload` return problems."""

    view: Callable[[], BrokerView]
    guard: Callable[[], Guard]
    check: Callable[[], Awaitable[list[str]]]
    reload: Callable[[], Awaitable[list[str]]]
    membership: Membership
    audit: Audit
    switch_over: Callable[[], None]
    back_up: Callable[[str], Awaitable[Path]]


@dataclass(frozen=True, slots=True)
class Call:
    values: Values
    client: ManagementConnection
    control: BrokerControl

    def part(self, part: str) -> Item:
        """A part of the broker's state, of a list one page."""
        page = self.values.get("offset", 0), self.values.get("limit", 0), self.values.get("containing", "")
        return state(self.control.view(), self.client.principal, Inspect(0, part, *page))

    def page(self, items: list[Item], size: Callable[[Item], int]) -> dict[str, Any]:
        """One page of items, the largest first."""
        offset, limit = self.values["offset"], self.values["limit"]
        return {"total": len(items), "items": nlargest(offset + limit, items, key=size)[offset:]}

    def check_monitor(self) -> None:
        if not may_inspect(self.client.principal):
            self._forbid("inspect the broker", "monitor or manage")

    def check_administer(self) -> None:
        if not self.client.principal.may("manage", EVERYTHING):
            self._forbid("administer the broker", "manage")

    def _forbid(self, what: str, right: str) -> None:
        reason = f"{self.client.principal.name} may not {what}; that needs the right to {right} {EVERYTHING}"
        raise SecurityError("E_FORBIDDEN", reason)
