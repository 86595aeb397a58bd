"""Chooses the place of a broker's store by its configuration: a file in the data directory, or a database."""

from pathlib import Path

from tidings.broker.config.tables import Configuration
from tidings.store.lease import StorePlace
from tidings.store.sqlite.place import STORE, SqlitePlace


def store_place(configuration: Configuration) -> StorePlace:
    table = configuration.store
    if not table.url:
        return SqlitePlace(Path(configuration.broker.data) / STORE)
    # Only those who use it have its client library.
    from tidings.store.postgresql.options import DatabaseOptions
    from tidings.store.postgresql.place import PostgresPlace

    return PostgresPlace(
        DatabaseOptions(
            table.url,
            configuration.broker.number,
            password_file=table.password_file,
            require_synchronous=table.require_synchronous,
            lease_ms=table.lease_ms,
            cut_off_ms=table.cut_off_ms if table.standby else 0.0,
            wait_ms=table.wait_ms,
            quota_bytes=table.quota_bytes,
        )
    )
