"""Catalogue of stored filters by the time they cover: a SQLite table of their places that can be rebuilt at any time.

Weeks of histories are millions of filters: too many to hold an object each, and too many to read again at each start.
The catalogue keeps a row for each, without its bits. Like `tracking.time_index` it puts ranges on levels by length, so
that a question looks at those that can hold the moment and not at all that began before it. Of a filter that was stored
several times while it grew only the last copy is listed; a segment of which nothing is listed is *superseded*.

Because it can be rebuilt, no failure of its file stops the broker: on a full disk the catalogue goes on in memory,
until `retake` finds that there is room again, or the next process does.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tidings.errors import StoreError
from tidings.segments.durable import sync_directory
from tidings.tracking.recording.history import HistoryEntry, Key

VERSION = 1
KNOWN_MAX = 10_000  # histories and their sequences that memory knows too: clients make new ones whenever they come
_SCHEMA = """
CREATE TABLE IF NOT EXISTS segments (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, live INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS dead ON segments (live) WHERE live = 0;
CREATE TABLE IF NOT EXISTS histories (id INTEGER PRIMARY KEY, broker INTEGER NOT NULL, kind TEXT NOT NULL,
  origin INTEGER NOT NULL, peer TEXT NOT NULL, UNIQUE (broker, kind, origin, peer));
CREATE TABLE IF NOT EXISTS filters (history INTEGER NOT NULL, incarnation INTEGER NOT NULL, sequence INTEGER NOT NULL,
  count INTEGER NOT NULL, level INTEGER, first_ms INTEGER, last_ms INTEGER, segment INTEGER NOT NULL,
  row INTEGER NOT NULL, PRIMARY KEY (history, incarnation, sequence)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_time ON filters (history, level, first_ms);
CREATE INDEX IF NOT EXISTS by_segment ON filters (segment);
CREATE TABLE IF NOT EXISTS levels (history INTEGER NOT NULL, level INTEGER NOT NULL, PRIMARY KEY (history, level))
  WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS singles (history INTEGER NOT NULL, ms INTEGER NOT NULL, incarnation INTEGER NOT NULL,
  sequence INTEGER NOT NULL, PRIMARY KEY (history, ms, incarnation, sequence)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS singles_by_time ON singles (ms);
CREATE TABLE IF NOT EXISTS stored (broker INTEGER NOT NULL, incarnation INTEGER NOT NULL, ms INTEGER NOT NULL,
  PRIMARY KEY (broker, incarnation)) WITHOUT ROWID;
"""
_FIND_RANGE = """
SELECT s.name, f.row FROM filters f JOIN segments s ON s.id = f.segment
WHERE f.history = ? AND f.level = ? AND f.first_ms BETWEEN ? AND ? AND f.last_ms >= ?
"""
_FIND_SINGLE = """
SELECT s.name, f.row FROM singles one JOIN filters f USING (history, incarnation, sequence)
JOIN segments s ON s.id = f.segment WHERE one.history = ? AND one.ms = ?
"""
_FIND_PEERS = """
SELECT DISTINCT h.peer FROM singles one JOIN histories h ON h.id = one.history
WHERE one.ms = ? AND h.broker = ? AND h.kind = ? AND h.origin = ? ORDER BY h.peer
"""
_FIND_ONE = "SELECT segment, count FROM filters WHERE history = ? AND incarnation = ? AND sequence = ?"
_EMPTY = "NOT EXISTS (SELECT 1 FROM filters WHERE history = ?1)"
_UPSERT = """
INSERT INTO filters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (history, incarnation, sequence) DO UPDATE SET
count = excluded.count, level = excluded.level, first_ms = excluded.first_ms, last_ms = excluded.last_ms,
segment = excluded.segment, row = excluded.row
"""


class FilterLocation(NamedTuple):
    segment: str  # the name of its file
    row: int


class FilterCatalog:
    """Of all histories in one directory of segments. `path`: None for one in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._forget_known()
        self.hindrance: str | None = None  # why it is in memory, though it has a path
        self._database = self._opened()

    def _opened(self) -> sqlite3.Connection:
        if self._path is None:
            return _connect(None)
        try:
            try:
                return _connect(self._path)
            except sqlite3.DatabaseError as error:
                if not _is_broken(error):
                    raise
                _remove(self._path)
                return _connect(self._path)
        except (sqlite3.Error, OSError) as error:
            self.hindrance = f"{self._path}: {error}"
            return _connect(None)

    def mend(self, error: sqlite3.Error) -> None:
        """After a failure. What was listed is listed still, or nothing is: then all segments are to be added again."""
        if self._path is None or self.hindrance is not None:
            raise StoreError("E_STORE_IO", f"the catalogue of histories in memory: {error}") from error
        self._forget_known()
        if _is_broken(error):
            self._database.close()
            with suppress(OSError):
                _remove(self._path)
            self._database = self._opened()
            return
        self.hindrance = f"{self._path}: {error}"
        memory = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        try:
            self._database.backup(memory)
        except sqlite3.Error:
            memory.close()
            memory = _connect(None)
        self._database.close()
        self._database = memory

    def retake(self) -> None:
        """Moves a catalogue that is in memory because of a disk failure back to its file, if that works again."""
        if self._path is None or self.hindrance is None:
            return
        new = self._path.with_name(self._path.name + ".new")
        try:
            _remove(new)
            with closing(_connect(new)) as file:
                self._database.backup(file)
            _remove(self._path)
            new.replace(self._path)
            sync_directory(self._path.parent)
            database = _connect(self._path)
        except (sqlite3.Error, OSError):
            with suppress(OSError):
                _remove(new)
            return
        self._database.close()
        self._database, self.hindrance = database, None

    def _forget_known(self) -> None:
        self._histories: dict[tuple[int, str, int, str], int] = {}  # some of them
        self._sequences: dict[tuple[int, int], int] = {}  # by history and incarnation, of some

    def close(self) -> None:
        self._database.close()

    def __len__(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM filters").fetchone()[0])

    def segments(self) -> dict[str, int]:
        """By name: how many filters of each are listed."""
        return dict(self._database.execute("SELECT name, live FROM segments"))

    def superseded(self) -> list[str]:
        return [name for (name,) in self._database.execute("SELECT name FROM segments WHERE live = 0")]

    def stored_ms(self, broker: int) -> Mapping[int, int]:
        """The time of the last entry that each incarnation of a broker stored."""
        return dict(self._database.execute("SELECT incarnation, ms FROM stored WHERE broker = ?", (broker,)))

    def find(self, broker: int, key: Key, moment: int) -> list[FilterLocation]:
        history = self._known((broker, key.kind.value, key.origin, key.peer))
        if history is None:
            return []
        found = set(self._database.execute(_FIND_SINGLE, (history, moment)))
        for (level,) in self._database.execute("SELECT level FROM levels WHERE history = ?", (history,)).fetchall():
            about = (history, level, moment - (1 << level), moment, moment)
            found.update(self._database.execute(_FIND_RANGE, about))
        return [FilterLocation(*one) for one in sorted(found)]

    def stragglers(self, broker: int, kind: str, origin: int, moment: int) -> list[str]:
        """Peers of histories in which this time is that of a straggler."""
        asked = (moment, broker, kind, origin)
        return [peer for (peer,) in self._database.execute(_FIND_PEERS, asked)]

    def add(self, segment: str, rows: Iterable[tuple[int, HistoryEntry]]) -> None:
        """A segment and what is in it, row by row, with its broker; the entries' data is not looked at."""
        with self._transaction():
            (number,) = self._database.execute(
                "INSERT INTO segments (name, live) VALUES (?, 0) RETURNING id", (segment,)
            ).fetchone()
            self._add(number, rows)
        if len(self._histories) > KNOWN_MAX or len(self._sequences) > KNOWN_MAX:
            self._forget_known()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._database.execute("BEGIN")
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:  # a COMMIT that failed may have left it open
                self._database.execute("ROLLBACK")
            self._forget_known()
            raise

    def forget(self, segment: str) -> None:
        """The segment is gone."""
        if self.hindrance is not None and self._path is not None:
            with suppress(OSError):
                _remove(self._path)  # the next process must not take the file's word for what is gone
        run = self._database.execute
        found = run("SELECT id FROM segments WHERE name = ?", (segment,)).fetchone()
        if found is None:
            return
        with self._transaction():
            run(
                "DELETE FROM singles WHERE (history, incarnation, sequence) IN "
                "(SELECT history, incarnation, sequence FROM filters WHERE segment = ?)",
                found,
            )
            lost = run("SELECT DISTINCT history FROM filters WHERE segment = ?", found).fetchall()
            run("DELETE FROM filters WHERE segment = ?", found)
            run("DELETE FROM segments WHERE id = ?", found)
            many = self._database.executemany
            many("DELETE FROM levels WHERE history = ?1 AND " + _EMPTY, lost)
            many("DELETE FROM histories WHERE id = ?1 AND " + _EMPTY, lost)
        if lost:
            self._forget_known()

    def _add(self, segment: int, rows: Iterable[tuple[int, HistoryEntry]]) -> None:
        run, many = self._database.execute, self._database.executemany
        stored: dict[tuple[int, int], int] = {}
        best: dict[tuple[int, int, int], tuple[int, HistoryEntry]] = {}  # by history, incarnation, sequence
        for row, (broker, entry) in enumerate(rows):
            life = broker, entry.incarnation
            stored[life] = max(stored.get(life, 0), entry.stored_ms)
            which = (self._history(broker, entry.key), entry.incarnation, entry.sequence)
            if which not in best or best[which][1].count < entry.count:
                best[which] = row, entry
        for which in [one for one in best if one[2] <= self._newest(one[0], one[1])]:
            before = run(_FIND_ONE, which).fetchone()
            if before is None:
                continue
            if before[1] >= best[which][1].count:
                del best[which]
                continue
            run("UPDATE segments SET live = live - 1 WHERE id = ?", before[:1])
            run("DELETE FROM singles WHERE history = ? AND incarnation = ? AND sequence = ?", which)
        placed = [(*which, *_place(entry), segment, row) for which, (row, entry) in best.items()]
        many(_UPSERT, placed)
        for history, incarnation, sequence in best:
            life = history, incarnation
            self._sequences[life] = max(self._sequences[life], sequence)
        many("INSERT OR IGNORE INTO levels VALUES (?, ?)", {(one[0], one[4]) for one in placed if one[4] is not None})
        times = ((which[0], ms, *which[1:]) for which, (_, entry) in best.items() for ms in entry.singles)
        many("INSERT OR IGNORE INTO singles VALUES (?, ?, ?, ?)", times)
        run("UPDATE segments SET live = live + ? WHERE id = ?", (len(best), segment))
        many(
            "INSERT INTO stored VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET ms = max(ms, excluded.ms)",
            [(*life, ms) for life, ms in stored.items()],
        )

    def _newest(self, history: int, incarnation: int) -> int:
        """The highest sequence number that is listed; beyond it nothing needs to be looked up."""
        life = history, incarnation
        if life not in self._sequences:
            asked = "SELECT max(sequence) FROM filters WHERE history = ? AND incarnation = ?"
            (found,) = self._database.execute(asked, life).fetchone()
            self._sequences[life] = -1 if found is None else int(found)
        return self._sequences[life]

    def _history(self, broker: int, key: Key) -> int:
        about = (broker, key.kind.value, key.origin, key.peer)
        number = self._known(about)
        if number is None:
            insert = "INSERT INTO histories (broker, kind, origin, peer) VALUES (?, ?, ?, ?) RETURNING id"
            (number,) = self._database.execute(insert, about).fetchone()
        return self._histories.setdefault(about, int(number))

    def _known(self, about: tuple[int, str, int, str]) -> int | None:
        """The number of a history that is listed."""
        if about in self._histories:
            return self._histories[about]
        asked = "SELECT id FROM histories WHERE broker = ? AND kind = ? AND origin = ? AND peer = ?"
        found = self._database.execute(asked, about).fetchone()
        return None if found is None else int(found[0])


def _connect(path: Path | None) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        ((version,),) = database.execute("PRAGMA user_version").fetchall()
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError("catalogue of another version")
        database.executescript(_SCHEMA)
        if version != VERSION:  # a full disk takes not even this
            database.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        database.close()
        raise
    return database


def _is_broken(error: sqlite3.Error) -> bool:
    """Not one of ours, or damaged: it holds nothing that segments do not, and can go."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_NOTADB) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _place(entry: HistoryEntry) -> tuple[int, int | None, int | None, int | None]:
    """Its count, level, first and last time."""
    if entry.span is None:
        return entry.count, None, None, None
    first_ms, last_ms = entry.span
    return entry.count, (last_ms - first_ms).bit_length(), first_ms, last_ms
