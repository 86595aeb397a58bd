"""Which ids are known, against two plain sets that take turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.kernel.recent_ids import RecentIds

IDS = st.one_of(st.integers(0, 40).map(lambda number: number.to_bytes(16)), st.binary(min_size=16, max_size=16))


@given(st.integers(1, 12), st.lists(IDS, max_size=120))
def test_the_last_ones_are_known(least: int, ids: list[bytes]) -> None:
    recent = RecentIds(least)
    young, old = set[bytes](), set[bytes]()
    for one in ids:
        if len(young) >= least:
            young, old = set(), young
        young.add(one)
        recent.add(one)
        assert [other for other in {*ids, bytes(16)} if other in recent] == [
            other for other in {*ids, bytes(16)} if other in young or other in old
        ]


def test_many_alike() -> None:
    recent = RecentIds()
    ids = [b"publisher" + number.to_bytes(7) for number in range(150_000)]
    for one in ids:
        recent.add(one)
    assert all(one in recent for one in ids[50_000:])
    assert b"publisher" + (150_000).to_bytes(7) not in recent


@pytest.mark.parametrize("id", [b"", bytes(15), bytes(17)])
def test_an_id_has_sixteen_bytes(id: bytes) -> None:
    recent = RecentIds()
    with pytest.raises(UsageError, match="16 bytes"):
        recent.add(id)
    with pytest.raises(UsageError, match="16 bytes"):
        assert id not in recent


@pytest.mark.parametrize("least", [0, (1 << 24) + 1])
def test_a_limit(least: int) -> None:
    with pytest.raises(UsageError, match="1 to"):
        RecentIds(least)
