"""The lease of a store in a database: an advisory lock of a session, a row with the epoch, and signs of life.

The epoch is what counts: it rises with each tenure, and every commit proves it in the same transaction (`file`), so it
does not matter how late a process finds out that it has lost the lease. Lock and signs of life are there to find out
soon whether the holder is gone:

- The lock is free as soon as the holder's session ends: when it dies, when its host closes its connections.
- A holder that was stopped, or whose host is cut off, may keep its session for long. It gives no sign of life any
  more, which is a counter that rises several times in `lease_ms`: after that time its session is ended and the lock
  taken. A process that waits measures that time with its own clock, from the change of the counter it saw last.
- A holder that hears nothing from the database for `cut_off_ms` takes the lease for lost itself. It could commit
  nothing anyway; but its clients should look for the process that may have taken over, and only it can send them away.
- When the database itself was restarted all sessions are gone at once; so the lock alone is not enough to take the
  lease of a holder that has not released it, unless it is known to be dead: some time without signs of life must pass.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import psycopg

from tidings.errors import StoreError
from tidings.store.postgresql.errors import store_error
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.session import Session, connect, one

log = logging.getLogger("tidings.store")
LOCK_CLASS = 0x5449
POLL_SECONDS = 0.1
BEATS = 4  # signs of life in `lease_ms`
FREE_SHARE = 3  # part of that time must pass when the lock was seen to become free

_LOOK = "SELECT pg_try_advisory_lock(%s, %s), epoch, beat, holder FROM tidings.lease WHERE broker = %s"
_UNLOCK = "SELECT pg_advisory_unlock(%s, %s)"
_TAKE = "UPDATE tidings.broker SET epoch = epoch + 1 WHERE broker = %s RETURNING epoch"
_HOLD = "UPDATE tidings.lease SET epoch = %s, beat = beat + 1, holder = %s WHERE broker = %s"
_BEAT = "UPDATE tidings.lease SET beat = beat + 1 WHERE broker = %s AND epoch = %s RETURNING beat"
_FREE = "UPDATE tidings.lease SET beat = beat + 1, holder = '' WHERE broker = %s AND epoch = %s"
_END_HOLDERS = """
SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid = %s::oid AND objid = %s::bigint::oid
"""


def _myself() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _is_dead(holder: str) -> bool:
    """True if the holder was a process of this host that is no more."""
    host, _, pid = holder.rpartition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


class DatabaseLease:
    def __init__(self, options: DatabaseOptions) -> None:
        self._options = options
        self._keys = (LOCK_CLASS, (options.broker + 2**31) % 2**32 - 2**31)
        self._db: Session | None = None
        self._pids: list[int] = []  # of sessions of ours
        self._seen: tuple[int, int] | None = None  # epoch and beat
        self._seen_seconds = 0.0
        self._is_free = False  # the lock was, but it was too soon to take it
        self._was_held = False  # in this session the lock was seen in other hands
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []
        self._heard_seconds = 0.0  # when the database answered last
        self._callbacks: list[Callable[[StoreError], None]] = []
        self._mutex = threading.Lock()
        self._epoch = 0
        self.holder = ""  # as seen last
        self.lost: StoreError | None = None

    @property
    def epoch(self) -> int:
        return self._epoch

    def acquire(self) -> bool:
        while not self.look():
            if not self._is_free:
                return False
            time.sleep(POLL_SECONDS)  # its holder may be dead, which is known if there is no sign of life
        return True

    def look(self) -> bool:
        """Take the lease if it is free by now; True: it is held."""
        if self._epoch:
            return self.lost is None
        try:
            return self._try()
        except psycopg.Error as error:
            self._drop()
            raise store_error(error, self._options.place) from None

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            failure: StoreError | None = None
            try:
                if self.look():
                    return True
            except StoreError as error:
                if not error.retryable:
                    raise
                failure = error
            left = deadline - time.monotonic()
            if left <= 0:
                if failure is not None:
                    raise failure
                return False
            time.sleep(min(POLL_SECONDS, left))

    def on_lost(self, callback: Callable[[StoreError], None]) -> None:
        with self._mutex:
            self._callbacks.append(callback)
            lost = self.lost
        if lost is not None:
            callback(lost)

    def lose(self, error: StoreError | None = None) -> StoreError:
        """It turned out that another process has the lease, or that the database is not the one it was."""
        with self._mutex:
            first = self.lost is None
            lost = self.lost = self.lost or error or self._taken()
            callbacks = list(self._callbacks) if first else []
        self._end.set()
        for callback in callbacks:
            callback(lost)
        return lost

    def _taken(self) -> StoreError:
        reason = "another process has taken the lease of this store and writes it now; this one can write nothing more"
        return StoreError("E_STORE_LEASE", f"{self._options.place}, broker {self._options.broker}: {reason}")

    def release(self) -> None:
        self._end.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        if self._db is not None and self._epoch and self.lost is None:
            with suppress(psycopg.Error):
                self._db.execute(_FREE, (self._options.broker, self._epoch))
        self._drop()
        self._epoch = 0

    # --- acquiring ---

    def _try(self) -> bool:
        db = self._session()
        row = db.execute(_LOOK, (*self._keys, self._options.broker)).fetchone()
        assert row is not None
        free, epoch, beat, self.holder = row
        now = time.monotonic()
        if self._seen != (epoch, beat):
            self._seen, self._seen_seconds = (epoch, beat), now
        silence = (now - self._seen_seconds) * 1000
        self._is_free = bool(free)
        if free:
            patience = self._options.lease_ms / (FREE_SHARE if self._was_held else 1)
            if not self.holder or self.holder == _myself() or silence >= patience or _is_dead(self.holder):
                self._take(db)
                return True
            db.execute(_UNLOCK, self._keys)
        else:
            self._was_held = True
            if silence >= self._options.lease_ms:
                db.execute(_END_HOLDERS, self._keys)
                self._was_held, self._seen_seconds = True, now - self._options.lease_ms / 1000
        return False

    def _take(self, db: Session) -> None:
        with db.transaction():
            db.execute("SET LOCAL synchronous_commit = on")
            epoch = one(db, _TAKE, (self._options.broker,))  # waits for a commit that is under way
            assert isinstance(epoch, int)
            db.execute(_HOLD, (epoch, _myself(), self._options.broker))
        self._epoch = epoch
        self._end.clear()
        self._heard_seconds = time.monotonic()
        work = [self._keep, self._watch] if self._options.cut_off_ms else [self._keep]
        self._threads = [threading.Thread(target=one, name="store-lease", daemon=True) for one in work]
        for thread in self._threads:
            thread.start()

    def _session(self) -> Session:
        if self._db is None:
            # Holding the lease needs no standby of the server; only writing does.
            synchronous = self._options.require_synchronous and not self._epoch
            db = connect(replace(self._options, require_synchronous=synchronous), "lease")
            try:
                db.execute("SET synchronous_commit = off")  # signs of life need not be on disk
            except psycopg.Error as error:
                db.close()
                raise store_error(error, self._options.place) from None
            self._db, self._seen, self._was_held = db, None, False
            self._pids.append(db.info.backend_pid)
        return self._db

    def _drop(self) -> None:
        if self._db is not None:
            with suppress(psycopg.Error):
                self._db.close()
            self._db = None

    # --- holding ---

    def _keep(self) -> None:
        """Signs of life, until the lease is released or lost."""
        while not self._end.wait(self._options.lease_ms / 1000 / BEATS):
            self.beat()

    def beat(self) -> None:
        """One sign of life; the lease is lost if another process has it."""
        try:
            regain = self._db is None
            db = self._session()
            if one(db, _BEAT, (self._options.broker, self._epoch)) is None:
                self.lose()
                return
            self._heard_seconds = time.monotonic()
            if regain:
                self._lock_again(db)
        except (psycopg.Error, StoreError) as error:
            log.debug("no sign of life: %s", error)
            self._drop()

    def check_heard(self) -> None:
        """The lease is lost if the database was not heard for too long."""
        cut_off_seconds = self._options.cut_off_ms / 1000
        if cut_off_seconds and time.monotonic() - self._heard_seconds > cut_off_seconds:
            reason = f"the database was not heard for {cut_off_seconds:g} s; another process may have the lease"
            place = f"{self._options.place}, broker {self._options.broker}"
            self.lose(StoreError("E_STORE_CUT_OFF", f"{place}: {reason}"))

    def _watch(self) -> None:
        """A sign of life to a database that is cut off waits for long: so another thread looks at the time."""
        while not self._end.wait(min(POLL_SECONDS, self._options.cut_off_ms / 1000 / BEATS)):
            self.check_heard()

    def _lock_again(self, db: Session) -> None:
        """After a new connection; a session of before that the server still keeps is ended."""
        for _ in range(2):
            if one(db, "SELECT pg_try_advisory_lock(%s, %s)", self._keys):
                return
            for pid in self._pids[:-1]:
                db.execute(f"{_END_HOLDERS} AND pid = %s".encode(), (*self._keys, pid))
        self._drop()  # someone looks at it at this moment: the next sign of life tries again
