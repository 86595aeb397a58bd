"""hash64 of docs/wire.md in plain Python: the yardstick for everything in the kernel that hashes for the wire.

>>> hex(hash64(b"", 0)), hex(hash64(b"tidings", 1))
('0x0', '0x29c8d8573f994d44')
"""

MASK = 2**64 - 1


def mix64(h: int) -> int:
    h ^= h >> 33
    h = h * 0xFF51AFD7ED558CCD & MASK
    h ^= h >> 33
    h = h * 0xC4CEB9FE1A85EC53 & MASK
    return h ^ h >> 33


def hash64(data: bytes, seed: int) -> int:
    h = seed ^ (len(data) * 0x9E3779B97F4A7C15 & MASK)
    for start in range(0, len(data), 8):
        h = (h ^ int.from_bytes(data[start : start + 8], "little")) * 0xD6E8FEB86659FD93 & MASK
        h ^= h >> 32
    return mix64(h)
