"""Copies a store from one place to another, and checks one: both while no broker uses it.

A copy carries rows as they are, with all their checksums, and so all that a store knows, including the last messages
that are done with. It is verified: numbers and digests of both sides are compared, and then what each of them
stands for.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tidings.delivery.store import Damage, Recovered, Store
from tidings.errors import StoreError, UsageError
from tidings.store.lease import Lease, StorePlace
from tidings.store.log.state import VERSION_KEY
from tidings.store.log.store import LogFile, LogRows, LogStore
from tidings.store.sqlite.place import SqlitePlace
from tidings.store.sqlite.store import SqliteStore

PAGE = 256  # messages read together


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """Mailboxes and messages of a store."""

    mailboxes: int
    messages: int  # that wait somewhere
    bytes: int
    damaged: tuple[Damage, ...] = ()


@dataclass(frozen=True, slots=True)
class RowsSummary:
    settings: int
    batches: int
    bytes: int
    digest: str


@contextmanager
def held(place: StorePlace) -> Iterator[Lease]:
    """The lease of a store that no broker uses."""
    lease = place.lease()
    if not lease.acquire():
        raise StoreError("E_STORE_LOCKED", f"{place.name} is in use by another process; stop the broker")
    try:
        yield lease
    finally:
        lease.release()


@contextmanager
def opened(place: StorePlace, lease: Lease) -> Iterator[LogStore[LogFile]]:
    store = place.open(lease)
    assert isinstance(store, LogStore)
    try:
        yield store
    finally:
        store.close()


def copy_store(source: StorePlace, target: StorePlace) -> StoreSummary:
    """Copy a sound store into one that holds nothing. StoreError: nothing was copied, or the copy is not the same."""
    with held(source) as source_lease, held(target) as target_lease:
        with opened(source, source_lease) as old:
            state = old.recover()
            if state.damaged:
                reason = f"{source.name} is damaged: {state.damaged[0].reason}"
                raise StoreError("E_STORE_DAMAGED", f"{reason}; start a broker on it once, which gives up what is lost")
            with opened(target, target_lease) as new:
                if new.recover() != Recovered((), {}, frozenset(), {}, {}, 0) or any(new.rows.batches()):
                    raise UsageError("E_STORE_EXISTS", f"{target.name} holds messages already; name an empty store")
                new.rows.fill(old.rows.settings(), old.rows.batches())
                carried, there = summary_of(old.rows), summary_of(new.rows)
            if carried != there:
                raise StoreError("E_STORE_DAMAGED", f"the copy differs: {carried} became {there}")
        with opened(target, target_lease) as new:
            if _plain(new.recover()) != _plain(state):
                raise StoreError("E_STORE_DAMAGED", "the copy stands for something else than the original")
            return summarize(new)


def check_store(place: StorePlace) -> StoreSummary:
    """Read all of it. A file is checked in a copy beside it, which may be mended; the file itself stays as it is."""
    with held(place) as lease:
        if not isinstance(place, SqlitePlace):
            with opened(place, lease) as store:
                return summarize(store)
        if not place.path.exists():
            raise UsageError("E_STORE_MISSING", f"{place.path} is not there")
        with tempfile.TemporaryDirectory(dir=place.path.parent) as name:
            for ending in ("", "-wal", ".lock"):
                file = place.path.with_name(place.path.name + ending)
                if file.exists():
                    _copy_file(file, Path(name) / file.name)
            store = SqliteStore(Path(name) / place.path.name)
            try:
                return summarize(store)
            finally:
                store.close()


def summarize(store: Store) -> StoreSummary:
    """Read every message once."""
    state = store.recover()
    seqs = sorted({seq for waiting in state.waiting.values() for seq in waiting.seqs})
    size, damaged = 0, list(state.damaged)
    for start in range(0, len(seqs), PAGE):
        page = seqs[start : start + PAGE]
        while page:
            try:
                size += sum(map(len, store.read(page)))
                break
            except StoreError as error:
                if error.code != "E_STORE_DAMAGED" or error.position is None:
                    raise
                damaged.append(Damage(error.reason))
                del page[error.position]
    return StoreSummary(len(state.mailboxes), len(seqs), size, tuple(damaged))


def summary_of(rows: LogRows) -> RowsSummary:
    digest, settings, batches, size = hashlib.sha256(), 0, 0, 0
    for table in rows.settings():
        for key in sorted(key for key in table if isinstance(key, str) and key != VERSION_KEY):
            record = table[key]
            assert isinstance(record, bytes)
            digest.update(key.encode() + b"\0" + len(record).to_bytes(8) + record)
            settings += 1
    for number, blob in rows.batches():
        digest.update(number.to_bytes(8) + len(blob).to_bytes(8) + blob)
        batches += 1
        size += len(blob)
    return RowsSummary(settings, batches, size, digest.hexdigest())


def _plain(state: Recovered) -> tuple[Recovered, dict[int, tuple[list[int], list[int]]]]:
    waiting = {box: (list(one.seqs), list(one.sizes)) for box, one in state.waiting.items()}
    return replace(state, waiting={}), waiting


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as old, target.open("wb") as new:
        while part := old.read(1 << 20):
            new.write(part)
