"""Numbers of publishers: none twice, and none that can be told from others.

A message is known again by its id, which begins with its publisher's number. Whoever could guess another's number could
send ids before that one does, and have its messages taken for repetitions. So the numbers are a count that is shuffled
by a Feistel network under a key of this process, which is a permutation whatever its rounds are.
"""

import secrets
from collections.abc import Iterator
from hashlib import blake2b

PUBLISHER_MAX = (1 << 29) - 1  # the first three bits tell what came by AMQP, and how (docs/wire.md)
_HALF_BITS, _ROUNDS = 15, 4
_HALF = 1 << _HALF_BITS


def publisher_numbers() -> Iterator[int]:
    """Without end; each from 1 to PUBLISHER_MAX once before any of them comes again."""
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
