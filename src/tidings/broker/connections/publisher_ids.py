"""Numbers of publishers: unique, and not predictable from other numbers.

Repeated messages are recognized by their id, which begins with the publisher's number. A client that could guess the
number of another could use its ids first and so have its messages discarded as repetitions. So the numbers are a
counter permuted by a Feistel network under a random key of this process.
"""

import secrets
from collections.abc import Iterator
from hashlib import blake2b

PUBLISHER_MAX = (1 << 29) - 1  # the first three bits tell what came by AMQP, and how (docs/wire.md)
_HALF_BITS, _ROUNDS = 15, 4
_HALF = 1 << _HALF_BITS


def publisher_numbers() -> Iterator[int]:
    """An endless sequence; each number from 1 to PUBLISHER_MAX occurs once before any of them is repeated."""
    key = secrets.token_bytes(32)
    while True:
        for count in range(_HALF * _HALF):
            if 0 < (number := _shuffled(key, count)) <= PUBLISHER_MAX:
                yield number


def _shuffled(key: bytes, number: int) -> int:
    left, right = divmod(number, _HALF)
    for turn in range(_ROUNDS):
        mixed = blake2b(bytes((turn, right >> 8, right & 255)), digest_size=2, key=key).digest()
        left, right = right, left ^ (int.from_bytes(mixed) % _HALF)
    return left * _HALF + right
