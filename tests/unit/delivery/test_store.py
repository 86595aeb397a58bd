"""The store's contract, on the store that defines it."""

import pytest
from hardening.contracts.store import check_store

from tidings.delivery.store import MailboxAdded, MemoryStore, Store, Stored
from tidings.errors import StoreError, UsageError


def test_memory_store_keeps_the_contract() -> None:
    def make(fresh: bool) -> Store:
        assert fresh
        return MemoryStore()

    check_store(make, durable=False, examples=20)


def test_a_closed_store_says_so() -> None:
    store = MemoryStore()
    store.close()
    for use in (lambda: store.append([]), store.recover, lambda: store.read([1])):
        with pytest.raises(StoreError, match="E_STORE_CLOSED"):
            use()


def test_last_numbers_outlive_what_they_numbered() -> None:
    store = MemoryStore()
    store.append([MailboxAdded(9, "queue:a", "queue"), Stored(41, b"a message", ()), Stored(42, b"another", (9, 9))])
    state = store.recover()
    assert (state.last_seq, state.last_mailbox, list(state.waiting[9].seqs)) == (42, 9, [42])
    assert list(state.waiting[9].priorities) == [ord("o")]


def test_errors_say_whether_to_try_again() -> None:
    retryable = {code: StoreError(code, "why").retryable for code in ("E_STORE_FULL", "E_STORE_IO", "E_STORE_LOCKED")}
    assert retryable == {"E_STORE_FULL": True, "E_STORE_IO": True, "E_STORE_LOCKED": False}
    assert not StoreError("E_STORE_IO", "why").fatal
    with pytest.raises(UsageError, match="E_STORE_SEQ"):
        MemoryStore().append([Stored(2, b"", ()), Stored(2, b"", ())])
