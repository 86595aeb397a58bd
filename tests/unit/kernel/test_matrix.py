"""The encoded matrix: the contract, for every width and set of instructions; sets that split and join blocks."""

import random

import numpy as np
import pytest
from hardening.contracts.matrix import check_matrix
from hardening.contracts.reference_matrix import ReferenceMatrix, as_numbers
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.kernel.matrix import EncodedMatrix, Vectors, as_vectors

MAKERS = [EncodedMatrix, ReferenceMatrix]


@given(st.integers(0, 2**32), st.sampled_from([64, 192, 256, 1024]))
def test_contract(seed: int, bits: int) -> None:
    check_matrix(EncodedMatrix, random.Random(seed), bits=bits, steps=15)


def random_vectors(rng: np.random.Generator, count: int, ones: int, bits: int = 256) -> Vectors:
    positions = rng.integers(0, bits, (count, ones))
    vectors = np.zeros((count, bits // 64), dtype=np.uint64)
    np.bitwise_or.at(
        vectors, (np.arange(count)[:, None], positions // 64), np.uint64(1) << (positions % 64).astype(np.uint64)
    )
    return vectors


def brute_force(rows: Vectors, messages: Vectors) -> list[int]:
    return [int(((rows & ~message) == 0).all(axis=1).sum()) for message in messages]


@pytest.mark.parametrize("simd", [0, 1, 2])
def test_large_sets_with_every_instruction_set(simd: int) -> None:
    rng = np.random.default_rng(3)
    rows = np.unique(random_vectors(rng, 6000, 9), axis=0)
    messages = random_vectors(rng, 150, 180)
    matrix = EncodedMatrix(256)
    for start in range(0, len(rows), 10):  # few rows a router, so that nearly all are active
        matrix.add(start, rows[start : start + 10])
    assert brute_force(rows, messages) == [len(one) for one in matrix.match_rows(messages, simd=simd).lists()]
    rng.shuffle(rows)
    for router in range(0, len(rows), 10):
        matrix.remove(router, rows[:5500])
    assert brute_force(rows[5500:], messages) == [len(one) for one in matrix.match_rows(messages, simd=simd).lists()]
    assert matrix.row_count == len(rows) - 5500


@pytest.mark.parametrize("make", MAKERS)
def test_removing_a_cover_brings_back_what_it_covered(make: type[EncodedMatrix]) -> None:
    matrix = make(64)
    matrix.add(1, as_vectors([0b0001, 0b0011, 0b0111, 0b1001], 64))
    assert as_numbers(matrix.vectors(1, minimal=True)) == [0b0001]
    matrix.remove(1, as_vectors([0b0001], 64))
    assert sorted(as_numbers(matrix.vectors(1, minimal=True))) == [0b0011, 0b1001]
    assert matrix.match(as_vectors([0b0111, 0b0001], 64)).lists() == [[1], []]


@pytest.mark.parametrize("make", MAKERS)
def test_the_empty_vector_matches_everything(make: type[EncodedMatrix]) -> None:
    matrix = make(64)
    matrix.add(4, as_vectors([0, 3], 64))
    assert matrix.match(as_vectors([0, 5], 64)).lists() == [[4], [4]]
    assert matrix.match(as_vectors([], 64)).lists() == []


@pytest.mark.parametrize("make", MAKERS)
def test_wrong_arguments(make: type[EncodedMatrix]) -> None:
    for bits in (0, 63, -64, 2**15):
        with pytest.raises(UsageError, match="E_MATRIX_BITS"):
            make(bits)
    matrix = make(128)
    with pytest.raises(UsageError, match="E_MATRIX_SHAPE"):
        matrix.add(1, as_vectors([1], 64))
    with pytest.raises(UsageError, match="E_MATRIX_SHAPE"):
        matrix.match(np.zeros(2, dtype=np.uint64))
    with pytest.raises(UsageError, match="E_MATRIX_ROUTER"):
        matrix.add(2**32, as_vectors([1], 128))
    with pytest.raises(UsageError, match="E_MATRIX_ROUTER"):
        matrix.drop(-1)


def test_memory_grows_and_shrinks_with_the_rows() -> None:
    matrix = EncodedMatrix(256)
    empty = matrix.memory_bytes
    rows = random_vectors(np.random.default_rng(5), 4000, 12)
    matrix.add(1, rows)
    full = matrix.memory_bytes
    matrix.drop(1)
    assert empty < matrix.memory_bytes < full
    assert (matrix.row_count, matrix.active_row_count, matrix.router_count) == (0, 0, 0)
