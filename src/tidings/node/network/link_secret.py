"""Proof that both ends of a link know the network's secret, without saying it.

Each end sends a challenge (32 random bytes), and answers the other's with a keyed hash over both challenges and its own
role. Different roles, so that nobody can pass the test by sending back what it was sent; both challenges, so that no
old answer fits. It authenticates the peer when the connection begins; against those who change bytes on the way, use
TLS.

>>> here, there = Handshake(b"secret", dialled=True, challenge=b"1" * 32), Handshake(b"secret", False, b"2" * 32)
>>> there.check(here.answer(there.challenge), here.challenge), here.check(there.answer(here.challenge), there.challenge)
(True, True)
>>> here.check(here.answer(there.challenge), there.challenge)  # its own words
False
"""

import hashlib
import hmac
from dataclasses import dataclass, field

CHALLENGE_FRAME, PROOF_FRAME = 0x42, 0x43
CHALLENGE_BYTES = 32


@dataclass(frozen=True, slots=True)
class Handshake:
    secret: bytes = field(repr=False)
    dialled: bool
    challenge: bytes  # ours

    def answer(self, theirs: bytes) -> bytes:
        """The proof of this broker for the other end."""
        return self._proof(self.dialled, theirs)

    def check(self, proof: bytes, theirs: bytes) -> bool:
        """True if this proves the identity of the other end."""
        return hmac.compare_digest(proof, self._proof(not self.dialled, theirs))

    def _proof(self, dialled: bool, theirs: bytes) -> bytes:
        first, second = (self.challenge, theirs) if self.dialled else (theirs, self.challenge)
        role = b"dialled" if dialled else b"accepted"
        return hmac.digest(self.secret, b"tidings link " + role + first + second, hashlib.sha256)
