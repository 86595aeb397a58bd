"""The Bloom filter of docs/wire.md in plain Python: one big integer of bits, and nothing clever."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from tidings.errors import CodecError, UsageError
from tidings.kernel.bloom import BITS_MAX, HASHES_MAX, Ids, as_ids, check_shape, false_positive_probability
from tidings.kernel.hash64 import MASK, hash64, mix64

HEADER_BYTES, SEED_BYTES = 24, 8
COUNT_MAX = 2**64 - 1


def positions(one: bytes, bits: int, hashes: int, seed: int = 0) -> list[int]:
    """Positions of an id's k bits.

    >>> positions(bytes(range(16)), 64, 4)
    [56, 54, 19, 15]
    """
    h1 = hash64(one, seed)
    h2 = mix64(h1)
    h3 = mix64(h2)
    return [((h1 + i * h2 + i * (i - 1) // 2 * h3 & MASK) * bits) >> 64 for i in range(hashes)]


class ReferenceBloomFilter:
    def __init__(self, bits: int, hashes: int, seed: int = 0) -> None:
        check_shape(bits, hashes)
        self.bits, self.hashes, self.seed, self.count = bits, hashes, seed, 0
        self._set = 0

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        if len(data) < HEADER_BYTES:
            raise CodecError("E_BLOOM_SHORT", "a Bloom filter has a header of 24 bytes", position=len(data))
        if data[:4] not in (b"TBF2", b"TBF3"):
            raise CodecError("E_BLOOM_MAGIC", "not a Bloom filter", position=0)
        header = HEADER_BYTES + (SEED_BYTES if data[:4] == b"TBF3" else 0)
        if len(data) < header:
            raise CodecError("E_BLOOM_SHORT", "a Bloom filter with a seed has a header of 32 bytes", position=len(data))
        seed = int.from_bytes(data[HEADER_BYTES:header], "little")
        if header > HEADER_BYTES and not seed:
            raise CodecError("E_BLOOM_SEED", "a filter with the seed 0 is written without it", position=HEADER_BYTES)
        hashes, bits, count = (int.from_bytes(data[a:b], "little") for a, b in ((4, 8), (8, 16), (16, 24)))
        if not 0 < hashes <= HASHES_MAX:
            raise CodecError("E_BLOOM_HASHES", "k is not from 1 to 64", position=4)
        if not 0 < bits <= BITS_MAX or bits % 64:
            raise CodecError("E_BLOOM_SIZE", "m is not a multiple of 64 from 64 to 2^36", position=8)
        expected = header + bits // 8
        if len(data) < expected:
            raise CodecError("E_BLOOM_SHORT", "fewer bits than the header says", position=len(data))
        if len(data) > expected:
            raise CodecError("E_BLOOM_LONG", "bytes after the last bit", position=expected)
        made = cls(bits, hashes, seed)
        made.count, made._set = count, int.from_bytes(data[header:], "little")
        return made

    @property
    def memory_bytes(self) -> int:
        return self.bits // 8

    def add(self, ids: Ids) -> None:
        array = as_ids(ids)
        for one in array:
            for position in positions(one.tobytes(), self.bits, self.hashes, self.seed):
                self._set |= 1 << position
        self.count = min(self.count + len(array), COUNT_MAX)

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        array = as_ids(ids)
        return np.array([self._holds(one.tobytes()) for one in array], dtype=np.bool_)

    def _holds(self, one: bytes) -> bool:
        return all(self._set >> position & 1 for position in positions(one, self.bits, self.hashes, self.seed))

    def unite(self, other: Self) -> None:
        if other.seed != self.seed:
            raise UsageError("E_BLOOM_MISMATCH", "filters of different seeds have no union")
        if (other.bits, other.hashes) != (self.bits, self.hashes):
            raise UsageError(
                "E_BLOOM_MISMATCH",
                f"filters of (m, k) = ({self.bits}, {self.hashes}) and ({other.bits}, {other.hashes}) have no union",
            )
        self._set |= other._set
        self.count = min(self.count + other.count, COUNT_MAX)

    def fill(self) -> float:
        return self._set.bit_count() / self.bits

    def fpp(self, n: int | None = None) -> float:
        return false_positive_probability(self.bits, self.hashes, self.count if n is None else n)

    def to_bytes(self) -> bytes:
        header = self.hashes.to_bytes(4, "little") + self.bits.to_bytes(8, "little") + self.count.to_bytes(8, "little")
        seed = self.seed.to_bytes(SEED_BYTES, "little") if self.seed else b""
        return (b"TBF3" if seed else b"TBF2") + header + seed + self._set.to_bytes(self.bits // 8, "little")
