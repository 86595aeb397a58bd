"""The table [store] of the configuration."""

from dataclasses import dataclass

from tidings.broker.config.schema_reader import setting


@dataclass(frozen=True, slots=True)
class StoreTable:
    url: str = setting(
        "",
        "the PostgreSQL database that keeps messages, as in postgresql://tidings@db1,db2/tidings?sslmode=verify-full; "
        "every option of libpq is possible; empty: a file in the data directory",
    )
    password_file: str = setting("", "with url: a file with the password, and nothing else; empty: libpq's own ways")
    require_synchronous: bool = setting(
        False, "with url: refuse a database that acknowledges before a standby has the write; false: log a warning"
    )
    lease_ms: float = setting(
        3000.0,
        "with url: time without a sign of life after which another process may take over this broker's messages",
        minimum=200,
        maximum=600_000,
    )
    cut_off_ms: float = setting(
        5000.0,
        "with url and standby: time without its database after which the process that serves ends, so that clients go "
        "to the one that has taken over; 0: it stays, and serves what is not persistent",
        minimum=0,
        maximum=3_600_000,
    )
    wait_ms: float = setting(
        10_000.0,
        "with url: time for which persistent messages wait for a database that is gone; then they are refused with "
        "E_STORE_UNAVAILABLE until it is back",
        minimum=0,
        maximum=3_600_000,
    )
    quota_bytes: int = setting(
        16 << 30,
        "with url: bytes of messages that wait in the database before more are refused with E_STORE_FULL; its tables "
        "take up to about three times that; 0: no limit",
        minimum=0,
        maximum=1 << 50,
    )
    standby: bool = setting(
        False,
        "this broker is one of several processes for the same store: whoever has its lease serves, the others wait and "
        "one takes over when the lease is free; false: a store in use is an error",
    )
