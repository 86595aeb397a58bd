"""The store in a PostgreSQL database: the log of batches (`tidings.store.log.store`), with an index in memory.

PostgreSQL does what it is good at: the transaction, and copies of it on other machines. The messages of a broker
outlive its machine: another process with the same identity takes the lease and goes on (`lease`).

What is guaranteed
- `append` returns after the commit, which is on the server's disk, and on that of a standby if the server is so
  configured (`synchronous_standby_names`; `require_synchronous` refuses one that is not). After a crash of broker,
  machine or server every batch that returned is there, every other one as a whole or not at all.
- Only the holder of the lease commits; the epoch is proven in every transaction.
- A commit whose answer never came is found out, never guessed. `append` waits for that; after `wait_ms` it raises
  StoreError, and if the batch turns out to be committed when a server is reached again, it is taken back, so that what
  was refused has not happened: no message comes later, no acknowledgement of a transaction counts without the rest.
  If the process dies before, the batch is there as a whole at its next start: the one exception from "after StoreError
  nothing of it is in the store".
- Damage is noticed when the store is opened and when a message is read (a checksum for each record, as in SQLite's
  store); it is never passed on, and costs the record it hits. Pages are for the server to check (`initdb
  --data-checksums`).
- If the server fails over to one that lacks confirmed batches, that is noticed, and nothing is written to it by this
  process.
- The room is bounded by `quota_bytes` of messages that wait; the tables take about three times that at most, and
  what the server's vacuum has not reused yet. On a full disk of the server nothing can be written, also no
  acknowledgement; the quota should prevent it.

All calls may come from any thread, one at a time.
"""

from collections.abc import Sequence

from tidings.delivery.batch_codec import scan
from tidings.delivery.store import Record, Recovered
from tidings.store.log.store import LogLimits, LogStore
from tidings.store.postgresql.file import Pending, PostgresFile
from tidings.store.postgresql.lease import DatabaseLease
from tidings.store.postgresql.options import DatabaseOptions


class PostgresStore(LogStore[PostgresFile]):
    def __init__(self, options: DatabaseOptions, lease: DatabaseLease, limits: LogLimits | None = None) -> None:
        """The lease is the caller's, who holds it (`place`)."""
        super().__init__(limits or LogLimits(quota_bytes=options.quota_bytes))
        self._file = PostgresFile(options, lease, self._load)

    def append(self, batch: Sequence[Record]) -> None:
        self._resolve()
        super().append(batch)

    def recover(self) -> Recovered:
        self._resolve()
        return super().recover()

    def maintain(self) -> bool:
        self._resolve()
        return super().maintain()

    def _resolve(self) -> None:
        """Find out the fate of a batch whose answer never came. It was refused: if it is there, it is taken back."""
        if self._file.pending is None or self._closed:
            return
        with self._use:
            pending = self._file.pending
            if not self._file.found():
                self._file.pending = None
            elif not self._take_in_moved(pending):
                self._file.undo(self._contents.state.rows(pending.changes))

    def _move(self, size: int) -> None:
        if self._file.pending is None:  # otherwise the number of the next batch is not known
            super()._move(size)

    def _take_in_moved(self, pending: Pending) -> bool:
        """Note a batch of messages that were moved, of which nobody was refused anything; False: it is another one."""
        contents, blob = self._contents, pending.blob
        contents.settle()
        found = scan(blob, trusted=True)
        if not len(found.seqs) or found.seqs[0] > contents.last_seq:
            return False
        self._file.keep()
        contents.newest = pending.number
        contents.index.move(found, len(blob))
        contents.index.forget(pending.oldest)
        return True
