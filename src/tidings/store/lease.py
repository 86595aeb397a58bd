"""The lease of a store: the right of one process to write it under one identity, and the places where stores are.

A process acquires the lease, opens the store with it and is the only writer until it releases the lease, ends or loses
it. Each tenure has an *epoch*, which rises; a store that several machines reach proves it in every transaction, so that
a process that lost its lease without noticing can commit nothing.

    place = SqlitePlace(Path("messages.db"))
    lease = place.lease()
    while not lease.wait(1.0): ...       # a standby waits here
    lease.on_lost(stop)
    store = place.open(lease)            # recovers
    ...
    store.close()
    lease.release()                      # the next one that waits has it at once
"""

from collections.abc import Callable
from typing import Protocol

from tidings.delivery.store import Store
from tidings.errors import StoreError


class Lease(Protocol):
    """Calls may come from any thread, one at a time; they block on the network or the disk, so not the event loop's."""

    @property
    def epoch(self) -> int:
        """Of the tenure, from 1; rises from tenure to tenure where machines share a store. 0: the lease is not held."""

    def acquire(self) -> bool:
        """Try now; True: held from now on. If a holder is gone without having released it, it may take a moment to be
        sure of that. StoreError: the store cannot be reached or is not usable."""

    def wait(self, seconds: float) -> bool:
        """Acquire the lease as soon as it is free; False: it was not within this time. StoreError: at the end of it the
        store could not be reached."""

    def on_lost(self, callback: Callable[[StoreError], None]) -> None:
        """Call this once, on a thread of the lease, when it turns out that another process holds the lease. From then
        on every write is refused with the same error (E_STORE_LEASE): the process should end."""

    def release(self) -> None:
        """Let another process have it; to be called when the store is closed. Again: no effect."""


class StorePlace(Protocol):
    """A store that may or may not be there yet: a file, a database."""

    @property
    def name(self) -> str:
        """For messages; without passwords."""

    def lease(self) -> Lease:
        """Not acquired yet."""

    def open(self, lease: Lease) -> Store:
        """The store, made if there was none. The lease, of this place, must be held."""
