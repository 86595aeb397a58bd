"""The kernel's Bloom filter: bit for bit the reference's, never a false negative, as precise as the formula says."""

import numpy as np
import pytest
from hardening.contracts.reference_bloom import ReferenceBloomFilter
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidings.errors import CodecError, UsageError
from tidings.kernel.bloom import BloomFilter, false_positive_probability

ids = st.lists(st.binary(min_size=16, max_size=16), max_size=60).map(b"".join)
shapes = st.tuples(st.integers(1, 40).map(lambda words: 64 * words), st.integers(1, 64))

# tracking.md: n, m, k and the false-positive probability the formula gives.
CONFIGURATIONS = [
    (2521, 65536, 16, 3.97e-6),
    (5461, 65536, 8, 3.14e-3),
    (7281, 65536, 8, 1.45e-2),
    (38836, 1048576, 12, 4.56e-6),
    (87381, 1048576, 6, 3.71e-3),
    (131072, 1048576, 6, 2.16e-2),
]


def random_ids(seed: int, n: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (n, 16), dtype=np.uint8)


@given(shapes, ids, ids)
def test_kernel_and_reference_agree_bit_for_bit(shape: tuple[int, int], added: bytes, asked: bytes) -> None:
    kernel, reference = BloomFilter(*shape), ReferenceBloomFilter(*shape)
    kernel.add(added)
    reference.add(added)
    assert kernel.to_bytes() == reference.to_bytes()
    assert kernel.contains(asked).tolist() == reference.contains(asked).tolist()
    assert (kernel.count, kernel.fill(), kernel.fpp()) == (reference.count, reference.fill(), reference.fpp())


@given(shapes, ids)
def test_no_false_negatives(shape: tuple[int, int], added: bytes) -> None:
    kernel = BloomFilter(*shape)
    kernel.add(added)
    assert kernel.contains(added).all()
    assert BloomFilter.from_bytes(kernel.to_bytes()).contains(added).all()


def test_no_false_negatives_in_a_filter_larger_than_the_cache() -> None:
    added, kernel = random_ids(1, 100_000), BloomFilter(2**26, 16)
    kernel.add(added)
    assert kernel.contains(added).all()
    assert not kernel.contains(random_ids(2, 100_000)).any()


@given(shapes, ids, ids)
def test_union_holds_both(shape: tuple[int, int], left: bytes, right: bytes) -> None:
    both, one, other = BloomFilter(*shape), BloomFilter(*shape), BloomFilter(*shape)
    both.add(left + right)
    one.add(left)
    other.add(right)
    one.unite(other)
    assert one.to_bytes() == both.to_bytes()


@pytest.mark.parametrize("make", [BloomFilter, ReferenceBloomFilter])
def test_no_union_of_different_shapes(make: type[BloomFilter]) -> None:
    with pytest.raises(UsageError, match=r"E_BLOOM_MISMATCH.*\(128, 3\) and \(128, 4\)"):
        make(128, 3).unite(make(128, 4))
    with pytest.raises(UsageError, match="E_BLOOM_MISMATCH"):
        make(128, 3).unite(make(192, 3))


@pytest.mark.parametrize(("n", "bits", "hashes", "expected"), CONFIGURATIONS)
def test_false_positives_are_as_rare_as_the_formula_says(n: int, bits: int, hashes: int, expected: float) -> None:
    assert false_positive_probability(bits, hashes, n) == pytest.approx(expected, rel=4e-3)
    queries, filters = 500_000, 4
    found = 0
    for seed in range(filters):
        kernel = BloomFilter(bits, hashes)
        kernel.add(random_ids(2 * seed + 1, n))
        found += int(kernel.contains(random_ids(2 * seed + 2, queries)).sum())
    mean = queries * filters * kernel.fpp()
    # The fill varies between filters too: by the delta method its share of the rate's deviation is k·σ(fill)/fill.
    fill = kernel.fill()
    between = mean * hashes * np.sqrt(fill * (1 - fill) / bits) / fill / np.sqrt(filters)
    assert abs(found - mean) <= 4 * np.hypot(np.sqrt(mean), between)


@given(st.binary(max_size=120))
def test_any_bytes_are_a_filter_or_a_codec_error(data: bytes) -> None:
    assert_same_verdict(data)


@given(shapes, ids, st.integers(0, 30), st.integers(0, 255), st.integers(-3, 3))
def test_damaged_filters_get_the_reference_s_verdict(
    shape: tuple[int, int], added: bytes, place: int, byte: int, cut: int
) -> None:
    reference = ReferenceBloomFilter(*shape)
    reference.add(added)
    data = bytearray(reference.to_bytes())
    data[place] = byte
    assert_same_verdict(bytes(data[:cut] if cut < 0 else data + bytes(cut)))


def verdict(make: type[BloomFilter] | type[ReferenceBloomFilter], data: bytes) -> bytes | tuple[str, int | None]:
    try:
        return make.from_bytes(data).to_bytes()
    except CodecError as error:
        return error.code, error.position


def assert_same_verdict(data: bytes) -> None:
    found = verdict(BloomFilter, data)
    assert found == verdict(ReferenceBloomFilter, data)
    if isinstance(found, bytes):
        assert found == data
    else:
        assert found[1] in range(len(data) + 1)


def test_a_claimed_size_is_not_believed() -> None:
    header = b"TBF2" + (4).to_bytes(4, "little") + (2**36).to_bytes(8, "little") + bytes(8)
    with pytest.raises(CodecError, match="E_BLOOM_SHORT at 34"):
        BloomFilter.from_bytes(header + bytes(10))


@pytest.mark.parametrize("make", [BloomFilter, ReferenceBloomFilter])
@pytest.mark.parametrize("shape", [(0, 4), (65, 4), (-64, 4), (2**37, 4), (64, 0), (64, 65), (64, -1)])
def test_impossible_shapes(make: type[BloomFilter], shape: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match=r"E_BLOOM_(SIZE|HASHES)"):
        make(*shape)


def test_ids_come_as_bytes_or_as_rows() -> None:
    kernel = BloomFilter(64, 2)
    with pytest.raises(UsageError, match="E_BLOOM_IDS"):
        kernel.add(bytes(17))
    with pytest.raises(UsageError, match="E_BLOOM_IDS"):
        kernel.contains(np.zeros((3, 15), dtype=np.uint8))
    rows = random_ids(1, 20)
    kernel.add(rows[::2])
    assert kernel.contains(rows[::2].tobytes()).all()
    assert kernel.contains(b"").shape == (0,)


def test_memory_is_the_bits_and_little_more() -> None:
    assert 65536 // 8 <= BloomFilter(65536, 16).memory_bytes < 65536 // 8 + 200
    assert ReferenceBloomFilter(65536, 16).memory_bytes == 65536 // 8
