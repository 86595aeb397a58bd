"""The kernel's tally counts as the plain one does, and refuses what is not there."""

import numpy as np
import pytest
from hardening.contracts.reference_tally import ReferenceTally

from tidings.errors import UsageError
from tidings.kernel.codec import MessageBatch, encode_messages
from tidings.kernel.tally import Tally
from tidings.matching.workload import Workload

SUMS = ("matched", "alone", "router_messages", "router_matches")


@pytest.mark.parametrize("seed", range(20))
def test_a_tally_is_the_plain_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    routers, subscriptions = int(rng.integers(1, 9)), int(rng.integers(1, 40))
    router_of = rng.integers(0, routers, subscriptions).astype(np.uint32)
    marks = rng.integers(0, 2**64, routers, dtype=np.uint64)
    kernel, plain = Tally(router_of, marks), ReferenceTally(router_of, marks)
    for _ in range(3):
        each = [rng.permutation(subscriptions)[: int(rng.integers(0, 5))] for _ in range(int(rng.integers(0, 30)))]
        offsets = np.cumsum([0, *map(len, each)]).astype(np.uint32)
        found = np.concatenate([np.empty(0), *each]).astype(np.uint32)
        for one, other in zip(kernel.add(offsets, found), plain.add(offsets, found), strict=True):
            assert one.tolist() == other.tolist()
    for name in SUMS:
        assert getattr(kernel, name).tolist() == getattr(plain, name).tolist()


def test_what_is_not_there_is_refused() -> None:
    none, one, two = (np.array(values, np.uint32) for values in ([], [0], [0, 2]))
    with pytest.raises(UsageError, match="E_TALLY_ROUTER"):
        Tally(np.array([3], np.uint32), np.zeros(3, np.uint64))
    tally = Tally(one, np.zeros(1, np.uint64))
    with pytest.raises(UsageError, match="E_TALLY_OFFSETS"):
        tally.add(none, one)
    with pytest.raises(UsageError, match="E_TALLY_OFFSETS"):
        tally.add(two, one)
    with pytest.raises(UsageError, match="E_TALLY_SUBSCRIPTION"):
        tally.add(two, np.array([0, 7], np.uint32))
    assert tally.matched.tolist() == [0]


def test_a_column_of_messages_is_a_batch_of_them() -> None:
    messages = Workload(1).messages(0, 20)
    encoded = [encode_messages([one])[4:] for one in messages]
    encoded[3] = b"broken"
    ends = np.cumsum([len(one) for one in encoded]).astype(np.uint64)
    batch = MessageBatch.from_column(b"".join(encoded), ends)
    assert [batch.message(i) for i in range(20) if i != 3] == [one for i, one in enumerate(messages) if i != 3]
    assert (len(batch), batch.broken) == (20, 1)
    assert "E_CODEC_TRUNCATED" in str(batch.error(3))
    short = MessageBatch.from_column(b"".join(encoded), ends, message_bytes_max=len(encoded[0]) - 1)
    assert "E_CODEC_LIMIT" in str(short.error(0))
    with pytest.raises(UsageError, match="E_BATCH_ENDS"):
        MessageBatch.from_column(b"abc", np.array([2, 4], np.uint64))
