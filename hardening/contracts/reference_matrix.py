"""The encoded matrix in plain Python: sets of whole numbers, compared one by one."""

import numpy as np

from tidings.kernel.matrix import Answers, Vectors, as_vectors, check_bits, check_router, check_vectors
from tidings.matching.encoding import minimal_vectors


def as_numbers(vectors: Vectors) -> list[int]:
    """The inverse of `as_vectors`."""
    return [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in vectors]


class ReferenceMatrix:
    def __init__(self, bits: int = 256) -> None:
        self.bits = check_bits(bits)
        self._routers: dict[int, set[int]] = {}

    @property
    def router_count(self) -> int:
        return len(self._routers)

    @property
    def row_count(self) -> int:
        return len(set().union(*self._routers.values()))

    @property
    def active_row_count(self) -> int:
        return len(set().union(*map(minimal_vectors, self._routers.values())))

    @property
    def memory_bytes(self) -> int:
        return sum(map(len, self._routers.values())) * self.bits // 8

    def add(self, router: int, vectors: Vectors) -> int:
        more = self._numbers(vectors)
        own = self._routers.get(check_router(router), set())
        if more:
            self._routers[router] = own | more
        return len(more - own)

    def remove(self, router: int, vectors: Vectors) -> int:
        own, gone = self._routers.get(check_router(router), set()), self._numbers(vectors)
        self._set(router, own - gone)
        return len(own & gone)

    def replace(self, router: int, vectors: Vectors) -> None:
        self._set(check_router(router), self._numbers(vectors))

    def drop(self, router: int) -> bool:
        return self._routers.pop(check_router(router), None) is not None

    def match(self, messages: Vectors) -> Answers:
        offsets, values = [0], []
        for message in as_numbers(check_vectors(messages, self.bits)):
            values += [
                router
                for router in sorted(self._routers)
                if any(vector & ~message == 0 for vector in self._routers[router])
            ]
            offsets.append(len(values))
        return Answers(np.array(offsets, dtype=np.uint64), np.array(values, dtype=np.uint32))

    def vectors(self, router: int, *, minimal: bool = False) -> Vectors:
        own = self._routers.get(check_router(router), set())
        return as_vectors(minimal_vectors(own) if minimal else own, self.bits)

    def _numbers(self, vectors: Vectors) -> set[int]:
        return set(as_numbers(check_vectors(vectors, self.bits)))

    def _set(self, router: int, vectors: set[int]) -> None:
        if vectors:
            self._routers[router] = vectors
        else:
            self._routers.pop(router, None)
