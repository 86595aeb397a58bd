"""The machine of a simulated broker's process, which outlives it: the disk and the wall clock.

Only what was written counts after a crash; a disk may be slow, or full. The wall clock may be set; the time that
links go by (the driver's `now`) does not jump with it, as on a real machine.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from tidings.delivery.store import MemoryStore, Record, Store
from tidings.errors import StoreError, TidingsError
from tidings.tracking.query.archive import MemoryArchive
from tidings.tracking.recording.attachments import Attachment
from tidings.tracking.recording.recorder import TrackingSettings as TrackingSettings

WRITE_MS = 2.0


def nobody(records: Sequence[Record]) -> None:
    """Looks at what is written, or is to be."""


@dataclass(slots=True)
class DiskRecords:
    """Tracking records of a broker on its disk, which outlive crashes."""

    settings: TrackingSettings | None = None
    changes: list[Attachment] = field(default_factory=list)
    archive: MemoryArchive = field(default_factory=MemoryArchive)


@dataclass(slots=True)
class Host:
    store: Store = field(default_factory=MemoryStore)
    promised: Store = field(default_factory=MemoryStore)  # what brokers here were told is on the disk
    backup: Store = field(default_factory=MemoryStore)  # a copy of the store
    records: DiskRecords = field(default_factory=DiskRecords)
    write_ms: float = WRITE_MS
    read_ms: float = 0.0  # how long it takes to load messages; 0: half as long as to write
    full: bool = False
    dying: bool = False  # its process ends in this moment
    lives: int = 0  # of the broker: how often its process began
    asked: Callable[[Sequence[Record]], None] = nobody  # told what is to be on the disk before it is
    witness: Callable[[Sequence[Record]], None] = nobody  # told what is on the disk before the broker is
    written: Callable[[Sequence[Record]], None] = nobody  # the same, for whoever keeps books of it
    ahead_ms: float = 0.0  # how far the wall clock was set since the simulation began
    reconfigured: bool = False  # the broker finds another configuration at its next start

    def back_up(self) -> None:
        self.backup = deepcopy(self.store)

    def restore(self) -> None:
        self.store, self.promised = deepcopy(self.backup), deepcopy(self.backup)

    def empty(self) -> None:
        self.store, self.promised = MemoryStore(), MemoryStore()

    def write(self, records: Sequence[Record]) -> StoreError | None:
        """The same, judged: a batch of which the broker hears that it is written is there as a whole, any other not at
        all."""
        error = self.append(records)
        if error is None:
            self.promised.append(records)
        if self.store.recover() != self.promised.recover():
            said = "was written" if error is None else "failed"
            raise AssertionError(f"whole-batches: of {len(records)} records that {said} a part is on the disk")
        if error is None:
            self.written(records)
            self.witness(records)
        return error

    def read(self, seqs: Sequence[int]) -> dict[int, bytes]:
        """Those of the messages that are on the disk: some may have been acknowledged since they were asked for."""
        found: dict[int, bytes] = {}
        for seq in seqs:
            try:
                found[seq] = self.store.read([seq])[0]
            except TidingsError:
                continue
        return found

    def append(self, records: Sequence[Record]) -> StoreError | None:
        """Write a batch as a whole, or say why not."""
        if self.full:
            return StoreError("E_STORE_FULL", "no space left on the simulated disk")
        self.store.append(records)
        return None
