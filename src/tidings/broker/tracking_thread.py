"""The thread that stores recorded histories and looks up inquiries, while the event loop continues.

Jobs are done in the order of arrival, so an inquiry finds everything that left memory before it. Histories that cannot
be written are kept and tried again; if they become too many, the oldest are dropped, and inquiries about that time are
answered with "unknown".

Segments are Parquet files. Without pyarrow nothing is written: histories are kept in memory within the same bounds, and
end with the process. With it, it is imported when there is something to write: of a process that has recorded nothing
yet only a marker is on disk (`run_markers`).
"""

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVarTuple

import numpy as np

from tidings.broker.logs import note
from tidings.broker.segment_copier import SegmentCopier
from tidings.errors import TidingsError
from tidings.extras import install_command, installed
from tidings.segments.archive import SegmentArchive
from tidings.segments.history_store import TAIL_MS_MAX, HistoryStore
from tidings.segments.key_store import KeyStore
from tidings.segments.retention import SegmentRetention
from tidings.tracking.ids import as_ids, id_array, id_times
from tidings.tracking.query.archive import MemoryArchive
from tidings.tracking.recording.attachments import Attachment
from tidings.tracking.recording.history import HistoryEntry, HistoryKind, Key, newest
from tidings.tracking.recording.key_notes import KeyBatch, answered, encode_keys, find_key
from tidings.tracking.recording.recorder import Inquiry, Recorder, StoreAttachment, TrackingSettings
from tidings.tracking.trace_answer import KeyAnswer, KeyQuery, TraceAnswer

log = logging.getLogger("tidings.tracking")

INSTALL = install_command("pyarrow")
UNWRITTEN_BYTES_MAX = 64 << 20
UNWRITTEN_CHANGES_MAX = 100_000
MAINTAIN_SECONDS, RETIRE_SECONDS = 10.0, 600.0
RETRY_SECONDS = 1.0
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class TrackingOptions:
    """Settings of recording, and the folder and retention of its records."""

    settings: TrackingSettings
    folder: Path
    retention: SegmentRetention = field(default_factory=SegmentRetention)
    segment_ms: int = TAIL_MS_MAX  # the age at which records become a segment, which the pipeline can read
    copies: str = ""  # the URI at which segments are kept as well
    tenure: int = 1  # of the broker's processes, if they may be on several machines

    def open(self, broker: int) -> HistoryStore:
        attachments_max = self.settings.attachments_max
        return HistoryStore(self.folder, broker, self.retention, attachments_max, self.segment_ms)

    def open_keys(self, now_ms: int) -> KeyStore:
        return KeyStore(self.folder, self.settings.keys, self.retention, now_ms)


@dataclass(frozen=True, slots=True)
class _Store:
    changes: Sequence[Attachment]
    entries: Sequence[HistoryEntry]
    keys: Sequence[KeyBatch] = ()


@dataclass(frozen=True, slots=True)
class _Inquire:
    number: int
    inquiry: Inquiry | KeyQuery


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Job: TypeAlias = _Store | _Inquire | _Stop


