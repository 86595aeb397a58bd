"""What leaves for the disk together, and when."""

from functools import partial

import pytest

from tidings.delivery.store import NAME_BYTES_MAX, Acked, Detached, MailboxAdded, Note, Stored
from tidings.errors import StoreError, UsageError
from tidings.node.journal import CHANGES_BYTES_MAX, LATER_MAX, Journal


def test_a_change_nobody_waits_for_goes_with_the_next_batch() -> None:
    journal = Journal()
    journal.later(Acked(1, (1,)))
    assert journal.flush() == []
    assert not journal.idle
    journal.message(Stored(2, b"m", (1,)), 1)
    (persist,) = journal.flush()
    assert persist.records == (Acked(1, (1,)), Stored(2, b"m", (1,)))
    journal.finished(persist.ticket, None)
    assert journal.idle


def test_or_when_told_to_write_all() -> None:
    journal = Journal()
    journal.later(Acked(1, (1,)))
    (persist,) = journal.flush(retry=True)
    assert persist.records == (Acked(1, (1,)),)


def test_or_when_somebody_waits_after_all() -> None:
    journal, told = Journal(), []
    journal.later(Acked(1, (1,)))
    journal.then(lambda: told.append("done"))
    (persist,) = journal.flush()
    assert told == []
    journal.finished(persist.ticket, None)
    assert told == ["done"]


def test_or_with_an_urgent_change_behind_it() -> None:
    journal = Journal()
    journal.later(Acked(1, (1,)))
    journal.change(Detached(1))
    (persist,) = journal.flush()
    assert persist.records == (Acked(1, (1,)), Detached(1))


def test_or_when_there_are_many() -> None:
    journal = Journal()
    for seq in range(1, LATER_MAX):
        journal.later(Acked(1, (seq,)))
    assert journal.flush() == []
    journal.later(Acked(1, (LATER_MAX,)))
    (persist,) = journal.flush()
    assert len(persist.records) == LATER_MAX


def test_nothing_to_write_is_done_at_once() -> None:
    journal, told = Journal(), []
    journal.then(lambda: told.append("done"))
    assert journal.flush() == []
    assert told == ["done"]


def test_what_failed_is_written_before_the_rest() -> None:
    journal = Journal()
    journal.change(Detached(1))
    (persist,) = journal.flush()
    journal.finished(persist.ticket, StoreError("E_STORE_FULL", "no space"))
    assert journal.flush() == []
    journal.later(Acked(2, (1,)))
    (again,) = journal.flush(retry=True)
    assert again.records == (Detached(1), Acked(2, (1,)))


def test_who_waits_for_nothing_of_its_own_waits_for_what_is_under_way() -> None:
    journal, told = Journal(), []
    journal.message(Stored(1, b"m", (1,)), 1)
    (persist,) = journal.flush()
    journal.then(lambda: told.append("done"))
    assert journal.flush() == []
    assert told == []
    journal.finished(persist.ticket, None)
    assert journal.flush() == []
    assert told == ["done"]


def test_and_for_changes_that_could_not_be_written() -> None:
    journal, told = Journal(), []
    journal.change(Detached(1))
    (persist,) = journal.flush()
    journal.finished(persist.ticket, StoreError("E_STORE_FULL", "no room"))
    journal.then(lambda: told.append("done"))
    (again,) = journal.flush()
    assert again.records == (Detached(1),)
    assert told == []
    journal.finished(again.ticket, None)
    assert told == ["done"]


def test_what_rests_on_the_batch_before_is_asked_for_when_its_fate_is_known() -> None:
    journal, notes = Journal(), [Note("a", b"1")]
    journal.message(Stored(1, b"m", (1,)), 1)
    (persist,) = journal.flush()
    journal.message(lambda: notes, 0)
    assert journal.flush() == []
    notes[:] = [Note("a", b"2")]
    journal.finished(persist.ticket, StoreError("E_STORE_FULL", "no room"))
    (after,) = journal.flush()
    assert after.records == (Note("a", b"2"),)


def test_what_no_store_can_keep_does_not_hold_up_the_rest() -> None:
    journal, told = Journal(), []
    journal.change(Detached(1))
    journal.change(MailboxAdded(2, "d" * (NAME_BYTES_MAX + 1), "durable"))
    journal.then(lambda: None, lambda error: told.append(error.code))
    (persist,) = journal.flush()
    journal.finished(persist.ticket, UsageError("E_STORE_RECORD", "cannot be stored"))
    assert told == ["E_STORE_RECORD"]
    (again,) = journal.flush(retry=True)
    assert again.records == (Detached(1),)


