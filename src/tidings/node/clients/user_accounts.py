"""Counts what each user has and sends, and enforces the users' quotas.

Rates are enforced by the forwarding plane: the connections of a user share an allowance of messages and bytes that is
refilled a few times a second and holds at most what one second brings. When it is used up they are not read until
there is more, so publishers wait as they do for slow consumers. Queues belong to the user who made them, for as long
as they exist; what they hold counts as stored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil

from tidings.delivery.mailbox import Mailbox
from tidings.delivery.policy import StoredBytes
from tidings.errors import LimitError
from tidings.node.limits import EVERY_USER, UserQuota
from tidings.node.plane import AllowancePlane

IDLE_MS = 1_000  # after which an allowance is full again, whatever it was


@dataclass(slots=True)
class _Rate:
    """Turns time into whole units of an allowance."""

    per_second: float
    carried: float = 0.0

    @property
    def most(self) -> int:
        return ceil(self.per_second)

    def passed(self, ms: float) -> int:
        self.carried += self.per_second * ms / 1000
        whole = int(self.carried)
        self.carried -= whole
        return whole


@dataclass(slots=True, eq=False)
class Account:
    """One user. It ends when nothing is left to count."""

    user: str
    number: int  # of its allowance
    quota: UserQuota | None
    connections: set[int] = field(default_factory=set)
    queues: dict[Mailbox, None] = field(default_factory=dict)
    stored: StoredBytes = field(default_factory=StoredBytes)
    messages: _Rate | None = None  # both, or neither: then there is no allowance
    bytes: _Rate | None = None
    filled_ms: float = 0.0
    left_ms: float = 0.0  # when its last connection left


@dataclass(frozen=True, slots=True)
class Usage:
    """Use of a quota."""

    quota: UserQuota
    user: str
    connections: int
    queues: int
    stored_bytes: int
    messages: int  # published since its account was opened
    bytes: int
    waits: int  # times that a connection had to wait


class UserAccounts:
    def __init__(self, plane: AllowancePlane, quotas: Sequence[UserQuota]) -> None:
        self.quotas = quotas
        self._plane = plane
        self._by_user: dict[str, Account] = {}
        self._by_connection: dict[int, Account] = {}
        self._next_number = 1

    def quota(self, user: str) -> UserQuota | None:
        """The first that concerns the user."""
        return next((one for one in self.quotas if one.user in (EVERY_USER, user)), None)

    def configure(self, steady_ms: float, quotas: Sequence[UserQuota]) -> None:
        """Other quotas from now on. What exceeds them stays."""
        self.quotas = quotas
        for account in self._by_user.values():
            self._limit(account, steady_ms)

    # --- connections ----------------------------------------------------------------------------------------------

    def connections_max(self, user: str, usual: int) -> int:
        quota = self.quota(user)
        return usual if quota is None or not quota.connections else quota.connections

    def connected(self, steady_ms: float, connection: int, user: str) -> None:
        account = self._by_connection[connection] = self._account(user, steady_ms)
        account.connections.add(connection)
        if account.messages is not None:
            self._plane.set_allowance(connection, account.number)

    def lost(self, steady_ms: float, connection: int) -> None:
        if (account := self._by_connection.pop(connection, None)) is not None:
            account.connections.discard(connection)
            account.left_ms = steady_ms

    def refill(self, steady_ms: float) -> None:
        """A few times a second."""
        for account in list(self._by_user.values()):
            if account.messages is not None and account.bytes is not None:
                passed, account.filled_ms = steady_ms - account.filled_ms, steady_ms
                messages, size = account.messages, account.bytes
                self._plane.refill(
                    account.number, messages.passed(passed), messages.most, size.passed(passed), size.most
                )
            if not (account.connections or account.queues) and steady_ms - account.left_ms > IDLE_MS:
                del self._by_user[account.user]
                self._plane.drop_allowance(account.number)

    # --- queues ---------------------------------------------------------------------------------------------------

    def user_of(self, connection: int | None) -> str:
        """Empty: nobody's."""
        account = None if connection is None else self._by_connection.get(connection)
        return "" if account is None else account.user

    def admit_queue(self, user: str) -> None:
        """Raises a LimitError if the user may not have another queue."""
        account = self._by_user.get(user)
        if account is None or account.quota is None or not account.quota.queues:
            return
        if len(account.queues) >= account.quota.queues:
            reason = f"{user} has {len(account.queues)} queues, which is its quota; delete one"
            raise LimitError("E_QUOTA_QUEUES", reason)

    def opened(self, mailbox: Mailbox) -> None:
        if mailbox.owner:
            self._account(mailbox.owner, 0.0).queues[mailbox] = None

    def closed(self, mailbox: Mailbox) -> None:
        if mailbox.owner and (account := self._by_user.get(mailbox.owner)) is not None:
            account.queues.pop(mailbox, None)

    def stored(self, owner: str) -> StoredBytes | None:
        """The counter of what this user's queues hold; None: nobody needs to know."""
        account = self._by_user.get(owner) if owner else None
        return account.stored if account is not None and account.stored.bytes_max else None

    def usage(self) -> Iterable[Usage]:
        for account in self._by_user.values():
            if account.quota is not None:
                counts = (0, 0, 0)
                if account.messages is not None:
                    counts = self._plane.allowance_counts(account.number)
                there = len(account.connections), len(account.queues), account.stored.bytes
                yield Usage(account.quota, account.user, *there, *counts)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _account(self, user: str, steady_ms: float) -> Account:
        account = self._by_user.get(user)
        if account is None:
            account = self._by_user[user] = Account(user, self._next_number, None)
            self._next_number += 1
            self._limit(account, steady_ms)
        return account

    def _limit(self, account: Account, steady_ms: float) -> None:
        """Let the quota that concerns it now hold for an account."""
        quota = account.quota = self.quota(account.user)
        account.stored.bytes_max, account.stored.user = 0 if quota is None else quota.stored_bytes, account.user
        rates = (0.0, 0.0) if quota is None else (quota.messages_per_second, quota.bytes_per_second)
        if not any(rates):
            account.messages = account.bytes = None
            for connection in account.connections:
                self._plane.set_allowance(connection, 0)
            self._plane.drop_allowance(account.number)
            return
        account.messages, account.bytes, account.filled_ms = _Rate(rates[0]), _Rate(rates[1]), steady_ms
        most = account.messages.most, account.bytes.most
        self._plane.refill(account.number, most[0], most[0], most[1], most[1])
        for connection in account.connections:
            self._plane.set_allowance(connection, account.number)
