"""The database fails over to its standby: nothing confirmed is lost, and the store goes on by itself."""

import pytest
from hardening.contracts.store import check_same
from hardening.support.postgresql import Cluster, pair

from tidings.delivery.store import MailboxAdded, MemoryStore, Record, Stored
from tidings.errors import StoreError
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.place import PostgresPlace


def both(*servers: Cluster) -> str:
    """One address for a primary and its standby."""
    name = servers[0].database().split("/")[3].split("?")[0]
    ports = ",".join(str(one.port) for one in servers)
    return f"postgresql://postgres@/{name}?host={','.join(str(one.folder) for one in servers)}&port={ports}"


def test_a_promoted_standby_has_all_and_one_without_a_standby_is_refused() -> None:
    with pair() as (primary, standby):
        place = PostgresPlace(DatabaseOptions(both(primary, standby), 1, require_synchronous=True, wait_ms=60_000))
        lease = place.lease()
        assert lease.acquire()
        store, model = place.open(lease), MemoryStore()
        last = 0

        def write() -> None:
            nonlocal last
            last += 1
            batch: list[Record] = [MailboxAdded(1, "queue:a", "queue"), Stored(last, b"kept", (1,))]
            for one in (store, model):
                one.append(batch)

        for _ in range(20):
            write()
        primary.kill()
        standby.promote()
        alone = standby.url(place.options.url.split("/")[3].split("?")[0])
        with pytest.raises(StoreError) as caught:
            PostgresPlace(DatabaseOptions(alone, 2, require_synchronous=True)).lease().acquire()
        assert caught.value.code == "E_STORE_SYNCHRONOUS"
        store.close()
        lease.release()
        relaxed = PostgresPlace(DatabaseOptions(alone, 1))
        second = relaxed.lease()
        assert second.wait(60)
        again = relaxed.open(second)
        check_same(again, model)
        again.close()
        second.release()


def test_a_store_follows_its_database_to_the_promoted_standby() -> None:
    with pair() as (primary, standby):
        place = PostgresPlace(DatabaseOptions(both(primary, standby), 1, wait_ms=60_000))
        lease = place.lease()
        assert lease.acquire()
        store, model = place.open(lease), MemoryStore()
        for seq in range(1, 41):
            if seq == 20:
                primary.kill()
                standby.promote()
            batch: list[Record] = [MailboxAdded(1, "queue:a", "queue"), Stored(seq, bytes(seq), (1,))]
            for one in (store, model):
                one.append(batch)
        check_same(store, model)
        assert lease.lost is None
        store.close()
        lease.release()


def test_a_server_that_lacks_confirmed_batches_is_noticed_and_not_written(server: Cluster) -> None:
    options = DatabaseOptions(server.database(), 1)
    place = PostgresPlace(options)
    lease = place.lease()
    assert lease.acquire()
    store = place.open(lease)
    lost: list[StoreError] = []
    lease.on_lost(lost.append)
    store.append([MailboxAdded(1, "queue:a", "queue"), Stored(1, b"a", (1,))])
    store.append([Stored(2, b"b", (1,))])
    name = options.url.split("/")[3].split("?")[0]
    server.execute("DELETE FROM tidings.batch WHERE number = 2", name)  # as a standby that was behind would have it
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%store'")
    with pytest.raises(StoreError, match="2 was confirmed"):
        store.append([Stored(3, b"c", (1,))])
    assert [error.code for error in lost] == ["E_STORE_DAMAGED"]
    assert server.execute("SELECT max(number) FROM tidings.batch", name) == [(1,)]
    store.close()
    lease.release()