class Unwritten:
    """The archive together with what is not on disk yet."""

    def __init__(self, archive: SegmentArchive, keys: KeyStore) -> None:
        self._archive, self._stored_keys = archive, keys
        self.keys: list[KeyBatch] = []
        self.changes: list[Attachment] = []
        self.entries: list[HistoryEntry] = []
        self._lost_ms = 0

    @property
    def since_ms(self) -> int:
        return max(self._archive.since_ms, self._lost_ms)

    def matching(self, broker: int, key: Key, moment: int) -> list[HistoryEntry]:
        own = [entry for entry in self.entries if entry.key == key and entry.matches(moment)]
        return newest([*self._archive.matching(broker, key, moment), *own])

    def stragglers(self, broker: int, origin: int, moment: int) -> list[str]:
        keys = (entry.key for entry in self.entries if moment in entry.singles)
        own = {key.peer for key in keys if (key.kind, key.origin) == (HistoryKind.DELIVER, origin)}
        return sorted({*self._archive.stragglers(broker, origin, moment), *own})

    def stored_ms(self, broker: int) -> Mapping[int, int]:
        return self._archive.stored_ms(broker)

    def find_key(self, broker: int, query: KeyQuery) -> KeyAnswer:
        """All that waits is written first, unless the disk takes nothing."""
        found = self._stored_keys.find(broker, query)
        own = find_key((encode_keys([one]) for one in self.keys if one.name == query.name), query)
        ids = np.concatenate([id_array(*found.messages), own])
        both = answered(broker, query, ids, more=found.more, since_ms=max(found.since_ms, self._lost_ms))
        return replace(both, recorded=found.recorded)

    def keep(self) -> None:
        """Nothing will be written: the last copy of each filter stays here, and the recorder has the changes."""
        self.entries, self.changes = newest(self.entries), []
        self.shrink()

    def shrink(self) -> None:
        """Drops the oldest records while the disk cannot be written."""
        size = sum(len(entry.data) for entry in self.entries)
        while size > UNWRITTEN_BYTES_MAX:
            gone = self.entries.pop(0)
            size -= len(gone.data)
            self._lost_ms = max(self._lost_ms, gone.stored_ms + 1)
        size = sum(len(batch.ids) for batch in self.keys)
        while size > UNWRITTEN_BYTES_MAX // 4:
            lost = self.keys.pop(0)
            size -= len(lost.ids)
            self._lost_ms = max(self._lost_ms, int(id_times(as_ids(lost.ids)).max()) + 1)
        excess = len(self.changes) - UNWRITTEN_CHANGES_MAX
        if excess > 0:
            self._lost_ms = max(self._lost_ms, self.changes[excess - 1].ms + 1)
            del self.changes[:excess]


