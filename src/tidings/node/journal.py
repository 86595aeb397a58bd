"""What waits to be on disk, and what happens once it is.

Work done in one turn of the node is gathered and leaves as one `Persist`. There are two sorts of records. A message
is refused when it cannot be written: its publisher is told and may try again. A change of state (a mailbox made, a
message acknowledged) has happened all the same, so its record stays at the head of the line until it is written.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tidings.delivery.store import Record
from tidings.errors import TidingsError
from tidings.node.effects import Persist


@dataclass(slots=True)
class _Batch:
    changes: list[Record] = field(default_factory=list)
    messages: list[Record] = field(default_factory=list)
    on_done: list[Callable[[], None]] = field(default_factory=list)
    on_failed: list[Callable[[TidingsError], None]] = field(default_factory=list)
    bytes: int = 0


class Journal:
    def __init__(self) -> None:
        self.pending_bytes = 0  # of messages that are neither refused nor durable yet
        self._gathering = _Batch()
        self._unwritten: list[Record] = []  # changes of batches that failed
        self._under_way: dict[int, _Batch] = {}
        self._next_ticket = 1

    def change(self, record: Record) -> None:
        """Something is so from now on; the record is written as soon as that is possible."""
        self._gathering.changes.append(record)

    def message(self, record: Record, size: int) -> None:
        """Something that counts only once it is written."""
        self._gathering.messages.append(record)
        self._gathering.bytes += size
        self.pending_bytes += size

    def then(self, done: Callable[[], None], failed: Callable[[TidingsError], None] | None = None) -> None:
        """Call one of these when the fate of all that was gathered so far is known."""
        self._gathering.on_done.append(done)
        if failed is not None:
            self._gathering.on_failed.append(failed)

    def flush(self, *, retry: bool = False) -> list[Persist]:
        """What was gathered, as one effect; with `retry` also if there is only what failed before."""
        batch = self._gathering
        if not (batch.changes or batch.messages or (retry and self._unwritten)):
            if batch.on_done:  # nothing to write: it is done
                self._gathering = _Batch()
                for done in batch.on_done:
                    done()
            return []
        batch.changes[:0] = self._unwritten
        self._unwritten = []
        self._gathering = _Batch()
        ticket = self._next_ticket
        self._next_ticket += 1
        self._under_way[ticket] = batch
        return [Persist(ticket, (*batch.changes, *batch.messages))]

    def finished(self, ticket: int, error: TidingsError | None) -> None:
        batch = self._under_way.pop(ticket)
        self.pending_bytes -= batch.bytes
        if error is None:
            for done in batch.on_done:
                done()
        else:
            self._unwritten += batch.changes
            for failed in batch.on_failed:
                failed(error)
