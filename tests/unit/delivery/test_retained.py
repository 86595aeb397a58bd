"""Retained messages: limits by age and size, and what a restart makes of the pieces."""

import random

import pytest

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.message_cache import MessageCache
from tidings.delivery.retained import PIECES, RetainedMailbox, Retention
from tidings.errors import UsageError


def kept(*, bytes_max: int, age_ms: int = 0) -> RetainedMailbox:
    return RetainedMailbox(1, "retained:x", MessageCache(1 << 20), Retention(age_ms, bytes_max))


def test_size_and_age_are_held_to_within_a_piece() -> None:
    rng = random.Random(1)
    box, sizes, times = kept(age_ms=60_000, bytes_max=64_000), dict[int, int](), dict[int, int]()
    seq = 0
    for now_ms in range(1, 200_000, 1000):
        for _ in range(rng.choice([0, 1, 3, 40])):
            seq += rng.randrange(1, 4)  # other mailboxes take numbers too
            sizes[seq], times[seq] = rng.randrange(1, 900), now_ms
            box.offer(BacklogPosition(seq, rng.randrange(10)), size=sizes[seq])
        box.look(now_ms)
        if limit := box.over(now_ms):
            assert box.release(limit)
        here = box.after(0, 10**6)
        assert here == sorted(here)
        assert sum(sizes[one] for one in here) <= 64_000
        assert all(now_ms - times[one] <= 60_000 + 60_000 // PIECES + 1000 for one in here)
        gone = [one for one in sizes if one <= box.range[0]]
        assert set(gone).isdisjoint(here)
    assert len(box.after(0, 10**6)) > 30


def test_a_restart_goes_on_with_the_pieces_that_were_stored() -> None:
    box = kept(age_ms=10_000, bytes_max=6_400)
    for seq in range(1, 31):
        box.offer(BacklogPosition(seq, 4), size=100)
    box.look(5_000)
    marks = box.marks()
    box.offer(BacklogPosition(31, 4), size=50)  # after the last piece: its size is not known to the next process
    again = kept(age_ms=10_000, bytes_max=6_400)
    for seq in range(1, 32):
        again.offer(BacklogPosition(seq, 4))
    again.restore(marks, last_seq=40)
    assert again.range == (0, 31)
    again.look(15_000)
    assert again.over(15_000) == 0
    assert again.over(15_001) == 30
    again.look(16_000)
    assert again.over(25_001) == 30
    assert again.over(26_001) == 31


def test_marks_of_another_time_do_no_harm() -> None:
    old = kept(bytes_max=6_400)
    for seq in range(1, 20):
        old.offer(BacklogPosition(seq, 4), size=1000)
    old.look(1_000)
    new = kept(bytes_max=6_400)
    new.offer(BacklogPosition(50, 4), size=10)
    new.restore(old.marks(), last_seq=60)
    assert new.over(10**9) == 0
    assert new.range == (0, 50)


def restarted(box: RetainedMailbox, marks: bytes, *, last_seq: int, damaged: bool = False) -> RetainedMailbox:
    """What the next process makes of it, if it has stored these marks."""
    again = kept(bytes_max=box.retention.bytes_max, age_ms=box.retention.age_ms)
    for seq in box.after(0, 10**6):
        again.offer(BacklogPosition(seq, 4))
    again.restore(marks, last_seq, damaged=damaged)
    return again


def test_numbers_of_other_mailboxes_are_not_gone() -> None:
    box = kept(bytes_max=6_400)
    box.offer(BacklogPosition(5, 4), size=10)
    assert box.range == (0, 5), "nothing was dropped"
    assert box.release(5) == [5]
    box.offer(BacklogPosition(9, 4), size=10)
    assert box.range == (5, 9)
    assert box.release(7) == []
    assert box.range == (5, 9), "there was nothing at 6 and 7"
    box = restarted(box, box.marks(), last_seq=20)
    assert box.range == (5, 9)
    assert box.release(30) == [9]
    assert restarted(box, box.marks(), last_seq=40).range == (9, 9)


def test_without_marks_nothing_was_dropped() -> None:
    box = kept(bytes_max=6_400)
    box.offer(BacklogPosition(50, 4), size=10)
    assert restarted(box, b"", last_seq=60).range == (0, 50)


def test_where_marks_do_not_tell_all_below_the_oldest_counts_as_gone() -> None:
    box = kept(bytes_max=6_400)
    for seq in (5, 9, 12):
        box.offer(BacklogPosition(seq, 4), size=10)
    box.release(5)
    assert restarted(box, b"[[], 12]", last_seq=20).range == (8, 12), "as they were stored before"
    assert restarted(box, box.marks(), last_seq=20, damaged=True).range == (8, 12)
    box.release(12)
    assert restarted(box, b"[[], 12]", last_seq=20).range == (12, 12)


def test_a_message_that_was_given_up_is_gone_for_those_who_read_across_it() -> None:
    box = kept(bytes_max=6_400)
    for seq in (3, 5, 7, 9):
        box.offer(BacklogPosition(seq, 4), size=10)
    box.forget(5)
    for one in (box, restarted(box, box.marks(), last_seq=20)):
        assert one.range == (0, 9), "what is before it is still there"
        assert one.gone(0, 4) == 0
        assert [one.gone(after, 9) for after in (0, 3, 4)] == [5, 5, 5]
        assert one.gone(5, 9) == 0
        assert one.release(3) == [3]
        assert one.range == (5, 9)
        one.forget(7)
        assert one.range == (7, 9)


def test_limits_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="E_RETAIN_LIMIT"):
        Retention(bytes_max=3)
    with pytest.raises(UsageError, match="E_RETAIN_LIMIT"):
        Retention(age_ms=-1, bytes_max=1000)
