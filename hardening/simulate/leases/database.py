"""A simulated database, for the store and the lease that ship: their statements, sessions, and a line that fails.

A statement is carried out at one instant. The line to the server loses the request or the answer, by chance or because
host and server are cut off from each other; a request of a lost session may be carried out later. A process may be
stopped before a statement or after it, before it reads the answer: then the others go on.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg

from tidings.sim.calendar import Calendar

LATE_MS = 400.0  # by which a request of a lost session may be carried out late
OPEN_MS = 3_000.0  # for which the server may keep a session whose client is gone


@dataclass(slots=True)
class Broker:
    epoch: int = 0
    session: int = 0
    batches: dict[int, bytes] = field(default_factory=dict)
    state: tuple[dict[str, bytes], dict[str, bytes]] = field(default_factory=lambda: ({}, {}))
    lease_epoch: int = 0
    beat: int = 0
    holder: str = ""


@dataclass(slots=True)
class Line:
    """Between a process's host and the server."""

    to_server: bool = True
    from_server: bool = True
    worst: float = 0.0  # of a statement the chance that its session is lost with it


class Cursor:
    def __init__(self, rows: Sequence[tuple[object, ...]] = (), rowcount: int = 0) -> None:
        self._rows, self.rowcount = list(rows), rowcount

    def fetchone(self) -> tuple[object, ...] | None:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[tuple[object, ...]]:
        return self._rows

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        return iter(self._rows)


class SimulatedDatabase:
    """Of one broker; processes have numbers. `stop`: lets a process be stopped for a time, while others go on."""

    def __init__(self, calendar: Calendar, rng: Random, stop: Callable[[int, float], None]) -> None:
        self.calendar, self.rng, self.stop = calendar, rng, stop
        self.broker = Broker()
        self.up = True
        self.lines: dict[int, Line] = {}
        self.process = 0  # that is at work
        self.stop_chance = 0.0
        self.sessions: list[SimulatedSession] = []
        self.lock: SimulatedSession | None = None

    def connect(self, purpose: str) -> "SimulatedSession":
        """A session of the process that is at work."""
        line = self.lines[self.process]
        if not (self.up and line.to_server and line.from_server):
            raise psycopg.OperationalError("connection to server failed: timeout expired")
        session = SimulatedSession(self, self.process, purpose)
        self.sessions.append(session)
        return session

    @contextmanager
    def used_by(self, process: int) -> Iterator[None]:
        before, self.process = self.process, process
        try:
            yield
        finally:
            self.process = before

    def drop(self, session: "SimulatedSession") -> None:
        """The server ends a session."""
        session.there = False
        if session in self.sessions:
            self.sessions.remove(session)
        if self.lock is session:
            self.lock = None

    def leave(self, process: int) -> None:
        """A process is gone; the server hears of it at once or late."""
        for session in [one for one in self.sessions if one.process == process]:
            self.calendar.after(self.rng.choice((0.0, self.rng.uniform(0, OPEN_MS))), self.drop, session)

    def restart(self) -> None:
        """All sessions are ended. What was committed is there, also if a standby is promoted that has it all."""
        for session in list(self.sessions):
            self.drop(session)


class SimulatedSession:
    def __init__(self, database: SimulatedDatabase, process: int, purpose: str) -> None:
        self._database, self.process, self.purpose = database, process, purpose
        self.broken = self.closed = False  # as its client sees it
        self.there = True  # as the server sees it
        self.info = self
        self.backend_pid = len(database.sessions) + int(database.calendar.now) * 100
        self._atomic = False

    def add_notice_handler(self, handler: object) -> None:
        del handler  # nobody cancels a commit that waits for a standby here

    def close(self) -> None:
        if not self.closed and not self.broken:
            self._database.drop(self)
        self.closed = True

    @contextmanager
    def transaction(self) -> Iterator[None]:
        database = self._database
        broker = database.broker
        before = (broker.epoch, broker.lease_epoch, broker.beat, broker.holder)
        self._atomic = True
        try:
            yield
        except psycopg.Error:
            broker.epoch, broker.lease_epoch, broker.beat, broker.holder = before
            raise
        finally:
            self._atomic = False
        self._lose_by_chance()  # the answer to the commit

    def execute(
        self, query: str | bytes, parameters: Any = None, *, binary: bool = False, prepare: bool = False
    ) -> Cursor:
        del binary, prepare
        text = query if isinstance(query, str) else query.decode()
        database = self._database
        database.process = self.process
        line = database.lines[self.process]
        self._stop_by_chance()
        if self.broken or self.closed or not self.there or not database.up:
            self._lost()
        if not line.to_server or database.rng.random() < line.worst:
            if line.to_server and not self._atomic and database.rng.random() < 0.5:
                late_ms = database.rng.uniform(0, LATE_MS)
                database.calendar.after(late_ms, self._late, text, parameters)
                self._lost(late_ms)
            self._lost()
        answer = carry_out(database, self, text, parameters)
        self._stop_by_chance()
        if not line.from_server or not self.there:
            self._lost()
        self._lose_by_chance()
        return answer

    def _late(self, text: str, parameters: Any) -> None:
        if self.there:
            with suppress(psycopg.Error):  # nobody hears of it
                carry_out(self._database, self, text, parameters)

    def _stop_by_chance(self) -> None:
        database = self._database
        if not self._atomic and database.rng.random() < database.stop_chance:
            database.stop(self.process, database.rng.choice((20.0, 200.0, 2_000.0)))

    def _lose_by_chance(self) -> None:
        if not self._atomic and self._database.rng.random() < self._database.lines[self.process].worst:
            self._lost()

    def _lost(self, late_ms: float = 0.0) -> None:
        """The client hears that its session is gone; the server hears of it at some time, after what it still does."""
        self.broken = True
        database = self._database
        open_ms = database.rng.choice((0.0, database.rng.uniform(0, OPEN_MS)))
        database.calendar.after(late_ms + open_ms, database.drop, self)
        raise psycopg.OperationalError("server closed the connection unexpectedly")


