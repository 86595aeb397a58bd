"""A store in a database as a place."""

from dataclasses import dataclass

from tidings.errors import UsageError
from tidings.store.lease import Lease
from tidings.store.log.store import LogLimits
from tidings.store.postgresql.lease import DatabaseLease
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.store import PostgresStore


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    options: DatabaseOptions
    limits: LogLimits | None = None

    @property
    def name(self) -> str:
        return f"broker {self.options.broker} in {self.options.place}"

    def lease(self) -> DatabaseLease:
        return DatabaseLease(self.options)

    def open(self, lease: Lease) -> PostgresStore:
        if not isinstance(lease, DatabaseLease) or not lease.epoch:
            raise UsageError("E_STORE_LEASE", f"the lease of broker {self.options.broker} is not held")
        return PostgresStore(self.options, lease, self.limits)
