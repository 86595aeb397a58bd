"""The encoded matrix: per router a set of M-bit vectors; which routers have one that is a subset of a message's vector?

Vectors are (n, M / 64) arrays of uint64; bit i of a vector is bit i % 64 of word i // 64.

>>> matrix = EncodedMatrix(bits=64)
>>> matrix.add(7, as_vectors([0b0011, 0b0111], 64))
2
>>> matrix.add(9, as_vectors([0b1000], 64))
1
>>> matrix.match(as_vectors([0b1011, 0b0001], 64)).lists()
[[7, 9], []]
>>> matrix.row_count, matrix.active_row_count  # 0b0111 adds nothing to 0b0011
(3, 2)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidings import _kernel
from tidings.errors import UsageError

Vectors: TypeAlias = NDArray[np.uint64]
ROUTER_MAX = 2**32 - 1
BITS_MAX = 2**14


def as_vectors(numbers: Iterable[int], bits: int) -> Vectors:
    """Vectors from whole numbers, whose binary digits they are."""
    data = b"".join(number.to_bytes(bits // 8, "little") for number in numbers)
    return np.frombuffer(data, dtype="<u8").reshape(-1, bits // 64).astype(np.uint64)


@dataclass(frozen=True, slots=True)
class Answers:
    """Results for n messages: for message i, `values[offsets[i] : offsets[i + 1]]`."""

    offsets: NDArray[np.uint64]
    values: NDArray[np.uint32]

    def __getitem__(self, message: int) -> NDArray[np.uint32]:
        return self.values[int(self.offsets[message]) : int(self.offsets[message + 1])]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lists(self) -> list[list[int]]:
        return [self[message].tolist() for message in range(len(self))]


def check_vectors(vectors: Vectors, bits: int) -> Vectors:
    if vectors.dtype != np.uint64 or vectors.ndim != 2 or vectors.shape[1] * 64 != bits:
        raise UsageError("E_MATRIX_SHAPE", f"{vectors.dtype} of shape {vectors.shape} are not vectors of {bits} bits")
    return np.ascontiguousarray(vectors)


def check_router(router: int) -> int:
    if not 0 <= router <= ROUTER_MAX:
        raise UsageError("E_MATRIX_ROUTER", f"{router} is not a router's number: it has 32 bits")
    return router


def check_bits(bits: int) -> int:
    if not 0 < bits <= BITS_MAX or bits % 64:
        raise UsageError("E_MATRIX_BITS", f"{bits} bits are not a multiple of 64 from 64 to {BITS_MAX}")
    return bits


class EncodedMatrix:
    """The kernel's matrix. Several threads may use it at once; calls release the GIL."""

    def __init__(self, bits: int = 256) -> None:
        self._matrix = _kernel.EncodedMatrix(check_bits(bits))

    @property
    def bits(self) -> int:
        return self._matrix.bits

    @property
    def router_count(self) -> int:
        return self._matrix.router_count

    @property
    def row_count(self) -> int:
        """Distinct vectors."""
        return self._matrix.row_count

    @property
    def active_row_count(self) -> int:
        """Distinct vectors that are searched: those that are minimal for some router."""
        return self._matrix.active_row_count

    @property
    def memory_bytes(self) -> int:
        return self._matrix.memory_bytes

    def add(self, router: int, vectors: Vectors) -> int:
        """Give a router more vectors; returns how many of them were new to it."""
        return self._matrix.add(check_router(router), check_vectors(vectors, self.bits))

    def remove(self, router: int, vectors: Vectors) -> int:
        """Take vectors from a router; returns how many of them it had. One without vectors is forgotten."""
        return self._matrix.remove(check_router(router), check_vectors(vectors, self.bits))

    def replace(self, router: int, vectors: Vectors) -> None:
        """Make these, and no others, the router's vectors."""
        self._matrix.replace(check_router(router), check_vectors(vectors, self.bits))

    def drop(self, router: int) -> bool:
        """Forget a router; False if it was not known."""
        return self._matrix.drop(check_router(router))

    def match(self, messages: Vectors, *, simd: int = 2) -> Answers:
        """For each message's vector the routers that have a subset of it, each once, ascending.

        `simd` limits the instructions used: 0 portable, 1 AVX2, 2 AVX-512."""
        return Answers(*self._matrix.match(check_vectors(messages, self.bits), False, simd))

    def match_rows(self, messages: Vectors, *, simd: int = 2) -> Answers:
        """For each message the numbers of all active rows that match, in no particular order."""
        return Answers(*self._matrix.match(check_vectors(messages, self.bits), True, simd))

    def vectors(self, router: int, *, minimal: bool = False) -> Vectors:
        """A router's vectors, or only those that contain no other; in no particular order."""
        return self._matrix.vectors(check_router(router), minimal).reshape(-1, self.bits // 64)
