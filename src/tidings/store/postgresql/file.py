"""A broker's log in the tables of a database: batches written in one statement each, whose fate is always found out.

Writing. A batch is one statement, so one message to the server, one transaction and one commit:

    proof      the broker's row, with the epoch of the lease and the number of this session, locked against change
    removed    batches that nothing needs any more; changed rows of the state
    batch      the new one, inserted if there is proof

The lock is shared and lasts until the commit; whoever takes the lease changes the row and so waits for it. A process
that lost the lease finds another epoch: no proof, nothing written.

A connection that is lost before the answer leaves open whether the batch was committed. The next session first adds one
to the session's number in the broker's row: that waits for a statement that is still under way at the server, and one
that has not begun finds no proof any more. After that the batch is there or never will be, and a look tells. If no
writable server can be reached for `wait_ms`, the batch is refused and kept in `pending`: before the store writes
anything else it looks for it and, if it is there, takes it back (`undo`).
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg.types.numeric import Int8

from tidings.errors import StoreError
from tidings.store.log.page import BatchPage
from tidings.store.log.state import VERSION_KEY, StateChange
from tidings.store.postgresql.errors import is_lost, store_error
from tidings.store.postgresql.lease import DatabaseLease
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.session import Session, connect, one, setting, unsynchronized, warnings

log = logging.getLogger("tidings.store")
RETRY_SECONDS = (0.05, 1.0)  # between attempts to connect: at first, at last
READ_BYTES = 8 << 20  # of batches that are read together at the start
COPIES = (0, 1)  # of the state

_PROOF: LiteralString = """
WITH proof AS MATERIALIZED (
  SELECT broker FROM tidings.broker WHERE broker = %(broker)b AND epoch = %(epoch)b AND session = %(session)b
  AND (NOT %(synchronous)b OR current_setting('synchronous_standby_names') <> '') FOR SHARE
)"""
_INSERT: LiteralString = "INSERT INTO tidings.batch SELECT broker, %(number)b, %(payload)b FROM proof RETURNING number"
_CHANGES: LiteralString = """
, removed AS (
  DELETE FROM tidings.batch USING proof WHERE batch.broker = proof.broker AND number < %(oldest)b
), unset AS (
  DELETE FROM tidings.state USING proof WHERE state.broker = proof.broker AND key = ANY(%(gone)s::text[])
), changed AS (
  INSERT INTO tidings.state SELECT broker, copy, key, record
  FROM proof, unnest(%(keys)s::text[], %(records)s::bytea[]) AS new (key, record), unnest(%(copies)s::int[]) AS copy
  ON CONFLICT (broker, copy, key) DO UPDATE SET record = excluded.record
) """
_UNDO: LiteralString = """, undone AS (
  DELETE FROM tidings.batch USING proof WHERE batch.broker = proof.broker AND number = %(number)b
) SELECT broker FROM proof"""
_SESSION = "UPDATE tidings.broker SET session = session + 1 WHERE broker = %s AND epoch = %s RETURNING session"
_SIZES = "SELECT number, octet_length(payload) FROM tidings.batch WHERE broker = %s ORDER BY number"
_RANGE = "SELECT number, payload FROM tidings.batch WHERE broker = %s AND number BETWEEN %s AND %s ORDER BY number"

Load = Callable[[Sequence[Mapping[object, object]], Iterator[tuple[int, bytes]]], None]


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch whose fate is open."""

    number: int
    blob: bytes
    changes: Sequence[StateChange]
    oldest: int


