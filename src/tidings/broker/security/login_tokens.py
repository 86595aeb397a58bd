"""Tokens with which clients log in again cheaply, also after a restart of the broker.

A memory-hard hash takes 0.1 s and more, so a thousand users that come back after a restart would need minutes. With
WELCOME each client gets a token that only this broker can make: its user, its end, and a keyed BLAKE2b over both and
over the user's entry of the users file. In its next HELLO it stands beside the password and takes microseconds to
check. One that does not fit is ignored: then the password decides.

A token ends after TOKEN_SECONDS, and with any change of its user's password or groups. The key is in the data
directory (mode 0600). Whoever can read that could make tokens, but could read and change the messages there as well;
deleting the file and restarting the broker ends all tokens.
"""

import hashlib
import hmac
import logging
import os
from pathlib import Path

from tidings.broker.logs import note
from tidings.broker.security.users import User

log = logging.getLogger("tidings.process")
TOKEN_SECONDS = 24 * 3600
KEY_BYTES, MAC_BYTES = 32, 24
FILE = "login.key"


class LoginTokens:
    """
    >>> tokens, alice = LoginTokens(bytes(32)), User("alice", "a hash")
    >>> token = tokens.make(1_000, alice)
    >>> tokens.fits(1_001, alice, token), tokens.fits(1_001, User("alice", "another"), token)
    (True, False)
    >>> tokens.fits(1_000 + TOKEN_SECONDS, alice, token), tokens.fits(1_001, alice, "")
    (False, False)
    """

    def __init__(self, key: bytes | None = None) -> None:
        """Without a key of its own it makes one, and tokens end with the process."""
        self._key = os.urandom(KEY_BYTES) if key is None else key

    @staticmethod
    def kept_in(data: Path) -> "LoginTokens":
        """With the key of this data directory, which is made at the first start."""
        try:
            data.mkdir(parents=True, exist_ok=True)
            return LoginTokens(_kept_key(data / FILE))
        except OSError as error:
            note(log, logging.WARNING, "clients cannot log in again cheaply", file=data / FILE, reason=error.strerror)
            return LoginTokens()

    def make(self, now_s: float, user: User) -> str:
        end = int(now_s) + TOKEN_SECONDS
        return f"{end:x}.{self._mac(end, user).hex()}"

    def fits(self, now_s: float, user: User, token: str) -> bool:
        end_text, _, mac = token.partition(".")
        try:
            end = int(end_text, 16)
            given = bytes.fromhex(mac)
        except ValueError:
            return False
        return now_s < end <= now_s + TOKEN_SECONDS and hmac.compare_digest(given, self._mac(end, user))

    def _mac(self, end: int, user: User) -> bytes:
        said = "\0".join((user.name, user.password, str(end), *sorted(user.groups)))
        return hashlib.blake2b(said.encode(errors="surrogatepass"), key=self._key, digest_size=MAC_BYTES).digest()


def _kept_key(path: Path) -> bytes:
    """A file that is too short, as after a power failure, is made again."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "r+b") as file:
        key = file.read()
        if len(key) != KEY_BYTES:
            key = os.urandom(KEY_BYTES)
            file.seek(0)
            file.truncate()
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
    return key
