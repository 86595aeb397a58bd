"""Transactions that happen once: numbers of keys, through failures, restarts and more keys than there are slots."""

import pytest

from tidings.delivery.store import Note
from tidings.errors import UsageError
from tidings.node.clients import idempotent_commit as once
from tidings.node.clients.idempotent_commit import IdempotentCommit


def commit(book: IdempotentCommit, key: str, number: int, order: int) -> Note | None:
    if book.done(key, number):
        return None
    note = book.begin(key, number, order)
    book.finished(key)
    return note


def test_a_number_happens_once_and_only_upwards() -> None:
    book = IdempotentCommit()
    assert commit(book, "a", 5, 1) is not None
    assert commit(book, "a", 5, 2) is None
    assert commit(book, "a", 4, 3) is None
    assert commit(book, "a", 6, 4) is not None


def test_what_was_not_written_may_be_tried_again() -> None:
    book = IdempotentCommit()
    commit(book, "a", 5, 1)
    book.begin("a", 6, 2)
    with pytest.raises(UsageError, match="E_COMMIT_BUSY"):
        book.done("a", 6)
    book.failed("a", once.LastCommit(5))
    assert not book.done("a", 6)
    assert book.done("a", 5)


def test_a_restart_knows_the_numbers_and_slots_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "SLOTS", 3)
    book, notes = IdempotentCommit(), dict[str, bytes]()
    for order, (key, number) in enumerate([("a", 1), ("b", 1), ("c", 1), ("a", 2), ("d", 1)]):
        note = commit(book, key, number, order)
        assert note is not None
        notes[note.key] = note.value
    assert len(notes) == 3  # b was quiet for longest, d has its slot
    again = IdempotentCommit()
    again.recover(notes | {"other": b"x"})
    assert [again.last(key).number for key in "abcd"] == [2, -1, 1, 1]
    note = commit(again, "e", 1, 9)
    assert note is not None
    assert again.last("c").number == -1
    with pytest.raises(UsageError, match="E_COMMIT_KEY"):
        again.done("x" * 1000, 1)


def test_a_user_with_many_keys_makes_nobody_elses_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "SLOTS", 6)
    book, notes = IdempotentCommit(), dict[str, bytes]()
    names = ["alice/a", *(f"mallory/{number}" for number in range(20)), "alice/b", "mallory/20", "bob/a"]
    for order, key in enumerate(names):
        note = commit(book, key, 7, order)
        assert note is not None
        notes[note.key] = note.value
    assert len(notes) == 6
    again = IdempotentCommit()
    again.recover(notes)
    for one in (book, again):
        assert [one.last(key).number for key in ("alice/a", "alice/b", "bob/a", "mallory/20")] == [7] * 4
        assert one.last("mallory/0").number == -1


def test_a_commit_that_fails_after_its_key_was_given_up_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "SLOTS", 1)
    book = IdempotentCommit()
    book.begin("a", 1, 1)
    book.begin("b", 1, 2)
    book.failed("a", once.NEVER)
    assert not book.done("a", 1)


def test_a_digest_stays_with_its_number_over_a_restart_and_a_failed_write() -> None:
    book = IdempotentCommit()
    note = book.begin("a", 5, 1, "five")
    book.finished("a")
    before = book.last("a")
    book.begin("a", 6, 2, "six")
    assert book.last("a") == once.LastCommit(6, "six")
    book.failed("a", before)
    again = IdempotentCommit()
    again.recover({note.key: note.value})
    assert book.last("a") == again.last("a") == once.LastCommit(5, "five")
    assert again.last("b") == once.NEVER
