"""hash64 of docs/wire.md in plain Python: the yardstick for everything in the kernel that hashes for the wire.

>>> hex(hash64(b"", 0)), hex(hash64(b"tidings", 1))
('0x293f502d8e037815', '0x1a3e41d6b01b4334')
"""

MASK = 2**64 - 1


def fold_multiply(a: int, b: int) -> int:
    """Both halves of the 128-bit product, laid on top of each other."""
    product = a * b
    return product & MASK ^ product >> 64


def hash64(data: bytes, seed: int) -> int:
    h = seed ^ (len(data) * 0x9E3779B97F4A7C15 & MASK)
    for start in range(0, len(data), 8):
        h = fold_multiply(h ^ int.from_bytes(data[start : start + 8], "little"), 0xD6E8FEB86659FD93)
    return fold_multiply(h ^ 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


def mix64(h: int) -> int:
    """A word whose every bit depends on every bit of `h`; no two words give the same."""
    h ^= h >> 33
    h = h * 0xFF51AFD7ED558CCD & MASK
    h ^= h >> 33
    h = h * 0xC4CEB9FE1A85EC53 & MASK
    return h ^ h >> 33