class TrackingThread:
    """Without options (no data directory) it stores nothing, not even a marker that recording was off."""

    def __init__(self, options: TrackingOptions | None, broker: int) -> None:
        self._options, self._broker = options, broker
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._copier: SegmentCopier | None = None
        self._hindrance: str | None = None  # why the catalogue of histories is in memory, if it is
        self._writes = installed("pyarrow")
        self._eras: list[Attachment] = []  # signed, and to be stored with what comes next
        self._failing: dict[str, str] = {}  # what cannot be done at present, and in which way
        self.failures = 0

    async def start(self, recorder: Recorder, on_answer: Callable[[int, TraceAnswer | KeyAnswer], None]) -> None:
        """Open the store and begin an era. When this returns a sign of it is on disk, unless the disk takes nothing: of
        a process that is killed in its first moment the next one must know."""
        self._recorder, self._on_answer = recorder, on_answer
        self._loop = asyncio.get_running_loop()
        if self._options is None:
            recorder.start(_now_ms())
            return
        complete = await self._fetch(self._options)
        self._store = await self._loop.run_in_executor(None, self._options.open, self._broker)
        self._store.begin_tenure(self._options.tenure, _now_ms(), complete=complete)
        past, stored_ms = await self._loop.run_in_executor(None, self._store.recover, _now_ms())
        self._keys = await self._loop.run_in_executor(None, self._options.open_keys, _now_ms())
        self._archive = Unwritten(self._store.archive, self._keys)
        for damage in (*self._store.archive.damaged, *self._keys.damaged):
            note(log, logging.ERROR, "damaged history records", reason=damage.reason)
        for hindrance in self._store.hindrances:
            note(log, logging.ERROR, "history records cannot be maintained", reason=hindrance.reason)
        begun = recorder.start(_now_ms(), past, stored_ms)
        self._archive.changes += [effect.change for effect in begun if isinstance(effect, StoreAttachment)]
        self._eras = list(self._archive.changes)
        if not self._writes:
            note(log, logging.INFO, "histories are kept in memory only: pyarrow is not installed", install=INSTALL)
        await self._loop.run_in_executor(None, self._begin)
        self._thread = threading.Thread(target=self._run, name="tracking", daemon=True)
        self._thread.start()
        if self._copier is not None:
            self._copier.start()

    async def _fetch(self, options: TrackingOptions) -> bool:
        """Take what another machine has recorded; False: there may be more than what is here."""
        if not options.copies:
            return True
        self._copier = SegmentCopier(options.folder, options.copies, self._broker)
        return await self._loop.run_in_executor(None, self._copier.fetch)

    @property
    def alive(self) -> bool:
        """True while its thread runs, if it needs one."""
        return self._thread is None or self._thread.is_alive()

    def store(
        self, changes: Sequence[Attachment], entries: Sequence[HistoryEntry], keys: Sequence[KeyBatch] = ()
    ) -> None:
        if self._thread is not None:
            self._jobs.put(_Store(changes, entries, keys))

    def inquire(self, number: int, inquiry: Inquiry | KeyQuery) -> None:
        if self._thread is not None:
            self._jobs.put(_Inquire(number, inquiry))
        else:
            stores_nothing = isinstance(inquiry, KeyQuery)
            answer = (
                self._recorder.unsure(inquiry) if stores_nothing else self._recorder.look_up(inquiry, MemoryArchive())
            )
            self._loop.call_soon(self._on_answer, number, answer)

    async def close(self) -> None:
        """Write what was given so far, then end."""
        if self._thread is not None:
            self._jobs.put(_Stop())
            await self._loop.run_in_executor(None, self._thread.join)
            await self._loop.run_in_executor(None, self._store.close)
            if self._copier is not None:
                await self._loop.run_in_executor(None, self._copier.stop)

    # --- on the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        maintained = retired = time.monotonic()
        while True:
            pause = RETRY_SECONDS if self._writes and self._waits else MAINTAIN_SECONDS
            job = self._next(pause)
            last = self._gather(job)
            self._write()
            if isinstance(last, _Inquire):
                self._inquire(last)
            if isinstance(last, _Stop):
                return
            now = time.monotonic()
            if now - maintained > MAINTAIN_SECONDS:
                self._try("tidied", self._store.maintain)
                maintained = now
            if now - retired > RETIRE_SECONDS:
                self._try("retired", self._retire)
                retired = now

    def _retire(self) -> None:
        self._store.retire(_now_ms())
        self._keys.retire(_now_ms())
        self._post(self._recorder.attachments.forget, self._store.archive.since_ms)

    def _next(self, seconds: float) -> _Job | None:
        try:
            return self._jobs.get(timeout=seconds)
        except queue.Empty:
            return None

    def _gather(self, job: _Job | None) -> _Job | None:
        """Everything to be stored that waits is written together; returns what comes after it."""
        while isinstance(job, _Store):
            self._archive.changes += job.changes
            self._archive.entries += job.entries
            self._archive.keys += job.keys
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return None
        return job

    def _begin(self) -> None:
        for era in self._eras:
            self._try("signed", partial(self._store.sign, era))

    @property
    def _waits(self) -> bool:
        """True if there is something to write beyond the run markers on disk."""
        return bool(self._archive.entries or self._archive.keys) or self._archive.changes != self._eras

    def _write(self) -> None:
        if keys := self._archive.keys:
            if self._try("kept as keys", lambda: self._keys.append(keys, _now_ms())):
                self._archive.keys = []
            else:
                self._archive.shrink()
        changes, entries = self._archive.changes, self._archive.entries
        if not self._waits:
            return
        if not self._writes:
            self._archive.keep()
            self._eras = []
            return
        if self._try("written", lambda: self._store.append(changes, entries, _now_ms())):
            self._archive.changes, self._archive.entries, self._eras = [], [], []
        else:
            self._archive.shrink()
        self._look_at_catalogue()

    def _look_at_catalogue(self) -> None:
        hindrance = self._store.archive.hindrance
        if hindrance != self._hindrance:
            self._hindrance = hindrance
            if hindrance is None:
                note(log, logging.INFO, "the catalogue of histories is in its file again")
            else:
                note(log, logging.WARNING, "the catalogue of histories is kept in memory", reason=hindrance)

    def _inquire(self, job: _Inquire) -> None:
        try:
            answer = self._recorder.look_up(job.inquiry, self._archive)
        except (TidingsError, sqlite3.Error) as error:  # a filter that cannot be read
            note(log, logging.ERROR, "histories cannot be read", reason=str(error))
            answer = self._recorder.unsure(job.inquiry)
        self._post(self._on_answer, job.number, answer)

    def _post(self, call: Callable[[*Ts], None], *arguments: *Ts) -> None:
        """On the event loop."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop has ended
            return

    def _try(self, what: str, work: Callable[[], None]) -> bool:
        """Carry out work on the store; an error that repeats is logged once."""
        try:
            work()
        except (TidingsError, OSError, sqlite3.Error) as error:
            self.failures += 1
            way = error.code if isinstance(error, TidingsError) else type(error).__name__
            if self._failing.get(what) != way:
                self._failing[what] = way
                note(log, logging.ERROR, f"histories cannot be {what}", reason=str(error))
            return False
        if self._failing.pop(what, None):
            note(log, logging.INFO, f"histories are {what} again")
        return True


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
