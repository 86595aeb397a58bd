"""Ranges of numbers against a plain set."""

from random import Random

import pytest

from tidings.model.reader import Reader
from tidings.node.network.number_ranges import NumberRanges


@pytest.mark.parametrize("seed", range(40))
def test_ranges_hold_what_a_set_holds(seed: int) -> None:
    rng = Random(seed)
    ranges_max = rng.choice((1, 2, 5, 1000))
    ranges, plain = NumberRanges(ranges_max), set[int]()
    for _ in range(200):
        number = rng.randint(1, 60)
        if rng.random() < 0.7:
            ranges.add(number)
            plain.add(number)
        else:
            ranges.discard(number)
            plain.discard(number)
        assert len(ranges.ranges) <= ranges_max
        assert all(before[1] + 1 < after[0] for before, after in zip(ranges.ranges, ranges.ranges[1:], strict=False))
        for one in range(1, 62):
            assert one <= ranges.closed or (one in ranges) == (one in plain)
        out = bytearray()
        ranges.encode(out)
        again = NumberRanges(ranges_max)
        again.decode(Reader(bytes(out), family="CONTROL"))
        assert (again.ranges, again.closed) == (ranges.ranges, ranges.closed)
        ranges = again
    assert ranges_max < 1000 or ranges.closed == 0


def test_what_comes_in_order_is_one_range() -> None:
    ranges = NumberRanges(ranges_max=3)
    for number in range(1, 1000):
        ranges.add(number)
    assert (ranges.ranges, ranges.closed) == ([(1, 999)], 0)