def test_changes_do_not_wait_behind_messages_that_cannot_be_written() -> None:
    journal, told = Journal(), []
    journal.change(Acked(1, (1,)))
    journal.then_changed(lambda: told.append("freed"), lambda _: told.append("not freed"))
    journal.message(Stored(2, b"m", (1,)), 1)
    journal.then(lambda: told.append("stored"), lambda _: told.append("refused"))
    (persist,) = journal.flush()
    journal.later(Acked(1, (3,)))
    journal.finished(persist.ticket, StoreError("E_STORE_FULL", "no space left"))
    assert told == ["refused"]
    assert not journal.idle
    (persist,) = journal.flush()
    assert persist.records == (Acked(1, (1,)),)
    journal.finished(persist.ticket, None)
    assert told == ["refused", "freed"]
    (persist,) = journal.flush(retry=True)
    assert persist.records == (Acked(1, (3,)),)


def test_who_waits_for_changes_and_there_are_none_is_told_when_the_messages_fail() -> None:
    journal, told = Journal(), []
    journal.then_changed(lambda: told.append("done"))
    journal.message(Stored(2, b"m", (1,)), 1)
    (persist,) = journal.flush()
    journal.finished(persist.ticket, StoreError("E_STORE_FULL", "no space left"))
    assert journal.flush() == []
    assert told == ["done"]
    assert journal.idle


@pytest.mark.parametrize("error", [None, StoreError("E_STORE_FULL", "no space left")])
def test_all_are_told_even_if_one_raises(error: StoreError | None) -> None:
    def stumble(number: int, _: object = None) -> None:
        told.append(number)
        if number in (1, 2):
            raise ValueError(number)

    journal, told = Journal(), list[int]()
    journal.message(Stored(2, b"m", (1,)), 1)
    for number in range(4):
        journal.then(partial(stumble, number), partial(stumble, number))
    (persist,) = journal.flush()
    with pytest.raises(ValueError, match="2"):
        journal.finished(persist.ticket, error)
    assert told == [0, 1, 2, 3]


def large(number: int) -> MailboxAdded:
    return MailboxAdded(number, f"durable::{number}", "durable", bytes(CHANGES_BYTES_MAX // 2 - 100))


def test_more_changes_than_fit_go_one_batch_after_the_other() -> None:
    journal, told = Journal(), list[str]()
    for number in range(1, 6):
        journal.change(large(number))
    journal.message(Stored(1, b"m", (5,)), 1)
    journal.then(lambda: told.append("done"))
    sizes = []
    while batch := journal.flush():
        assert not told
        sizes.append(len(batch[0].records))
        journal.finished(batch[0].ticket, None)
    assert sizes == [2, 2, 2]  # the last with the message
    assert told == ["done"]
    assert journal.idle
    assert journal.pending_bytes == 0


def test_if_the_first_of_them_fail_so_do_the_others_and_all_wait_in_order() -> None:
    journal, told = Journal(), list[str]()
    for number in range(1, 6):
        journal.change(large(number))
    journal.message(Stored(1, b"m", (5,)), 1)
    journal.then(lambda: told.append("done"), lambda error: told.append(error.code))
    (persist,) = journal.flush()
    journal.finished(persist.ticket, StoreError("E_STORE_FULL", "no space"))
    assert told == ["E_STORE_FULL"]
    assert journal.pending_bytes == 0
    assert journal.flush() == [], "only when it is time to try again"
    written: list[object] = []
    while batch := journal.flush(retry=True):
        written += batch[0].records
        journal.finished(batch[0].ticket, None)
    assert written == [large(number) for number in range(1, 6)]
    assert journal.idle


def test_a_change_that_is_larger_than_a_batch_should_be_goes_alone() -> None:
    journal = Journal()
    journal.change(Note("n", bytes(CHANGES_BYTES_MAX + 1)))
    journal.change(Detached(1))
    counts = []
    while batch := journal.flush():
        counts.append(len(batch[0].records))
        journal.finished(batch[0].ticket, None)
    assert counts == [1, 1]


def test_the_rest_of_a_split_batch_says_nothing_of_what_was_gathered_since() -> None:
    """Otherwise a crash after it would leave a note of a message that was never written."""
    journal, taken = Journal(changes_bytes_max=10), [b"1"]
    journal.change(Note("a", bytes(20)))
    journal.message(lambda: [Note("seen", b"".join(taken))], 1)
    (first,) = journal.flush()
    taken.append(b"2")
    journal.message(lambda: [Note("seen", b"".join(taken))], 1)
    journal.finished(first.ticket, None)
    (rest,) = journal.flush()
    assert rest.records == (Note("seen", b"1"),)
    journal.finished(rest.ticket, None)
    (second,) = journal.flush()
    assert second.records == (Note("seen", b"12"),)