class PostgresFile:
    def __init__(self, options: DatabaseOptions, lease: DatabaseLease, load: Load) -> None:
        self._options, self._lease = options, lease
        self._db: Session | None = None
        self._session_number = 0
        self._newest = 0  # batch known to be committed
        self._alarmed = False  # the server has warned during the last statement
        self._down_since: float | None = None
        self._retry_seconds = RETRY_SECONDS[0]
        self._retry_at = 0.0
        self._warned: list[str] = []
        self.pending: Pending | None = None
        self._page = BatchPage(self.batch)
        db = self._connected()
        try:
            load(self.settings(), self.batches())
            self._newest = self._last(db)
        except psycopg.Error as error:
            self.close()
            raise store_error(error, options.place) from None

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def translate(self, error: BaseException) -> None:
        if isinstance(error, psycopg.Error):
            raise store_error(error, self._options.place) from error

    def is_full(self, error: Exception) -> bool:
        return isinstance(error, StoreError) and error.code == "E_STORE_FULL"

    def tidy(self) -> bool:
        return False  # the server's own housekeeping removes what was deleted

    # --- reading ---

    def settings(self) -> list[dict[object, object]]:
        db = self._connected()
        query = "SELECT key, record FROM tidings.state WHERE broker = %s AND copy = %s"
        return [dict(db.execute(query, (self._options.broker, copy), binary=True)) for copy in COPIES]

    def batches(self) -> Iterator[tuple[int, bytes]]:
        """All batches in order, some megabytes at a time."""
        db = self._connected()
        first, last, size = 0, 0, 0
        for number, length in db.execute(_SIZES, (self._options.broker,)).fetchall():
            if size and size + length > READ_BYTES:
                yield from db.execute(_RANGE, (self._options.broker, first, last), binary=True)
                size = 0
            first = number if not size else first
            last, size = number, size + length
        if size:
            yield from db.execute(_RANGE, (self._options.broker, first, last), binary=True)

    def batch(self, number: int) -> bytes | None:
        db = self._connected()
        try:
            row = db.execute(_RANGE, (self._options.broker, number, number), binary=True).fetchone()
        except psycopg.Error as error:
            raise self._failed(error, db) from None
        return None if row is None else bytes(row[1])

    def message(self, number: int, start: int, size: int) -> bytes | None:
        return self._page.message(number, start, size)

    def fill(self, settings: Sequence[Mapping[object, object]], batches: Iterator[tuple[int, bytes]]) -> None:
        db, broker = self._connected(), self._options.broker
        with db.transaction(), db.cursor() as cursor:
            proof = "SELECT 1 FROM tidings.broker WHERE broker = %s AND epoch = %s FOR SHARE"
            if one(db, proof, (broker, self._lease.epoch)) is None:
                raise self._lease.lose()
            with cursor.copy("COPY tidings.state (broker, copy, key, record) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(["int8", "int4", "text", "bytea"])
                for number, rows in enumerate(settings):
                    for key, record in rows.items():
                        if key != VERSION_KEY:
                            copy.write_row((broker, COPIES[number], key, record))
            with cursor.copy("COPY tidings.batch (broker, number, payload) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(["int8", "int8", "bytea"])
                for batch in batches:
                    copy.write_row((broker, *batch))

    # --- writing ---

    def check(self, *, frees: bool) -> None:
        del frees
        if self._lease.lost is not None:
            raise self._lease.lost

    def has_room(self) -> bool:
        """True if a server can be written."""
        try:
            self._connected()
        except StoreError:
            return False
        return True

    def write(
        self, number: int, blob: bytes, changes: Sequence[StateChange], *, delete_before: int, frees: bool
    ) -> None:
        del frees
        sent = False  # and perhaps committed
        while True:
            try:
                db = self._connected()
                if not sent or self._last(db) < number:
                    sent = True
                    self._execute(db, number, blob, changes, delete_before)
                self._newest = number
                return
            except psycopg.Error as error:
                known = self._db is not None and not is_lost(error, self._db)
                failure = self._failed(error, self._db)
                if known and failure.code != "E_STORE_UNAVAILABLE":
                    raise failure from None  # the server has refused it
                sent = sent and not known
            except StoreError as error:
                if not error.retryable:
                    raise
                failure = error
            if self._waited_long():
                self.pending = Pending(number, blob, tuple(changes), delete_before) if sent else None
                raise failure
            time.sleep(self._retry_seconds)

    def found(self) -> bool:
        """True if the pending batch was committed after all, False if it never will be. StoreError: not known yet."""
        assert self.pending is not None
        db = self._connected()
        try:
            return self._last(db) == self.pending.number
        except psycopg.Error as error:
            raise self._failed(error, db) from None

    def keep(self) -> None:
        """The pending batch was committed and stays."""
        assert self.pending is not None
        self._newest, self.pending = self.pending.number, None

    def undo(self, rows: Mapping[str, bytes | None]) -> None:
        """The pending batch was committed, and is deleted again; `rows`: what it changed in the state, as it was.

        StoreError: it is tried again. Nothing was deleted with the batch that anybody needs.
        """
        assert self.pending is not None
        db, parameters = self._connected(), self._parameters(self.pending.number)
        parameters |= self._changes(rows, 0)
        try:
            if db.execute(_PROOF + _CHANGES + _UNDO, parameters).rowcount == 0:
                raise self._without_proof(db)
        except psycopg.Error as error:
            raise self._failed(error, db) from None
        self.pending = None

    def _execute(
        self, db: Session, number: int, blob: bytes, changes: Sequence[StateChange], delete_before: int
    ) -> None:
        parameters = self._parameters(number) | {"payload": blob}
        self._alarmed = False
        if changes or delete_before:
            parameters |= self._changes({change.key: change.blob for change in changes}, delete_before)
            cursor = db.execute(_PROOF + _CHANGES + _INSERT, parameters, prepare=True)
        else:
            cursor = db.execute(_PROOF + _INSERT, parameters, prepare=True)
        if cursor.rowcount == 0:
            raise self._without_proof(db)
        if self._alarmed:  # waiting for a standby was cancelled: committed here, perhaps nowhere else
            self._drop()
            raise psycopg.OperationalError("the commit was not confirmed by a standby")

    def _parameters(self, number: int) -> dict[str, object]:
        return {
            "broker": Int8(self._options.broker),
            "epoch": Int8(self._lease.epoch),
            "session": Int8(self._session_number),
            "synchronous": self._options.require_synchronous,
            "number": Int8(number),
        }

    def _changes(self, rows: Mapping[str, bytes | None], delete_before: int) -> dict[str, object]:
        """Parameters of rows of the state to be set or (None) deleted, and of batches to be deleted."""
        kept = {key: blob for key, blob in rows.items() if blob is not None}
        gone = [key for key in rows if key not in kept]
        columns: dict[str, object] = {"keys": [*kept], "records": [*kept.values()], "copies": [*COPIES]}
        return columns | {"oldest": Int8(delete_before), "gone": gone}

    def _without_proof(self, db: Session) -> StoreError:
        epoch = one(db, "SELECT epoch FROM tidings.broker WHERE broker = %s", (self._options.broker,))
        synchronous = not self._options.require_synchronous or setting(db, "synchronous_standby_names")
        if epoch == self._lease.epoch and not synchronous:
            self._drop()
            return unsynchronized(self._options)
        return self._lease.lose()

    # --- the connection ---

    def _connected(self) -> Session:
        """A session that may write; StoreError, at once if an attempt has just failed."""
        if self._db is not None:
            return self._db
        if time.monotonic() < self._retry_at:
            raise StoreError("E_STORE_UNAVAILABLE", f"{self._options.place}: no writable server can be reached")
        try:
            db = connect(self._options, "store")
        except StoreError:
            self._gone()
            raise
        try:
            self._begin(db)
        except (psycopg.Error, StoreError) as error:
            db.close()
            self._gone()
            if isinstance(error, psycopg.Error):
                raise store_error(error, self._options.place) from None
            raise
        self._db, self._down_since, self._retry_seconds, self._retry_at = db, None, RETRY_SECONDS[0], 0.0
        return db

    def _begin(self, db: Session) -> None:
        """Nothing that an earlier session of ours has sent is committed from here on."""
        db.add_notice_handler(self._notice)
        number = one(db, _SESSION, (self._options.broker, self._lease.epoch))
        if number is None:
            raise self._lease.lose()
        assert isinstance(number, int)
        self._session_number = number
        if self._last(db) < self._newest:
            lost = f"it has batches up to {self._last(db)}, and {self._newest} was confirmed"
            remedy = "it failed over to a server without them; restart the broker to go on with what is there"
            raise self._lease.lose(StoreError("E_STORE_DAMAGED", f"{self._options.place}: {lost}: {remedy}"))
        for warning in warnings(db):
            if warning not in self._warned:
                self._warned.append(warning)
                log.warning("%s: %s", self._options.place, warning)

    def _last(self, db: Session) -> int:
        found = one(db, "SELECT max(number) FROM tidings.batch WHERE broker = %s", (self._options.broker,))
        return found if isinstance(found, int) else 0

    def _notice(self, notice: psycopg.errors.Diagnostic) -> None:
        self._alarmed = self._alarmed or notice.severity_nonlocalized == "WARNING"

    def _failed(self, error: psycopg.Error, db: Session | None) -> StoreError:
        found = store_error(error, self._options.place)
        if db is None or is_lost(error, db):
            found = StoreError("E_STORE_UNAVAILABLE", found.reason)
        if found.code == "E_STORE_UNAVAILABLE":
            self._drop()
        return found

    def _drop(self) -> None:
        self.close()
        if self._down_since is None:
            self._down_since = time.monotonic()

    def _gone(self) -> None:
        self._drop()
        self._retry_at = time.monotonic() + self._retry_seconds / 2
        self._retry_seconds = min(2 * self._retry_seconds, RETRY_SECONDS[1])

    def _waited_long(self) -> bool:
        since = self._down_since
        return since is not None and (time.monotonic() - since) * 1000 >= self._options.wait_ms
