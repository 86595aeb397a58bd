"""The matrix of element sets, against sets of sets."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.kernel.element_matrix import ElementMatrix, pack

Sets = set[frozenset[int]]


def some_sets(rng: random.Random) -> Sets:
    return {frozenset(rng.sample(range(12), rng.choice((0, 1, 2, 2, 3, 7)))) for _ in range(rng.randrange(8))}


def check_same(matrix: ElementMatrix, plain: dict[int, Sets], rng: random.Random) -> None:
    messages = [set(rng.sample(range(14), rng.randrange(13))) for _ in range(4)]
    expected = [
        [router for router in sorted(plain) if any(one <= message for one in plain[router])] for message in messages
    ]
    assert matrix.match(pack(messages)).lists() == expected
    assert matrix.router_count == len(plain)
    assert matrix.row_count == len(set().union(*plain.values()))


@given(st.integers(0, 2**32))
def test_random_changes(seed: int) -> None:
    rng = random.Random(seed)
    matrix, plain = ElementMatrix(), dict[int, Sets]()
    for _ in range(20):
        router, sets = rng.randrange(5), some_sets(rng)
        own = plain.get(router, set())
        match rng.randrange(5):
            case 0 | 1:
                assert matrix.add(router, sets) == len(sets - own)
                plain[router] = own | sets
            case 2 | 3:
                gone = sets | set(rng.sample(sorted(own, key=sorted), len(own) // 2))
                assert matrix.remove(router, gone) == len(own & gone)
                plain[router] = own - gone
            case _:
                assert matrix.drop(router) == (router in plain)
                plain.pop(router, None)
        if not plain.get(router, True):
            del plain[router]
        check_same(matrix, plain, rng)


def test_wrong_sets() -> None:
    matrix = ElementMatrix()
    for offsets, elements in (([], []), ([1, 2], [5, 6]), ([0, 3], [1]), ([0, 2, 1, 2], [1, 2])):
        with pytest.raises(UsageError, match="E_MATRIX_SETS"):
            matrix.match((np.array(offsets, dtype=np.uint64), np.array(elements, dtype=np.uint64)))
    with pytest.raises(UsageError, match="E_MATRIX_SETS"):
        matrix.add(1, [[3, 3]])
    with pytest.raises(UsageError, match="E_MATRIX_ROUTER"):
        matrix.drop(2**32)


def test_memory_is_reported() -> None:
    matrix = ElementMatrix()
    before = matrix.memory_bytes
    matrix.add(1, [{n, n + 1, n * 7 + 3} for n in range(1000)])
    assert matrix.memory_bytes > before + 1000 * 20
