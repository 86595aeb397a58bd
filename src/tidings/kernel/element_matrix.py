"""The encoded matrix for sets of elements: per router such sets; which routers have one that a message carries whole?

For graded encodings, whose messages carry hundreds of elements: too many for a vector of few bits. Messages come
as offsets and elements (`pack`), as `MessageEncoder.elements` gives them.

>>> matrix = ElementMatrix()
>>> matrix.add(7, [{1, 2}, {5}]), matrix.add(9, [{2, 3}])
(2, 1)
>>> matrix.match(pack([{1, 2, 3}, {5, 6}, {1}])).lists()
[[7, 9], [7], []]
"""

from collections.abc import Collection, Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidings import _kernel
from tidings.kernel.matrix import Answers, check_router

Packed: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.uint64]]


def pack(sets: Iterable[Collection[int]]) -> Packed:
    """Offsets and elements of some sets, in order."""
    ordered = [sorted(one) for one in sets]
    offsets = np.cumsum([0, *map(len, ordered)], dtype=np.uint64)
    return offsets, np.array([element for one in ordered for element in one], dtype=np.uint64)


class ElementMatrix:
    """Several threads may use it at once; calls release the GIL."""

    def __init__(self) -> None:
        self._matrix = _kernel.ElementMatrix()

    @property
    def router_count(self) -> int:
        return self._matrix.router_count

    @property
    def row_count(self) -> int:
        """Distinct sets."""
        return self._matrix.row_count

    @property
    def memory_bytes(self) -> int:
        return self._matrix.memory_bytes

    def add(self, router: int, sets: Collection[Collection[int]]) -> int:
        """Give a router more sets; returns how many of them were new to it."""
        return self._matrix.add(check_router(router), *pack(sets)) if sets else 0

    def remove(self, router: int, sets: Collection[Collection[int]]) -> int:
        """Take sets from a router; returns how many of them it had. One without sets is forgotten."""
        return self._matrix.remove(check_router(router), *pack(sets))

    def drop(self, router: int) -> bool:
        """Forget a router; False if it was not known."""
        return self._matrix.drop(check_router(router))

    def match(self, messages: Packed) -> Answers:
        """For each message the routers that have a set of which it carries all elements, each once, ascending."""
        return Answers(*self._matrix.match(*messages))
