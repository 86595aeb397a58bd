"""Bloom filters over message ids.

>>> history = BloomFilter(bits=65536, hashes=16)
>>> history.add(bytes(range(32)))
>>> history.contains(bytes(range(16, 48))).tolist(), history.count
([True, False], 2)
>>> BloomFilter.from_bytes(history.to_bytes()).contains(bytes(range(16))).tolist()
[True]
>>> f"{history.fpp(2521):.2e}"
'3.97e-06'
"""

from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidings import _kernel
from tidings.errors import UsageError

ID_BYTES = 16
BITS_MAX, HASHES_MAX = 2**36, 64
Ids: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]


def check_shape(bits: int, hashes: int) -> None:
    if not 0 < bits <= BITS_MAX or bits % 64:
        raise UsageError("E_BLOOM_SIZE", f"{bits} bits are not a multiple of 64 from 64 to 2^36")
    if not 0 < hashes <= HASHES_MAX:
        raise UsageError("E_BLOOM_HASHES", f"{hashes} hashes are not from 1 to {HASHES_MAX}")


def false_positive_probability(bits: int, hashes: int, n: int) -> float:
    """(1 − (1 − 1/m)^{kn})^k."""
    return float(-np.expm1(hashes * n * np.log1p(-1 / bits))) ** hashes


def as_ids(ids: Ids) -> NDArray[np.uint8]:
    """The ids as an (n, 16) array, without a copy where that is possible."""
    if isinstance(ids, np.ndarray):
        if ids.dtype != np.uint8 or ids.ndim != 2 or ids.shape[1] != ID_BYTES:
            raise UsageError("E_BLOOM_IDS", f"ids are an (n, 16) array of uint8, not {ids.shape} of {ids.dtype}")
        return np.ascontiguousarray(ids)
    flat = np.frombuffer(ids, dtype=np.uint8)
    if flat.size % ID_BYTES:
        raise UsageError("E_BLOOM_IDS", f"{flat.size} bytes are not a whole number of 16-byte ids")
    return flat.reshape(-1, ID_BYTES)


class BloomFilter:
    """A filter over 16-byte ids, which come as an (n, 16) array of bytes or as 16·n bytes.

    Calls release the GIL; a filter that is written must not be used by another thread. Filters of different seeds err
    independently."""

    def __init__(self, bits: int, hashes: int, seed: int = 0) -> None:
        check_shape(bits, hashes)
        self._filter = _kernel.Bloom(bits, hashes, seed)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote; anything else is a CodecError."""
        made = cls.__new__(cls)
        made._filter = _kernel.Bloom.from_bytes(bytes(data))
        return made

    @property
    def bits(self) -> int:
        return self._filter.bits

    @property
    def hashes(self) -> int:
        return self._filter.hashes

    @property
    def seed(self) -> int:
        return self._filter.seed

    @property
    def count(self) -> int:
        """Number of ids added, repetitions included; of a union the sum."""
        return self._filter.count

    @property
    def memory_bytes(self) -> int:
        return self._filter.memory_bytes

    def add(self, ids: Ids) -> None:
        self._filter.add(as_ids(ids))

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        """For each id: False if it was certainly not added, True if it was or (with probability `fpp`) was not."""
        array = as_ids(ids)
        found = np.empty(len(array), dtype=np.uint8)
        self._filter.contains(array, found)
        return found.view(np.bool_)

    def unite(self, other: Self) -> None:
        """Take in everything the other filter holds. Both must have the same bits, hashes and seed."""
        self._filter.unite(other._filter)

    def fill(self) -> float:
        """The share of bits that are set."""
        return self._filter.fill()

    def fpp(self, n: int | None = None) -> float:
        """The expected probability of a false positive with n ids (None: those added)."""
        return false_positive_probability(self.bits, self.hashes, self.count if n is None else n)

    def to_bytes(self) -> bytes:
        return self._filter.to_bytes()
