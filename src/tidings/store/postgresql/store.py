"""The store in a PostgreSQL database: the log of batches (`tidings.store.log.store`), with an index in memory.

PostgreSQL does what it is good at: the transaction, and copies of it on other machines. The messages of a broker
outlive its machine: another process with the same identity takes the lease and goes on (`lease`).

What is guaranteed
- `append` returns after the commit, which is on the server's disk, and on that of a standby if the server is so
  configured (`synchronous_standby_names`; `require_synchronous` refuses one that is not). After a crash of broker,
  machine or server every batch that returned is there, every other one as a whole or not at all.
- Only the holder of the lease commits; the epoch is proven in every transaction.
- A commit whose answer never came is found out, never guessed. `append` waits for that; after `wait_ms` it raises
  StoreError, and if the batch turns out to be committed when a server is reached again, its messages are acknowledged
  at once, so that what was refused does not come later. If the process dies before, they are there at its next start:
  the one exception from "after StoreError nothing of it is in the store".
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

from tidings.delivery.batch_codec import scan, unpack
from tidings.delivery.store import Acked, Record, Recovered, Stored
from tidings.store.log.contents import Written
from tidings.store.log.store import LogLimits, LogStore
from tidings.store.postgresql.file import Pending, PostgresFile
from tidings.store.postgresql.lease import DatabaseLease
from tidings.store.postgresql.options import DatabaseOptions


class PostgresStore(LogStore[PostgresFile]):
    def __init__(self, options: DatabaseOptions, lease: DatabaseLease, limits: LogLimits | None = None) -> None:
        """The lease is the caller's, who holds it (`place`)."""
        super().__init__(limits or LogLimits(quota_bytes=options.quota_bytes))
        self._owed: list[Record] = []  # acknowledgements of messages that were refused and are there
        self._owed_sent = False  # these are in the batch whose fate is open
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
        """Find out the fate of a batch whose answer never came; let go of its messages if they were refused."""
        if self._closed:
            return
        if self._file.pending is not None:
            self._find_out(self._file.pending)
        if self._owed:
            try:
                super().append(self._owed)
            finally:
                self._owed_sent = self._file.pending is not None
            self._owed = []

    def _find_out(self, pending: Pending) -> None:
        with self._use:
            written = self._file.found()
            self._file.pending = None
            refused = self._take_in(pending) if written else []
        if self._owed_sent and written:
            self._owed = []
        self._owed_sent = False
        self._owed += refused

    def _move(self, size: int) -> None:
        if self._file.pending is None:  # otherwise the number of the next batch is not known
            super()._move(size)

    def _take_in(self, pending: Pending) -> list[Record]:
        """Note a batch of whose commit we hear late; returns what lets go of the messages that were refused."""
        contents, number, blob, oldest = self._contents, pending.number, pending.blob, pending.oldest
        contents.settle()
        found = unpack(blob)
        stored = [record for record in found.records if type(record) is Stored]
        if stored and stored[0].seq <= contents.last_seq:  # messages that were moved: nobody was refused
            contents.newest = number
            contents.index.move(scan(blob, trusted=True), len(blob))
            contents.index.forget(oldest)
            return []
        contents.newest, contents.last_seq = number, found.head.last_seq
        contents.unsettled.append(Written(number, blob, found.records, pending.changes, oldest))
        contents.settle()
        boxes = sorted({mailbox for record in stored for mailbox in record.mailboxes})
        return [
            Acked(mailbox, tuple(record.seq for record in stored if mailbox in record.mailboxes)) for mailbox in boxes
        ]
