"""Fencing: a process that was killed, stopped or cut off, and its successor."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import psycopg
import pytest
from hardening.support.postgresql import Cluster, cluster

from tidings.delivery.store import MailboxAdded, Stored
from tidings.errors import StoreError, UsageError
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.place import PostgresPlace

BOX = MailboxAdded(1, "queue:a", "queue")
LEASE_MS = 600.0


def holder(url: str, confirmed: int) -> "subprocess.Popen[str]":
    """A process that holds the lease and has written as many messages."""
    command = [sys.executable, "-m", "hardening.kills.lease_holder", url, str(LEASE_MS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(confirmed):
        process.stdout.readline()
    return process


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_who_takes_over_has_all_that_was_confirmed_and_the_other_writes_nothing_more(
    server: Cluster, blow: signal.Signals
) -> None:
    url = server.database()
    process = holder(url, 20)
    place = PostgresPlace(DatabaseOptions(url, 1, lease_ms=LEASE_MS))
    lease = place.lease()
    assert not lease.wait(LEASE_MS / 1000 * 1.5), "it is held, and there are signs of life"
    with pytest.raises(UsageError, match="not held"):
        place.open(lease)
    os.kill(process.pid, blow)
    assert lease.wait(60)
    assert lease.epoch == 2
    store = place.open(lease)
    last = store.recover().last_seq
    assert list(store.recover().waiting[1].seqs) == list(range(1, last + 1))
    store.append([Stored(last + 1, b"of the successor", (1,))])
    os.kill(process.pid, signal.SIGCONT if blow is signal.SIGSTOP else blow)
    assert process.stdout is not None
    with process:
        said = process.stdout.read().split()
    if blow is signal.SIGSTOP:
        assert said.pop() == "E_STORE_LEASE"
    confirmed = [int(line) for line in said]
    assert confirmed[-1] in (last, last - 1), "the last one may have been committed without an answer"
    store.append([Stored(last + 2, b"still", (1,))])
    store.close()
    lease.release()
    with psycopg.connect(url) as db:
        assert db.execute("SELECT max(number) FROM tidings.batch").fetchone() == (last + 2,)


def test_a_released_lease_is_taken_at_once_and_its_old_holder_told_nothing(server: Cluster) -> None:
    place = PostgresPlace(DatabaseOptions(server.database(), 1, lease_ms=600_000))
    first, second = place.lease(), place.lease()
    lost: list[StoreError] = []
    assert first.wait(0)
    first.on_lost(lost.append)
    assert not second.wait(0)
    waiting = threading.Thread(target=second.wait, args=(60.0,))
    waiting.start()
    first.release()
    waiting.join()
    assert (second.epoch, lost) == (2, [])
    second.release()


def test_an_epoch_that_has_passed_commits_nothing_and_the_loss_is_told_once(server: Cluster) -> None:
    options = DatabaseOptions(server.database(), 1, lease_ms=600_000)
    place = PostgresPlace(options)
    lease = place.lease()
    assert lease.acquire()
    store = place.open(lease)
    store.append([BOX])
    lost: list[StoreError] = []
    lease.on_lost(lost.append)
    with psycopg.connect(options.url) as db:
        db.execute("UPDATE tidings.broker SET epoch = 7")
    for seq in (1, 2):
        with pytest.raises(StoreError, match="another process has taken the lease") as caught:
            store.append([Stored(seq, b"never", (1,))])
        assert caught.value.code == "E_STORE_LEASE"
        assert not caught.value.retryable
    assert [error.code for error in lost] == ["E_STORE_LEASE"]
    with psycopg.connect(options.url) as db:
        assert db.execute("SELECT count(*) FROM tidings.batch").fetchone() == (1,)
    store.close()
    lease.release()


def test_an_idle_holder_notices_that_it_has_lost_the_lease(server: Cluster) -> None:
    options = DatabaseOptions(server.database(), 1, lease_ms=100)
    lease = PostgresPlace(options).lease()
    told = threading.Event()
    assert lease.acquire()
    lease.on_lost(lambda error: told.set() if error.code == "E_STORE_LEASE" else None)
    with psycopg.connect(options.url) as db:
        db.execute("UPDATE tidings.lease SET epoch = 7")
    assert told.wait(60)
    lease.release()


@pytest.mark.parametrize("cut_off_ms", [0.0, 300.0])
def test_a_holder_that_does_not_hear_its_database_takes_the_lease_for_lost(cut_off_ms: float) -> None:
    with cluster() as server:
        lease = PostgresPlace(DatabaseOptions(server.database(), 1, lease_ms=100, cut_off_ms=cut_off_ms)).lease()
        assert lease.acquire()
        told = threading.Event()
        lease.on_lost(lambda error: told.set() if error.code == "E_STORE_CUT_OFF" else None)
        server.signal(signal.SIGSTOP)
        try:
            assert told.wait(60 if cut_off_ms else 1) == bool(cut_off_ms)
        finally:
            server.signal(signal.SIGCONT)
        assert (lease.lost is None) != bool(cut_off_ms)
        lease.release()


def test_a_holder_whose_sessions_were_ended_keeps_the_lease_if_nobody_else_takes_it(server: Cluster) -> None:
    options = DatabaseOptions(server.database(), 1, lease_ms=400)
    place = PostgresPlace(options)
    lease = place.lease()
    assert lease.acquire()
    store = place.open(lease)
    store.append([BOX])
    for seq in range(1, 4):
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tidings%'")
        store.append([Stored(seq, b"kept", (1,))])
        threading.Event().wait(0.3)
    other = PostgresPlace(replace(options, lease_ms=4000)).lease()
    assert not other.wait(0.5)
    assert lease.epoch == 1
    assert lease.lost is None
    assert list(store.recover().waiting[1].seqs) == [1, 2, 3]
    other.release()
    store.close()
    lease.release()