def carry_out(database: SimulatedDatabase, session: SimulatedSession, text: str, parameters: Any) -> Cursor:
    """Carries out one of the statements that the store and the lease use."""
    broker, words = database.broker, " ".join(text.split())
    for beginning, work in _STATEMENTS:
        if words.startswith(beginning):
            rows = work(database, session, words, parameters)
            return Cursor(rows, len(rows))
    if words.startswith("WITH proof"):
        return Cursor((), _append(broker, words, parameters))
    assert words.startswith("SET "), f"the simulated database does not know {words}"
    return Cursor()


Rows = list[tuple[object, ...]]


def _append(broker: Broker, words: str, given: dict[str, Any]) -> int:
    fits = (
        ("epoch = %(epoch)b", int(given["epoch"]) == broker.epoch),
        (
            "session = %(session)b",
            int(given["session"]) == broker.session,
        ),
    )
    if not all(holds for condition, holds in fits if condition in words):
        return 0
    number = int(given["number"])
    if "undone AS" in words:
        broker.batches.pop(number, None)
        _change(broker, given)
        return 1
    if number in broker.batches:
        raise psycopg.errors.UniqueViolation(f"batch {number} is there already")
    _change(broker, given)
    broker.batches[number] = given["payload"]
    return 1


def _change(broker: Broker, given: dict[str, Any]) -> None:
    if "oldest" in given:
        for old in [one for one in broker.batches if one < int(given["oldest"])]:
            del broker.batches[old]
        for copy in broker.state:
            for key in given["gone"]:
                copy.pop(key, None)
            copy.update(zip(given["keys"], given["records"], strict=True))


def _settings(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    return list(database.broker.state[given[1]].items())


def _sizes(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    return [(number, len(blob)) for number, blob in sorted(database.broker.batches.items())]


def _range(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    return [one for one in sorted(database.broker.batches.items()) if given[1] <= one[0] <= given[2]]


def _last(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    return [(max(database.broker.batches, default=None),)]


def _next_session(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    broker = database.broker
    if given[1] != broker.epoch:
        return []
    broker.session += 1
    return [(broker.session,)]


def _look(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    free = database.lock in (None, session)
    if free:
        database.lock = session
    broker = database.broker
    return [(free, broker.lease_epoch, broker.beat, broker.holder)]


def _lock(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    return [(_look(database, session, words, given)[0][0],)]


def _unlock(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    if database.lock is session:
        database.lock = None
    return [(True,)]


def _take(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    database.broker.epoch += 1
    return [(database.broker.epoch,)]


def _lease(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    """A sign of life (of the epoch in the row), the beginning of a tenure, or its end."""
    broker = database.broker
    if words.startswith("UPDATE tidings.lease SET epoch"):
        broker.lease_epoch, broker.holder = given[0], given[1]
    elif given[1] != broker.lease_epoch:
        return []
    elif "holder = ''" in words:
        broker.holder = ""
    broker.beat += 1
    return [(broker.beat,)]


def _end_holders(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    holder = database.lock
    if holder is not None and holder is not session and (len(given) < 3 or given[2] == holder.backend_pid):
        database.drop(holder)
    return [(True,)]


def _epoch(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    return [(database.broker.epoch,)]


def _setting(database: SimulatedDatabase, session: SimulatedSession, words: str, given: Any) -> Rows:
    return [("standby" if given[0] == "synchronous_standby_names" else "on",)]


_STATEMENTS: tuple[tuple[str, Callable[[SimulatedDatabase, SimulatedSession, str, Any], Rows]], ...] = (
    ("SELECT key, record FROM tidings.state", _settings),
    ("SELECT number, octet_length(payload)", _sizes),
    ("SELECT number, payload", _range),
    ("SELECT max(number)", _last),
    ("UPDATE tidings.broker SET session", _next_session),
    ("SELECT pg_try_advisory_lock(%s, %s), epoch", _look),
    ("SELECT pg_try_advisory_lock", _lock),
    ("SELECT pg_advisory_unlock", _unlock),
    ("UPDATE tidings.broker SET epoch", _take),
    ("UPDATE tidings.lease", _lease),
    ("SELECT pg_terminate_backend", _end_holders),
    ("SELECT epoch FROM tidings.broker", _epoch),
    ("SELECT current_setting", _setting),
)
