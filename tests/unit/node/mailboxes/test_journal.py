"""What leaves for the disk together, and when."""

import pytest

from tidings.delivery.store import NAME_BYTES_MAX, Acked, Detached, MailboxAdded, Note, Stored
from tidings.errors import StoreError, UsageError
from tidings.node.completions import AnswerRequest, Completion
from tidings.node.effects import Persist
from tidings.node.mailboxes.journal import CHANGES_BYTES_MAX, LATER_MAX, Flush, Journal
from tidings.node.network.relay_dedup import RelayDedup
from tidings.node.requests import Done

FULL = StoreError("E_STORE_FULL", "no space")
FIRST, SECOND, THIRD = (AnswerRequest(1, Done(receipt)) for receipt in (1, 2, 3))


def written(journal: Journal, *, retry: bool = False) -> Persist:
    """The batch that leaves now."""
    write, completions, more = journal.flush(retry=retry)
    assert write is not None
    assert not completions
    assert not more
    return write


def quiet(journal: Journal) -> bool:
    """Nothing leaves now."""
    return journal.flush() == Flush()


def test_a_change_nobody_waits_for_goes_with_the_next_batch() -> None:
    journal = Journal()
    journal.later(Acked(1, (1,)))
    assert quiet(journal)
    assert not journal.idle
    journal.message(Stored(2, b"m", (1,)), 1)
    persist = written(journal)
    assert persist.records == (Acked(1, (1,)), Stored(2, b"m", (1,)))
    journal.finished(persist.ticket, None)
    assert journal.idle


def test_or_when_told_to_write_all() -> None:
    journal = Journal()
    journal.later(Acked(1, (1,)))
    persist = written(journal, retry=True)
    assert persist.records == (Acked(1, (1,)),)


def test_or_when_somebody_waits_after_all() -> None:
    journal = Journal()
    journal.later(Acked(1, (1,)))
    journal.then(FIRST)
    assert journal.finished(written(journal).ticket, None) == [FIRST]


def test_or_with_an_urgent_change_behind_it() -> None:
    journal = Journal()
    journal.later(Acked(1, (1,)))
    journal.change(Detached(1))
    persist = written(journal)
    assert persist.records == (Acked(1, (1,)), Detached(1))


def test_or_when_there_are_many() -> None:
    journal = Journal()
    for seq in range(1, LATER_MAX):
        journal.later(Acked(1, (seq,)))
    assert quiet(journal)
    journal.later(Acked(1, (LATER_MAX,)))
    persist = written(journal)
    assert len(persist.records) == LATER_MAX


def test_nothing_to_write_is_done_at_once() -> None:
    journal = Journal()
    journal.then(FIRST)
    assert journal.flush() == Flush(None, [FIRST])


def test_what_failed_is_written_before_the_rest() -> None:
    journal = Journal()
    journal.change(Detached(1))
    persist = written(journal)
    journal.finished(persist.ticket, FULL)
    assert quiet(journal)
    journal.later(Acked(2, (1,)))
    again = written(journal, retry=True)
    assert again.records == (Detached(1), Acked(2, (1,)))


def test_who_waits_for_nothing_of_its_own_waits_for_what_is_under_way() -> None:
    journal = Journal()
    journal.message(Stored(1, b"m", (1,)), 1)
    persist = written(journal)
    journal.then(FIRST)
    assert quiet(journal)
    assert journal.finished(persist.ticket, None) == []
    assert journal.flush() == Flush(None, [FIRST])


def test_and_for_changes_that_could_not_be_written() -> None:
    journal = Journal()
    journal.change(Detached(1))
    persist = written(journal)
    assert journal.finished(persist.ticket, FULL) == []
    journal.then(FIRST)
    again = written(journal)
    assert again.records == (Detached(1),)
    assert journal.finished(again.ticket, None) == [FIRST]


def test_what_rests_on_the_batch_before_is_asked_for_when_its_fate_is_known() -> None:
    journal, seen = Journal(), RelayDedup()
    for id in (bytes(16), bytes([1]) * 16):
        seen.add(id)
    journal.message(Stored(1, b"m", (1,)), 1)
    persist = written(journal)
    journal.message(seen, 0)
    assert quiet(journal)
    seen.discard(bytes(16))
    journal.finished(persist.ticket, FULL)
    assert journal.flush() == Flush(None, [], more=True)  # no changes were in the batch that failed
    after = written(journal)
    assert after.records == (Note("seen:0", bytes(8) + bytes([1]) * 16),)


def test_what_no_store_can_keep_does_not_hold_up_the_rest() -> None:
    journal = Journal()
    journal.change(Detached(1))
    journal.change(MailboxAdded(2, "d" * (NAME_BYTES_MAX + 1), "durable"))
    journal.then(FIRST)
    persist = written(journal)
    assert journal.finished(persist.ticket, UsageError("E_STORE_RECORD", "cannot be stored")) == [FIRST]
    again = written(journal, retry=True)
    assert again.records == (Detached(1),)


