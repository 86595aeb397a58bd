"""Delays logins after failures, so that guessing passwords does not pay.

Failures are counted for the address they come from and for the user they name. After `failures_max` of them in a row
the next attempt is refused, unchecked, for a time that doubles with each further failure. A stranger could use that to
lock out a user; therefore, at an address where a user has logged in before, only failures of that user there count.
A login clears the address, but nothing of other users: an account gives no extra guesses at another one. A login that
names no user, as one by token may, counts for its address only.
Memory is bounded: each table forgets whatever has been quiet for longest.
"""

from collections import OrderedDict
from dataclasses import dataclass

ENTRIES_MAX = 10_000
KEY_MAX = 256


@dataclass(slots=True)
class _Record:
    failures: int = 0
    until: float = 0.0


class _Table:
    """A bounded table of the most recently used keys."""

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._entries: OrderedDict[str, _Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> _Record | None:
        return self._entries.get(key[:KEY_MAX])

    def put(self, key: str, value: _Record) -> None:
        self._entries[key[:KEY_MAX]] = value
        self._entries.move_to_end(key[:KEY_MAX])
        if len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)

    def forget(self, key: str) -> None:
        self._entries.pop(key[:KEY_MAX], None)


class Throttle:
    """Time is an argument, in seconds of any clock that does not go back."""

    def __init__(
        self,
        *,
        failures_max: int = 5,
        lock_seconds: float = 1.0,
        lock_seconds_max: float = 300.0,
        entries_max: int = ENTRIES_MAX,
    ) -> None:
        self.failures_max = failures_max
        self.lock_seconds = lock_seconds
        self.lock_seconds_max = lock_seconds_max
        self._addresses: _Table = _Table(entries_max)
        self._users: _Table = _Table(entries_max)
        self._proven: _Table = _Table(entries_max)  # users at addresses from which they logged in before

    def wait_seconds(self, now: float, user: str, address: str) -> float:
        """Seconds that this user must wait at this address before the next attempt; 0: none."""
        proven = self._proven.get(_pair(user, address))
        records = (self._addresses.get(address), self._users.get(user)) if proven is None else (proven,)
        return max([0.0, *(record.until - now for record in records if record is not None)])

    def is_proven(self, user: str, address: str) -> bool:
        """True if this user has logged in from this address before."""
        return self._proven.get(_pair(user, address)) is not None

    def failed(self, now: float, user: str, address: str) -> None:
        counted = [(self._addresses, address), *([(self._users, user)] if user else [])]
        if self._proven.get(_pair(user, address)) is not None:
            counted.append((self._proven, _pair(user, address)))
        for table, key in counted:
            record = table.get(key) or _Record()
            record.failures += 1
            beyond = record.failures - self.failures_max
            if beyond >= 0:
                # 2^40 seconds are longer than any maximum: a larger power would only overflow.
                record.until = now + min(self.lock_seconds * 2.0 ** min(beyond, 40), self.lock_seconds_max)
            table.put(key, record)

    def succeeded(self, user: str, address: str) -> None:
        """Forget the failures of an address that has proven one password."""
        self._addresses.forget(address)
        if self._proven.get(_pair(user, address)) is None:
            self._users.forget(user)  # in spite of the user's lock, so this was the user
        self._proven.put(_pair(user, address), _Record())

    def __len__(self) -> int:
        """Entries in memory."""
        return len(self._addresses) + len(self._users) + len(self._proven)


def _pair(user: str, address: str) -> str:
    return f"{address} {user}"
