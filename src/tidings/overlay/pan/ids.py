"""Identifiers of Pan: numbers on a ring, read as digits of base 2^bits, the most significant first.

>>> EXPERIMENT_IDS.shared(0x12AB, 0x12CD), EXPERIMENT_IDS.digit(0x12AB, 2), EXPERIMENT_IDS.distance(0xFFFF, 1)
(2, 10, 2)
>>> EXPERIMENT_IDS.text(0x12AB), EXPERIMENT_IDS.hash("ticks") == EXPERIMENT_IDS.hash("ticks")
('12ab', True)
"""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from tidings.errors import UsageError
from tidings.overlay.effects import Router

ID_BITS_MAX = 256  # of the hash


class Contact(NamedTuple):
    """A node of the overlay and how to reach it."""

    id: int
    router: Router
    address: str = ""


@dataclass(frozen=True)
class IdSpace:
    digits: int
    bits: int  # of a digit
    width: int = field(init=False, repr=False)
    size: int = field(init=False, repr=False)
    base: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not (1 <= self.bits <= 8 and self.digits >= 1 and self.digits * self.bits <= ID_BITS_MAX):
            reason = (
                f"{self.digits} digits of {self.bits} bits; at most {ID_BITS_MAX} bits in digits of 1 to 8 are valid"
            )
            raise UsageError("E_PAN_IDS", reason)
        object.__setattr__(self, "width", self.digits * self.bits)
        object.__setattr__(self, "size", 1 << self.digits * self.bits)
        object.__setattr__(self, "base", 1 << self.bits)

    def shared(self, a: int, b: int) -> int:
        """Returns the number of leading digits that are the same."""
        return (self.width - (a ^ b).bit_length()) // self.bits

    def digit(self, id: int, row: int) -> int:
        return id >> (self.digits - 1 - row) * self.bits & self.base - 1

    def distance(self, a: int, b: int) -> int:
        """The shorter way round the ring."""
        far = a - b if a > b else b - a
        return min(far, self.size - far)

    def hash(self, text: str) -> int:
        return int.from_bytes(sha256(text.encode()).digest()) >> ID_BITS_MAX - self.width

    def text(self, id: int) -> str:
        return f"{id:0{(self.width + 3) // 4}x}"


EXPERIMENT_IDS = IdSpace(digits=4, bits=4)  # the paper's, its base corrected to that of its own figures
NETWORK_IDS = IdSpace(digits=32, bits=4)
