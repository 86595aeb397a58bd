"""The store in a database: the contract, damage, room, versions, and each way in which a server can fail."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import psycopg
import pytest
from hardening.contracts.store import check_same, check_store
from hardening.support.postgresql import Cluster

from tidings.delivery.store import Acked, MailboxAdded, MemoryStore, Note, Record, Store, Stored
from tidings.errors import StoreError
from tidings.store.log.store import LogLimits
from tidings.store.log.tail import TailLimits
from tidings.store.postgresql.lease import DatabaseLease
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.place import PostgresPlace
from tidings.store.postgresql.store import PostgresStore

RESTLESS = LogLimits(
    slack_bytes=500,
    slack_batches=2,
    small_bytes=500,
    move_bytes=2000,
    tail=TailLimits(messages=10, bytes=2000, batches=3),
)  # moves all the time
BOX = MailboxAdded(1, "queue:a", "queue")


def opened(options: DatabaseOptions, limits: LogLimits | None = None) -> tuple[DatabaseLease, PostgresStore]:
    place = PostgresPlace(options, limits)
    lease = place.lease()
    assert lease.wait(30)
    return lease, place.open(lease)


def maker(url: str, limits: LogLimits) -> Callable[[bool], Store]:
    leases: list[DatabaseLease] = []

    def make(fresh: bool) -> Store:
        place = PostgresPlace(DatabaseOptions(url, len(leases) + fresh), limits)
        if fresh:
            for lease in leases[-1:]:
                lease.release()
            leases.append(place.lease())
            assert leases[-1].acquire()
        return place.open(leases[-1])

    return make


@pytest.mark.parametrize("limits", [LogLimits(), RESTLESS], ids=["usual", "moving"])
def test_a_database_keeps_the_contract(server: Cluster, limits: LogLimits) -> None:
    check_store(maker(server.database(), limits), examples=6)


def test_brokers_share_a_database_and_see_nothing_of_each_other(server: Cluster) -> None:
    url = server.database()
    leases, stores = zip(*(opened(DatabaseOptions(url, number)) for number in (1, 2**32 - 1)), strict=True)
    for number, store in enumerate(stores, 1):
        store.append([BOX, Note("who", bytes([number])), *[Stored(seq, bytes([number]), (1,)) for seq in range(1, 5)]])
    stores[0].append([Acked(1, (1, 2, 3, 4))])
    assert list(stores[1].recover().waiting[1].seqs) == [1, 2, 3, 4]
    for store, lease in zip(stores, leases, strict=True):
        store.close()
        lease.release()
    _, again = opened(DatabaseOptions(url, 2**32 - 1))
    assert again.recover().notes == {"who": b"\x02"}
    assert again.read([1, 4]) == [b"\x02"] * 2
    again.close()


def test_large_batches_come_back_in_parts(server: Cluster) -> None:
    options = DatabaseOptions(server.database(), 1)
    lease, store = opened(options)
    model = MemoryStore()
    for seq in range(1, 40):
        batch: list[Record] = [BOX, Stored(seq, bytes([seq]) * 600_000, (1,))]
        for one in (store, model):
            one.append(batch)
    store.close()
    lease.release()
    _, again = opened(options)
    check_same(again, model)
    again.close()


def test_a_flipped_bit_costs_one_message_and_is_reported(server: Cluster) -> None:
    options = DatabaseOptions(server.database(), 1)
    lease, store = opened(options)
    store.append([BOX, Stored(1, b"first message", (1,)), Stored(2, b"second message", (1,))])
    store.close()
    flip = "UPDATE tidings.batch SET payload = set_byte(payload, position('first'::bytea IN payload), 0)"
    with psycopg.connect(options.url) as db:
        db.execute(flip)
        db.execute("UPDATE tidings.state SET record = 'nonsense' WHERE copy = 0 AND key = 'mailbox/1'")
    again = PostgresStore(options, lease)
    state = again.recover()
    assert [damage.reason for damage in state.damaged] == [
        "damaged entry 'mailbox/1' in the state: the copy is used",
        "checksum differs",
    ]
    assert list(state.waiting[1].seqs) == [2]
    with psycopg.connect(options.url) as db:
        db.execute(flip.replace("first", "second"))
    with pytest.raises(StoreError, match="message 2 is damaged"):
        again.read([2])
    again.close()


def test_room_is_bounded_and_comes_back(server: Cluster) -> None:
    lease, store = opened(DatabaseOptions(server.database(), 1, quota_bytes=10_000))
    store.append([BOX, Stored(1, bytes(6000), (1,)), Stored(2, bytes(6000), (1,))])
    with pytest.raises(StoreError, match="more than the 10000 bytes allowed") as caught:
        store.append([Stored(3, b"x", (1,))])
    assert caught.value.code == "E_STORE_FULL"
    assert not store.has_room()
    store.append([Acked(1, (1,))])
    assert store.has_room()
    store.append([Stored(4, b"x", (1,))])
    store.close()
    lease.release()


FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON tidings.batch FOR EACH ROW EXECUTE FUNCTION full_disk()
"""


