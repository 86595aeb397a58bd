"""Caches recently verified passwords, for cheap checks of clients that reconnect.

A memory-hard hash takes 0.1 s and more; a thousand clients that reconnect after a broken network would need minutes.
After a password was verified with that hash, a keyed BLAKE2b of it is kept in memory: the next login with the same
user and password takes microseconds. A password that does not match is checked in full, with queue and throttle, so
guessing gains nothing.

The price: an attacker that can read the broker's memory finds the key and the digests, and can try passwords against
them faster than against the users file. They never leave memory, the key is random for each process, an entry
counts only for the user's entry of the users file with which it was made, and for REMEMBER_SECONDS.
"""

import hashlib
import hmac
import os
from dataclasses import dataclass

from tidings.broker.security.passwords import PASSWORD_BYTES_MAX
from tidings.broker.security.users import User

REMEMBER_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, repr=False)
class _Entry:
    user: User
    digest: bytes
    until: float


class KnownPasswords:
    """One entry a user. Time is an argument, in seconds of any clock that does not go back."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def remember(self, now: float, user: User, password: str) -> None:
        """Cache a password that was verified with the hash in this entry of the users file."""
        if password:
            self._entries[user.name] = _Entry(user, self._digest(user.name, password), now + REMEMBER_SECONDS)

    def fits(self, now: float, name: str, user: User | None, password: str) -> bool:
        """True if this password was verified recently. The work is the same for users that do not exist."""
        entry, digest = self._entries.get(name), self._digest(name, password)
        if entry is None or user is None:
            return False
        if now >= entry.until or entry.user != user:
            del self._entries[name]
            return False
        return hmac.compare_digest(entry.digest, digest)

    def forget(self) -> None:
        """All of them: the users have changed."""
        self._entries = {}

    def _digest(self, name: str, password: str) -> bytes:
        secret = password.encode(errors="surrogatepass")[: PASSWORD_BYTES_MAX + 1]
        named = name.encode(errors="surrogatepass")
        return hashlib.blake2b(len(named).to_bytes(8, "big") + named + secret, key=self._key, digest_size=32).digest()