def test_changes_do_not_wait_behind_messages_that_cannot_be_written() -> None:
    journal = Journal()
    journal.change(Acked(1, (1,)))
    journal.then_changed(FIRST)
    journal.message(Stored(2, b"m", (1,)), 1)
    journal.then(SECOND)
    persist = written(journal)
    journal.later(Acked(1, (3,)))
    assert journal.finished(persist.ticket, FULL) == [SECOND]
    assert not journal.idle
    persist = written(journal)
    assert persist.records == (Acked(1, (1,)),)
    assert journal.finished(persist.ticket, None) == [FIRST]
    persist = written(journal, retry=True)
    assert persist.records == (Acked(1, (3,)),)


def test_who_waits_for_changes_and_there_are_none_is_told_when_the_messages_fail() -> None:
    journal = Journal()
    journal.then_changed(FIRST)
    journal.message(Stored(2, b"m", (1,)), 1)
    persist = written(journal)
    assert journal.finished(persist.ticket, FULL) == []
    assert journal.flush() == Flush(None, [FIRST], more=True)
    assert quiet(journal)
    assert journal.idle


@pytest.mark.parametrize("error", [None, FULL])
def test_completions_are_returned_in_the_order_in_which_they_were_given(error: StoreError | None) -> None:
    journal = Journal()
    journal.then(SECOND)
    journal.message(Stored(2, b"m", (1,)), 1)
    for completion in (THIRD, FIRST):
        journal.then(completion)
    assert journal.finished(written(journal).ticket, error) == [SECOND, THIRD, FIRST]


def test_a_group_is_withdrawn_with_its_completions_and_the_rest_is_written() -> None:
    journal = Journal()
    journal.message(Stored(1, b"m", (1,)), 1)
    journal.then(FIRST)
    journal.group = "link"
    journal.message(Stored(2, b"mm", (1,)), 2)
    journal.then(SECOND)
    journal.group = None
    journal.then_changed(THIRD)
    assert journal.withdraw("link") == [SECOND]
    assert journal.withdraw("link") == []
    assert journal.pending_bytes == 1
    persist = written(journal)
    assert persist.records == (Stored(1, b"m", (1,)),)
    assert journal.finished(persist.ticket, None) == [FIRST, THIRD]
    assert journal.pending_bytes == 0


def large(number: int) -> MailboxAdded:
    return MailboxAdded(number, f"durable::{number}", "durable", bytes(CHANGES_BYTES_MAX // 2 - 100))


def test_more_changes_than_fit_go_one_batch_after_the_other() -> None:
    journal, told = Journal(), list[Completion]()
    for number in range(1, 6):
        journal.change(large(number))
    journal.message(Stored(1, b"m", (5,)), 1)
    journal.then(FIRST)
    sizes = []
    while batch := journal.flush().write:
        assert not told
        sizes.append(len(batch.records))
        told += journal.finished(batch.ticket, None)
    assert sizes == [2, 2, 2]  # the last with the message
    assert told == [FIRST]
    assert journal.idle
    assert journal.pending_bytes == 0


def test_if_the_first_of_them_fail_so_do_the_others_and_all_wait_in_order() -> None:
    journal = Journal()
    for number in range(1, 6):
        journal.change(large(number))
    journal.message(Stored(1, b"m", (5,)), 1)
    journal.then(FIRST)
    persist = written(journal)
    assert journal.finished(persist.ticket, FULL) == [FIRST]
    assert journal.pending_bytes == 0
    assert quiet(journal), "only when it is time to try again"
    tried: list[object] = []
    while batch := journal.flush(retry=True).write:
        tried += batch.records
        journal.finished(batch.ticket, None)
    assert tried == [large(number) for number in range(1, 6)]
    assert journal.idle


def test_a_change_that_is_larger_than_a_batch_should_be_goes_alone() -> None:
    journal = Journal()
    journal.change(Note("n", bytes(CHANGES_BYTES_MAX + 1)))
    journal.change(Detached(1))
    counts = []
    while batch := journal.flush().write:
        counts.append(len(batch.records))
        journal.finished(batch.ticket, None)
    assert counts == [1, 1]


def test_the_rest_of_a_split_batch_says_nothing_of_what_was_gathered_since() -> None:
    """Otherwise a crash after it would leave a note of a message that was never written."""
    journal, seen = Journal(changes_bytes_max=10), RelayDedup()
    first, second = b"1" * 16, b"2" * 16
    journal.change(Note("a", bytes(20)))
    seen.add(first)
    journal.message(seen, 1)
    split = journal.flush().write
    assert split is not None
    seen.add(second)
    journal.message(seen, 1)
    written = []
    journal.finished(split.ticket, None)
    while batch := journal.flush().write:
        written.append(b"".join(one.value for one in batch.records if isinstance(one, Note)))
        journal.finished(batch.ticket, None)
    assert [(first in one, second in one) for one in written] == [(True, False), (True, True)]