def test_a_full_disk_of_the_server_is_said_and_nothing_is_lost(server: Cluster) -> None:
    options = DatabaseOptions(server.database(), 1)
    lease, store = opened(options)
    store.append([BOX, Stored(1, b"first", (1,))])
    with psycopg.connect(options.url) as db:
        db.execute(FULL)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"No space left on device.*; make room in the database") as caught:
            store.append([Stored(2, b"second", (1,))])
        assert caught.value.code == "E_STORE_FULL"
    assert store.read([1]) == [b"first"]
    with psycopg.connect(options.url) as db:
        db.execute("DROP TRIGGER full_disk ON tidings.batch")
    store.append([Stored(3, b"third", (1,))])
    store.close()
    again = PostgresPlace(options).open(lease)
    assert list(again.recover().waiting[1].seqs) == [1, 3]
    again.close()
    lease.release()


def refused(options: DatabaseOptions) -> StoreError:
    with pytest.raises(StoreError) as caught:
        PostgresPlace(options).lease().acquire()
    return caught.value


def test_what_cannot_be_opened_says_why_in_one_line(server: Cluster) -> None:
    url = server.database()
    options = DatabaseOptions(url, 1)
    opened(options)[1].close()
    for other, code, text in (
        (server.url("nosuch"), "E_STORE_ACCESS", 'database "nosuch" does not exist'),
        (url.replace("postgres@", "nobody@"), "E_STORE_ACCESS", 'role "nobody" does not exist'),
        (url.replace(f"port={server.port}", "port=1"), "E_STORE_UNAVAILABLE", "connection"),
        ("nonsense", "E_STORE_ACCESS", "no connection string"),
        (f"{url}&options=-cdefault_transaction_read_only%3Don", "E_STORE_UNAVAILABLE", "no writable server"),
    ):
        error = refused(replace(options, url=other))
        assert (error.code, "\n" in error.reason) == (code, False), error
        assert text in error.reason
    error = refused(replace(options, password_file="/nonexistent"))
    assert (error.code, "/nonexistent" in error.reason) == ("E_STORE_ACCESS", True)
    error = refused(replace(options, require_synchronous=True))
    assert error.code == "E_STORE_SYNCHRONOUS"
    with psycopg.connect(url) as db:
        db.execute("UPDATE tidings.version SET version = 9")
    error = refused(options)
    assert (error.code, "version 9, this program supports 1" in error.reason) == ("E_STORE_VERSION", True)


def test_a_wrong_password_is_named_and_not_shown(server: Cluster) -> None:
    hba = server.data / "pg_hba.conf"
    before = hba.read_text()
    server.execute("CREATE ROLE locked LOGIN PASSWORD 'secret'")
    try:
        hba.write_text("local all locked scram-sha-256\n" + before)
        server.execute("SELECT pg_reload_conf()")
        url = server.url("postgres", "locked").replace("locked@", "locked:wrong@")
        error = refused(DatabaseOptions(url, 1))
    finally:
        hba.write_text(before)
        server.execute("SELECT pg_reload_conf()")
    assert (error.code, "password authentication failed" in error.reason) == ("E_STORE_ACCESS", True)
    assert "wrong" not in error.reason


def test_without_connections_left_it_is_unavailable_and_recovers(server: Cluster) -> None:
    url = server.database()
    server.execute("CREATE ROLE few LOGIN SUPERUSER CONNECTION LIMIT 2")
    server.execute("ALTER ROLE few NOSUPERUSER")
    server.execute(f"GRANT ALL ON DATABASE {url.split('/')[3].split('?')[0]} TO few")
    options = DatabaseOptions(url.replace("postgres@", "few@"), 1, wait_ms=0)
    lease, store = opened(options)
    store.append([BOX])
    assert refused(options).code == "E_STORE_UNAVAILABLE"
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%store'")
    with psycopg.connect(options.url), suppress(StoreError):
        store.append([Stored(1, b"a", (1,))])
    while not store.has_room():
        threading.Event().wait(0.02)
    store.append([Stored(2, b"b", (1,))])
    assert list(store.recover().waiting[1].seqs)[-1] == 2
    store.close()
    lease.release()
