"""Password hashes: scrypt (RFC 7914), which costs an attacker memory as well as time for each guess.

The text of a hash names its parameters, so they can be raised later without invalidating what exists.

>>> text = hash_password("correct horse", Cost(n=16, r=8, p=1), salt=b"0123456789abcdef")
>>> text.split("$")[:2]
['scrypt', 'n=16,r=8,p=1']
>>> verify("correct horse", text), verify("wrong horse", text)
(True, False)
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
from dataclasses import dataclass

from tidings.errors import UsageError

PASSWORD_BYTES_MAX = 1024
SALT_BYTES, HASH_BYTES = 16, 32
MEMORY_BYTES_MAX = 256 << 20
_FORMAT = re.compile(r"scrypt\$n=(\d{1,8}),r=(\d{1,3}),p=(\d{1,3})\$([A-Za-z0-9+/=]{4,88})\$([A-Za-z0-9+/=]{4,172})")


@dataclass(frozen=True, slots=True)
class Cost:
    """Memory is 128 · n · r bytes; time is proportional to n · r · p. The default takes 32 MiB and some 0.2 s."""

    n: int = 1 << 15
    r: int = 8
    p: int = 3

    def __post_init__(self) -> None:
        power_of_two = self.n >= 2 and self.n & (self.n - 1) == 0
        if not power_of_two or self.r < 1 or not 1 <= self.p <= 16 or 128 * self.n * self.r > MEMORY_BYTES_MAX:
            raise UsageError(
                "E_PASSWORD_HASH", "scrypt needs n as a power of two, 1 <= p <= 16, and 128 n r of at most 256 MiB"
            )


@dataclass(frozen=True, slots=True, repr=False)
class PasswordHash:
    cost: Cost
    salt: bytes
    digest: bytes

    @staticmethod
    def parse(text: str) -> "PasswordHash":
        found = _FORMAT.fullmatch(text)
        try:
            if found is not None:
                n, r, p, salt, digest = found.groups()
                decoded = base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True)
                return PasswordHash(Cost(int(n), int(r), int(p)), *decoded)
        except binascii.Error:
            pass
        raise UsageError("E_PASSWORD_HASH", "not a hash written by `tidings user passwd`")

    def __str__(self) -> str:
        salt, digest = (base64.b64encode(part).decode() for part in (self.salt, self.digest))
        return f"scrypt$n={self.cost.n},r={self.cost.r},p={self.cost.p}${salt}${digest}"

    def fits(self, password: str) -> bool:
        made = _derive(password, self.cost, self.salt, len(self.digest))
        return hmac.compare_digest(made, self.digest)


def hash_password(password: str, cost: Cost | None = None, *, salt: bytes | None = None) -> str:
    if not password:
        raise UsageError("E_PASSWORD", "the password is empty; give at least one character")
    if len(password.encode(errors="surrogatepass")) > PASSWORD_BYTES_MAX:
        raise UsageError("E_PASSWORD", f"the password is too long; at most {PASSWORD_BYTES_MAX} bytes are allowed")
    cost, salt = cost or Cost(), salt or os.urandom(SALT_BYTES)
    return str(PasswordHash(cost, salt, _derive(password, cost, salt, HASH_BYTES)))


def verify(password: str, text: str) -> bool:
    return PasswordHash.parse(text).fits(password)


def _derive(password: str, cost: Cost, salt: bytes, size: int) -> bytes:
    # Longer than the maximum fits nothing, but costs the same.
    secret = password.encode(errors="surrogatepass")[: PASSWORD_BYTES_MAX + 1]
    maxmem = 128 * cost.n * cost.r + 128 * cost.r * cost.p + (1 << 20)
    return hashlib.scrypt(secret, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=maxmem, dklen=size)
