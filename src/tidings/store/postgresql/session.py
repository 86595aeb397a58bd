"""Sessions with a writable server, and the tables of stores.

    tidings.version   the version of these tables
    tidings.broker    1 row = 1 broker: the epoch of its lease, and the number of the session that writes
    tidings.lease     1 row = 1 broker: signs of life of whoever holds the lease
    tidings.batch     1 row = 1 batch of a broker's log, as it was packed; not compressed
    tidings.state     the small state, two copies of each row

One database serves many brokers; every table names the broker first.
"""

import psycopg
from psycopg.rows import TupleRow

from tidings.errors import StoreError
from tidings.store.postgresql.errors import store_error
from tidings.store.postgresql.options import DatabaseOptions

Session = psycopg.Connection[TupleRow]
VERSION = 1
SERVER_MIN = 150000
SCHEMA_KEY = 0x5449444E  # of the advisory lock under which the tables are made
SETTLED = ("on", "remote_apply")  # values of synchronous_commit that promise enough
SETUP = """
SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;
SET tcp_user_timeout = 10000; SET client_min_messages = warning; SET statement_timeout = 0;
SET idle_in_transaction_session_timeout = 0; SET default_transaction_isolation = 'read committed'
"""
TABLES = """
CREATE SCHEMA IF NOT EXISTS tidings;
CREATE TABLE tidings.version (version int NOT NULL);
INSERT INTO tidings.version VALUES ({version});
CREATE TABLE tidings.broker (
  broker bigint PRIMARY KEY, epoch bigint NOT NULL DEFAULT 0, session bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
CREATE TABLE tidings.lease (
  broker bigint PRIMARY KEY, epoch bigint NOT NULL DEFAULT 0, beat bigint NOT NULL DEFAULT 0,
  holder text NOT NULL DEFAULT ''
) WITH (fillfactor = 10);
CREATE TABLE tidings.batch (
  broker bigint NOT NULL, number bigint NOT NULL, payload bytea NOT NULL, PRIMARY KEY (broker, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0,
        toast.autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tidings.batch ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE TABLE tidings.state (
  broker bigint NOT NULL, copy int NOT NULL, key text NOT NULL, record bytea NOT NULL, PRIMARY KEY (broker, copy, key)
)
"""


def connect(options: DatabaseOptions, purpose: str) -> Session:
    """A session with a server that can be written, its tables there. StoreError otherwise."""
    try:
        db: Session = psycopg.connect(options.conninfo(purpose), autocommit=True)
    except psycopg.Error as error:
        raise store_error(error, options.place) from None
    try:
        _set_up(db, options)
    except psycopg.Error as error:
        db.close()
        raise store_error(error, options.place) from None
    except BaseException:
        db.close()
        raise
    return db


def _set_up(db: Session, options: DatabaseOptions) -> None:
    if db.info.server_version < SERVER_MIN:
        found = f"{db.info.server_version // 10000}"
        raise StoreError("E_STORE_VERSION", f"{options.place}: PostgreSQL 15 or later is needed, the server is {found}")
    db.execute(SETUP)
    if setting(db, "transaction_read_only") == "on":
        raise StoreError("E_STORE_UNAVAILABLE", f"{options.place}: no writable server: this one is read-only")
    if setting(db, "synchronous_commit") not in SETTLED:
        db.execute("SET synchronous_commit = on")
    if options.require_synchronous and not setting(db, "synchronous_standby_names"):
        raise unsynchronized(options)
    _make_tables(db, options)
    with db.transaction():
        for table in ("broker", "lease"):
            statement = f"INSERT INTO tidings.{table} (broker) VALUES (%s) ON CONFLICT DO NOTHING"
            db.execute(statement.encode(), (options.broker,))


def unsynchronized(options: DatabaseOptions) -> StoreError:
    reason = f"{options.place}: it acknowledges before a standby has the write (synchronous_standby_names is empty)"
    return StoreError("E_STORE_SYNCHRONOUS", f"{reason}; name standbys there, or set store.require_synchronous = false")


def _make_tables(db: Session, options: DatabaseOptions) -> None:
    if one(db, "SELECT to_regclass('tidings.version') IS NULL"):
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_KEY,))
            if one(db, "SELECT to_regclass('tidings.version') IS NULL"):
                db.execute(TABLES.format(version=VERSION).encode())
    found = one(db, "SELECT max(version) FROM tidings.version")
    if found != VERSION:
        reason = f"{options.place}: its tables have version {found}, this program supports {VERSION}"
        raise StoreError("E_STORE_VERSION", reason)


def warnings(db: Session) -> list[str]:
    """Settings of the server under which confirmed messages can be lost."""
    found = []
    if not setting(db, "synchronous_standby_names"):
        loss = "messages confirmed last are lost if the server fails over to a standby, all if its disk is lost"
        found.append(f"no synchronous standby: {loss}")
    if setting(db, "fsync") == "off":
        found.append("fsync = off: confirmed messages are lost in a power failure")
    if setting(db, "full_page_writes") == "off":
        found.append("full_page_writes = off: a power failure can damage stored messages")
    return found


def setting(db: Session, name: str) -> str:
    return str(one(db, "SELECT current_setting(%s)", (name,)))


def one(db: Session, query: str, parameters: tuple[object, ...] = ()) -> object:
    """The first value of the first row; None: no row."""
    row = db.execute(query.encode(), parameters or None).fetchone()
    return None if row is None else row[0]
