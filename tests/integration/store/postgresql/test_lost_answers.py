"""A commit whose answer never came is found out: a line that loses requests and answers, a server that is killed."""

from contextlib import suppress
from random import Random

import pytest
from hardening.contracts.store import check_same
from hardening.support.postgresql import QUICK, Cluster, cluster
from hardening.support.severed_line import Loss, SeveredLine, losses

from tidings.delivery.store import Acked, MailboxAdded, MemoryStore, Record, Stored
from tidings.errors import StoreError
from tidings.store.log.store import LogLimits
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.place import PostgresPlace
from tidings.store.postgresql.store import PostgresStore

BOXES: list[Record] = [MailboxAdded(box, f"queue:{box}", "queue") for box in (1, 2)]
MOVING = LogLimits(slack_bytes=3000, slack_batches=3, small_bytes=3000, move_bytes=6000)


def random_batch(rng: Random, seq: int, model: MemoryStore) -> list[Record]:
    waiting = [*model.recover().waiting[1].seqs]
    acked = tuple(rng.sample(waiting, rng.randint(0, len(waiting))))
    stored = [Stored(seq + 1 + one, bytes(rng.randint(200, 900)), (1,)) for one in range(rng.randint(1, 3))]
    more: list[Record] = [MailboxAdded(2, f"queue:{seq}", "queue")] if rng.random() < 0.3 else []
    return [*stored, Acked(1, acked), *more]


@pytest.mark.parametrize("wait_ms", [60_000.0, 0.0], ids=["waiting", "refusing"])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_answered_is_so_however_the_line_breaks(server: Cluster, wait_ms: float, seed: int) -> None:
    rng = Random(seed)
    line = SeveredLine(server.port)
    name = server.database().split("/")[3].split("?")[0]
    options = DatabaseOptions(f"postgresql://postgres@127.0.0.1:{line.port}/{name}", 1, wait_ms=wait_ms)
    place = PostgresPlace(options, MOVING)
    lease = place.lease()
    assert lease.wait(30)
    store, model = place.open(lease), MemoryStore()
    for one in (store, model):
        one.append(BOXES)
    seq = refused = 0
    for _ in range(25):
        batch = random_batch(rng, seq, model)
        seq += 3
        line.losses = losses(rng, 2)
        if not accepted(store, batch):
            refused += 1
            # The node's rule: messages are refused, changes are written again.
            batch = [record for record in batch if not isinstance(record, Stored)]
            line.losses = []
            written(store, batch)
        line.losses = []
        model.append(batch)
        if rng.random() < 0.2:
            while store.maintain():
                pass
    assert set(line.lost) == {Loss.REQUEST, Loss.ANSWER, Loss.LATE}
    assert (refused > 0) == (wait_ms == 0)
    written(store, [Stored(seq + 100, b"last", (1,))])
    model.append([Stored(seq + 100, b"last", (1,))])
    compare(store, model)
    store.close()
    again = place.open(lease)
    compare(again, model)
    again.close()
    lease.release()
    line.close()


def accepted(store: PostgresStore, batch: list[Record]) -> bool:
    try:
        store.append(batch)
    except StoreError as error:
        return error.code != "E_STORE_UNAVAILABLE"
    return True


def written(store: PostgresStore, batch: list[Record]) -> None:
    """Try until a server answers."""
    while True:
        with suppress(StoreError):
            store.append(batch)
            return


def compare(store: PostgresStore, model: MemoryStore) -> None:
    """The same but for what was committed and then acknowledged, which `recent` may still have."""
    state, expected = store.recover(), model.recover()
    assert state.damaged == ()
    assert state.mailboxes == expected.mailboxes
    waiting = {box: list(one.seqs) for box, one in expected.waiting.items()}
    assert {box: list(one.seqs) for box, one in state.waiting.items()} == waiting
    assert store.read(waiting[1]) == model.read(waiting[1])


def test_a_server_killed_and_started_again_has_all_that_was_confirmed(server: Cluster) -> None:
    del server  # this one gets its own: it is killed
    with cluster({**QUICK, "restart_after_crash": "on"}) as mortal:
        place = PostgresPlace(DatabaseOptions(mortal.database(), 1, lease_ms=1000))
        lease = place.lease()
        assert lease.acquire()
        store, model = place.open(lease), MemoryStore()
        for one in (store, model):
            one.append(BOXES)
        for seq in range(1, 4):
            mortal.kill()
            mortal.start()
            batch: list[Record] = [Stored(seq, b"kept", (1,))]
            for one in (store, model):
                one.append(batch)
        check_same(store, model)
        assert lease.lost is None
        store.close()
        lease.release()


def test_without_a_server_it_refuses_and_goes_on_when_there_is_one() -> None:
    with cluster() as mortal:
        place = PostgresPlace(DatabaseOptions(mortal.database(), 1, wait_ms=100))
        lease = place.lease()
        assert lease.acquire()
        store = place.open(lease)
        store.append([*BOXES, Stored(1, b"kept", (1,))])
        mortal.stop()
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                store.append([Stored(2, b"refused", (1,))])
            assert (caught.value.code, caught.value.retryable) == ("E_STORE_UNAVAILABLE", True)
        assert not store.has_room()
        with pytest.raises(StoreError, match=r"connection|server"):
            store.read([1])
        mortal.start()
        while not store.has_room():
            pass
        store.append([Stored(3, b"again", (1,))])
        assert store.read([1, 3]) == [b"kept", b"again"]
        assert list(store.recover().waiting[1].seqs) == [1, 3]
        store.close()
        lease.release()
