"""The last batches of a store stay when they are dead."""

from array import array
from pathlib import Path

import pytest

from tidings.delivery.store import Acked, MailboxAdded, Recent, Store, Stored
from tidings.store.log.tail import TailLimits
from tidings.store.sqlite.store import SqliteStore, StoreLimits


def _cycle(store: Store, turns: int, each: int = 50) -> None:
    """Steady traffic through mailbox 1: each batch acknowledges the one before."""
    acked, seq = Acked(1, ()), store.recover().last_seq
    for _ in range(turns):
        seqs = tuple(range(seq + 1, seq + each + 1))
        store.append([acked, *[Stored(one, bytes(200), (1,)) for one in seqs]])
        seq, acked = seq + each, Acked(1, seqs)
    store.append([acked])


@pytest.mark.parametrize(
    ("tail", "least"),
    [
        (TailLimits(messages=70), 70),
        (TailLimits(bytes=20_000), 50),
        (TailLimits(batches=3), 50),
    ],
)
def test_the_last_messages_are_known_when_they_are_gone(tmp_path: Path, tail: TailLimits, least: int) -> None:
    limits = StoreLimits(slack_bytes=5_000, move_bytes=2_000, tail=tail)
    store = SqliteStore(tmp_path / "store.db", limits)
    store.append([MailboxAdded(1, "queue:a", "queue"), MailboxAdded(2, "queue:b", "queue"), Stored(1, b"old", (2,))])
    _cycle(store, 40)
    assert store.recover().waiting[1].seqs == array("Q")
    for _ in range(2):
        found = [one.seq for one in store.recent(10_000, 4)]
        assert found[0] == 1, "it waits"
        assert found[-least:] == list(range(store.recover().last_seq - least + 1, store.recover().last_seq + 1))
        assert len(found) <= least + 151, "the rest is gone"
        assert store.recent(2, 4) == [Recent(found[-2], (1,), bytes(4)), Recent(found[-1], (1,), bytes(4))]
        store.close()
        store = SqliteStore(tmp_path / "store.db", limits)
    store.close()


def test_what_was_moved_takes_no_place_from_the_last_messages(tmp_path: Path) -> None:
    limits = StoreLimits(slack_bytes=5_000, move_bytes=20_000, tail=TailLimits(bytes=30_000))
    store = SqliteStore(tmp_path / "store.db", limits)
    old = [Stored(seq, bytes(5_000), (2,)) for seq in range(1, 31)]
    store.append([MailboxAdded(1, "queue:a", "queue"), MailboxAdded(2, "queue:b", "queue"), *old])
    _cycle(store, 200, each=10)
    while store.maintain():
        pass
    last = store.recover().last_seq
    assert [one.seq for one in store.recent(60, 4)] == list(range(last - 59, last + 1))
    store.append([Acked(2, tuple(range(1, 31)))])
    _cycle(store, 200, each=10)
    assert store.disk_bytes() < 6 * 30_000, "what was moved and is dead leaves too"
    store.close()
