"""Bytes and texts that are almost right.

>>> mutated(Random(1), b"abc", [b"xyz"]) == mutated(Random(1), b"abc", [b"xyz"])
True
"""

from collections.abc import Sequence
from random import Random

INPUT_BYTES_MAX = 1 << 16
BORDERS = bytes((0, 1, 2, 3, 7, 9, 10, 13, 0x1F, 0x20, 0x7F, 0x80, 0x81, 0xBF, 0xC0, 0xED, 0xF4, 0xFE, 0xFF))


def mutated(rng: Random, data: bytes, others: Sequence[bytes], steps: Sequence[int] = (1, 1, 2, 3, 8)) -> bytes:
    """A few changes at random places; `others`: inputs of which pieces may be put in."""
    made = bytearray(data)
    for _ in range(rng.choice(steps)):
        _change(rng, made, others)
    return bytes(made[:INPUT_BYTES_MAX])


def _change(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at, length = rng.randint(0, len(data)), rng.randrange(1, 20)
    what = rng.randrange(8)
    if at == len(data) and what < 4:
        what = 4
    match what:
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at] = rng.randrange(256)
        case 2:
            data[at] = rng.choice(BORDERS)
        case 3:
            del data[at : at + length]
        case 4:
            data[at:at] = rng.randbytes(rng.randrange(1, 5))
        case 5:
            data[at:at] = data[at : at + length]
        case 6:
            del data[at:]
        case _:
            other = rng.choice(others)
            start = rng.randint(0, len(other))
            data[at : at + length] = other[start : start + rng.randrange(1, 64)]
