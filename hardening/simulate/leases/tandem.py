"""Two processes of one broker, with its store in a simulated database: whoever has the lease serves.

The store and the lease are those that ship; what they would do on threads of their own is done by the calendar: signs
of life, looking for the lease, waiting. While the store of a process waits, or the process is stopped, the calendar
goes on.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

import psycopg

from hardening.simulate.leases.database import Line, SimulatedDatabase
from tidings.delivery.store import Record
from tidings.errors import StoreError
from tidings.overlay.topology.graph import Graph
from tidings.sim.broker import Action, SimBroker, Sizes
from tidings.sim.calendar import Calendar
from tidings.sim.driver import Driver, Trace
from tidings.sim.host import Host
from tidings.sim.network import PhysicalNetwork
from tidings.sim.paths import direct
from tidings.store.log.store import LogLimits
from tidings.store.log.tail import TailLimits
from tidings.store.postgresql import file as file_module
from tidings.store.postgresql import lease as lease_module
from tidings.store.postgresql.errors import store_error
from tidings.store.postgresql.lease import BEATS, DatabaseLease
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.place import PostgresPlace
from tidings.store.postgresql.store import PostgresStore

POLL_MS, RESTART_MS = 50.0, 300.0
TIDY_CHANCE = 0.3  # at each sign of life
LEASE_MS, CUT_OFF_MS = 600.0, 1_500.0
PROCESSES = (1, 2)


@dataclass(slots=True)
class DatabaseHost(Host):
    """Of a process whose store is in the database."""

    work: Callable[[Callable[[], StoreError | None]], StoreError | None] = field(default=lambda work: work())

    def write(self, records: Sequence[Record]) -> StoreError | None:
        error = self.work(lambda: self.append(records))
        if error is None:
            self.written(records)
            self.witness(records)
        return error

    def append(self, records: Sequence[Record]) -> StoreError | None:
        try:
            self.store.append(records)
        except StoreError as error:
            return error
        return None

    def read(self, seqs: Sequence[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}

        def read() -> StoreError | None:
            found.update(super(DatabaseHost, self).read(seqs))
            return None

        self.work(read)
        return found


@dataclass(slots=True)
class Member:
    number: int
    host: DatabaseHost
    options: DatabaseOptions
    lease: DatabaseLease | None = None  # None: the process is down
    serves: bool = False
    stopped: bool = False
    inside: int = 0  # calls of its store that are under way
    losses: list[str] = field(default_factory=list)  # codes of the errors with which it ended


class Tandem:
    """`hosts` and what clients see have the numbers of doors: 1 is the process that serves since the last take-over,
    2 is the one before, as long as it runs; clients that do not move stay with it."""

    def __init__(self, seed: int, rng: Random, sizes: Sizes, trace: Trace | None = None) -> None:
        self.calendar, self.rng, self._sizes = Calendar(), rng, sizes
        graph = Graph()
        graph.add(*PROCESSES, latency_ms=1)
        network = PhysicalNetwork.of_graph(self.calendar, graph, direct)
        self.driver = Driver(network, trace=trace, encode=lambda data: data, decode=lambda data: data)
        self.database = SimulatedDatabase(self.calendar, rng, self.stop)
        self.members = {number: Member(number, DatabaseHost(), self._options()) for number in PROCESSES}
        self.hosts = {number: member.host for number, member in self.members.items()}
        self.doors: list[int] = []  # processes that serve, the last one first
        self.take_overs = 0
        self._lives = 0
        small = LogLimits(2_000, 8, 100, 500, tail=TailLimits(20, 2_000, 10))
        self._limits = rng.choice((None, small))
        for number, member in self.members.items():
            self.database.lines[number] = Line()
            member.host.work = lambda work, member=member: self._within(member, work)  # type: ignore[misc]

            def make(life: int, member: Member = member) -> SimBroker:
                return SimBroker(None, member.host, life, Random(f"{seed} {member.number} {life}"), self._sizes)

            self.driver.add(str(number), number, make)

    def start(self) -> None:
        for number in PROCESSES:
            self.begin(number)

    def _options(self) -> DatabaseOptions:
        return DatabaseOptions(
            "postgresql://simulated/db",
            1,
            lease_ms=LEASE_MS,
            cut_off_ms=self.rng.choice((0.0, CUT_OFF_MS)),
            wait_ms=self.rng.choice((0.0, 300.0, 5_000.0)),
        )

    # --- as clients see it ----------------------------------------------------------------------------------------

    def broker(self, router: int) -> SimBroker | None:
        number = self._door(router)
        machine = None if number is None else self.driver.processes[str(number)].machine
        return machine if isinstance(machine, SimBroker) else None

    def _door(self, router: int) -> int | None:
        return self.doors[min(router, len(self.doors)) - 1] if self.doors else None

    def frozen(self, router: int) -> bool:
        number = self._door(router)
        return number is not None and self.driver.processes[str(number)].frozen is not None

    def call(self, router: int, act: Action) -> None:
        number = self._door(router)
        if number is not None:
            self.driver.call(str(number), act)

    # --- processes ------------------------------------------------------------------------------------------------

    def begin(self, number: int) -> None:
        """The process starts, and stands by."""
        member = self.members[number]
        if member.lease is None:
            member.lease = PostgresPlace(member.options, self._limits).lease()
            self._look(member, member.lease)

    def _look(self, member: Member, lease: DatabaseLease) -> None:
        """Once more, unless the process serves or has ended."""
        if member.lease is not lease or member.serves:
            return
        if not (member.stopped or member.inside):
            self._within(member, lambda: self._try(member, lease))
        if member.lease is lease and not member.serves:
            self.calendar.after(POLL_MS, self._look, member, lease)

    def _try(self, member: Member, lease: DatabaseLease) -> None:
        with suppress(StoreError):
            if lease.look():
                self._serve(member, lease)

    def _serve(self, member: Member, lease: DatabaseLease) -> None:
        member.serves = True
        lease.on_lost(lambda error: self._lost(member, lease, error))
        self._beat(member, lease)
        self._lives = max(self._lives, *(one.host.lives for one in self.members.values()))
        member.host.lives = self._lives
        try:
            member.host.store = PostgresPlace(member.options, self._limits).open(lease)
            self.driver.start(str(member.number))
        except StoreError as error:  # the broker cannot run: the process ends
            member.losses.append(error.code)
            self.calendar.after(0.0, self.crash, member.number, lease)
        else:
            self.take_overs += 1
            self.doors.insert(0, member.number)

    def _beat(self, member: Member, lease: DatabaseLease) -> None:
        if member.lease is not lease or lease.lost is not None:
            return
        if not member.stopped:
            with self.database.used_by(member.number):
                lease.beat()
                lease.check_heard()
            if not member.inside and lease.lost is None and self.rng.random() < TIDY_CHANCE:
                self._within(member, partial(self._tidy, member))
        self.calendar.after(LEASE_MS / BEATS, self._beat, member, lease)

    def _tidy(self, member: Member) -> None:
        """Housekeeping, as the store's thread does in pauses."""
        if isinstance(member.host.store, PostgresStore):
            with suppress(StoreError):
                member.host.store.maintain()

    def _lost(self, member: Member, lease: DatabaseLease, error: StoreError) -> None:
        """The process ends in this moment, wherever it is."""
        member.losses.append(error.code)
        machine = self.driver.processes[str(member.number)].machine
        if isinstance(machine, SimBroker):
            machine.end()
        self.calendar.after(0.0, self.crash, member.number, lease)

    def crash(self, number: int, lease: DatabaseLease | None = None) -> None:
        """The process ends at once, and is started again a little later. `lease`: only if it still has this one."""
        member = self.members[number]
        if member.lease is None or (lease is not None and member.lease is not lease):
            return
        if member.inside or member.stopped:
            self.calendar.after(1.0, self.crash, number, lease or member.lease)
            return
        if self.driver.processes[str(number)].machine is not None:
            self.driver.crash(str(number))
        member.lease, member.serves = None, False
        if number in self.doors:
            self.doors.remove(number)
        self.database.leave(number)
        self.calendar.after(self.rng.uniform(0, RESTART_MS), self.begin, number)

    def freeze(self, number: int, ms: float) -> None:
        """The process is stopped, as by SIGSTOP, and goes on after a time."""
        member = self.members[number]
        if member.lease is not None and not member.stopped and not member.inside:
            member.stopped = True
            self.driver.freeze(str(number))
            self.calendar.after(ms, self._thaw, member)

    def _thaw(self, member: Member) -> None:
        member.stopped = False
        self.driver.thaw(str(member.number))

    def stop(self, number: int, ms: float) -> None:
        """A process is stopped within a call of its store; what else there is goes on."""
        member = self.members[number]
        if member.inside == 1 and not member.stopped:
            member.stopped = True
            self._go_on(ms)
            member.stopped = False

    def _go_on(self, ms: float) -> None:
        process = self.database.process
        self.calendar.run(until=self.calendar.now + ms)
        self.database.process = process

    def _within(self, member: Member, work: Callable[[], StoreError | None] | Callable[[], None]) -> StoreError | None:
        """A call of a process's store: its event loop does nothing else until it has returned."""
        address = str(member.number)
        held = self.driver.processes[address].frozen is None
        if held:
            self.driver.freeze(address)
        member.inside += 1
        try:
            with self.database.used_by(member.number):
                return work()
        finally:
            member.inside -= 1
            if held:
                self.calendar.after(0.0, self.driver.thaw, address)

    # --- time -----------------------------------------------------------------------------------------------------

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Store and lease see the calendar's time and the simulated database."""
        time = SimpleNamespace(
            monotonic=lambda: self.calendar.now / 1000, sleep=lambda seconds: self._go_on(seconds * 1000)
        )
        threads = SimpleNamespace(
            Thread=_NoThread, Event=threading.Event, Lock=threading.Lock, current_thread=threading.current_thread
        )

        def connect(options: DatabaseOptions, purpose: str) -> object:
            try:
                return self.database.connect(purpose)
            except psycopg.Error as error:
                raise store_error(error, options.place) from None

        with (
            patch.multiple(file_module, time=time, connect=connect),
            patch.multiple(lease_module, time=time, connect=connect, threading=threads),
            patch.object(lease_module, "_myself", lambda: f"process {self.database.process}"),
            patch.object(lease_module, "_is_dead", lambda holder: False),
        ):
            yield


class _NoThread:
    """The calendar does what it would do."""

    def __init__(self, *, target: object, name: str, daemon: bool) -> None:
        del target, name, daemon

    def start(self) -> None:
        return

    def join(self) -> None:
        return
