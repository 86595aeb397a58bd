"""The contract of an encoded matrix: after any changes, in any order, it answers as the reference does."""

import random
from collections.abc import Callable

from hardening.contracts.reference_matrix import ReferenceMatrix, as_numbers
from tidings.kernel.matrix import EncodedMatrix, Vectors, as_vectors


def check_matrix(
    make: Callable[[int], EncodedMatrix | ReferenceMatrix], rng: random.Random, *, bits: int = 64, steps: int = 60
) -> None:
    """Random additions, removals, replacements and drops on `make(bits)` and on the reference, compared after each."""
    matrix, reference = make(bits), ReferenceMatrix(bits)
    vectors = _Vectors(rng, bits)
    for _ in range(steps):
        router = rng.randrange(6)
        match rng.randrange(8):
            case 0 | 1 | 2:
                some = vectors.some(12)
                assert matrix.add(router, some) == reference.add(router, some)
            case 3 | 4:
                some = vectors.some(12)
                assert matrix.remove(router, some) == reference.remove(router, some)
            case 5:
                known = sorted(as_numbers(reference.vectors(router, minimal=True)))
                gone = as_vectors(rng.sample(known, min(len(known), 3)), bits)
                assert matrix.remove(router, gone) == reference.remove(router, gone)
            case 6:
                some = vectors.some(20)
                matrix.replace(router, some)
                reference.replace(router, some)
            case _:
                assert matrix.drop(router) == reference.drop(router)
        _check_same(matrix, reference, vectors.messages(5))


def _check_same(matrix: EncodedMatrix | ReferenceMatrix, reference: ReferenceMatrix, messages: Vectors) -> None:
    assert matrix.match(messages).lists() == reference.match(messages).lists()
    assert matrix.router_count == reference.router_count
    assert matrix.row_count == reference.row_count
    assert matrix.active_row_count == reference.active_row_count
    for router in range(6):
        for minimal in (False, True):
            found = sorted(as_numbers(matrix.vectors(router, minimal=minimal)))
            assert found == sorted(as_numbers(reference.vectors(router, minimal=minimal)))


class _Vectors:
    """Vectors made of a few elements of three bits, so that many contain each other and many are equal."""

    def __init__(self, rng: random.Random, bits: int) -> None:
        self._rng, self._bits = rng, bits
        self._elements = [sum(1 << rng.randrange(bits) for _ in range(3)) % 2**bits for _ in range(9)]

    def _union(self, count: int) -> int:
        union = 0
        for element in self._rng.sample(self._elements, count):
            union |= element
        return union

    def some(self, most: int) -> Vectors:
        count = self._rng.randrange(most + 1)
        return as_vectors([self._union(self._rng.choice((0, 1, 2, 2, 3, 3, 4))) for _ in range(count)], self._bits)

    def messages(self, count: int) -> Vectors:
        return as_vectors([self._union(self._rng.randrange(8)) for _ in range(count)], self._bits)
