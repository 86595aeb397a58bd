"""The lease of a SQLite store: one process at a time, taken over when it is free."""

import threading
from pathlib import Path

import pytest
from hardening.contracts.store import check_store

from tidings.delivery.store import MailboxAdded, Store, Stored
from tidings.errors import StoreError, UsageError
from tidings.store.sqlite.place import FileLease, SqlitePlace
from tidings.store.sqlite.store import SqliteStore


def test_a_store_opened_with_a_lease_keeps_the_contract(tmp_path: Path) -> None:
    leases: list[FileLease] = []

    def make(fresh: bool) -> Store:
        place = SqlitePlace(tmp_path / f"{len(leases) - 1 + fresh}.db")
        if fresh:
            leases.append(place.lease())
            assert leases[-1].acquire()
        return place.open(leases[-1])

    check_store(make, examples=3)
    for lease in leases:
        lease.release()


def test_who_waits_takes_over_when_the_lease_is_released(tmp_path: Path) -> None:
    place = SqlitePlace(tmp_path / "messages.db")
    first, second = place.lease(), place.lease()
    assert first.acquire()
    store = place.open(first)
    store.append([MailboxAdded(1, "queue:a", "queue"), Stored(1, b"kept", (1,))])
    assert not second.wait(0.01)
    with pytest.raises(UsageError, match="not held"):
        place.open(second)
    with pytest.raises(StoreError, match="in use by another process"):
        SqliteStore(place.path)
    waiting = threading.Thread(target=second.wait, args=(60.0,))
    waiting.start()
    store.close()
    assert second.epoch == 0, "a closed store has not released its lease"
    first.release()
    waiting.join()
    assert second.epoch == 1
    taken = place.open(second)
    assert taken.read([1]) == [b"kept"]
    taken.close()
    second.release()
    second.release()
