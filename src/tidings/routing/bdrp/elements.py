"""Encoded rows that are sets of elements: their bytes, ascending, 8 each.

>>> elements(element_row({3, 1}))
[1, 3]
"""

import struct
from collections.abc import Iterable

ELEMENT_BYTES = 8


def element_row(elements: Iterable[int]) -> bytes:
    return b"".join(one.to_bytes(ELEMENT_BYTES, "little") for one in sorted(elements))


def elements(row: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(row) // ELEMENT_BYTES}Q", row))
