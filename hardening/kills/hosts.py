"""Pairs of brokers on hosts of their own, with a database that is replicated on two more, while hosts lose each other.

    make hosts EVENTS=100                     as root: each host is a network namespace

        clients ──┬── broker a ──┬── database d, the primary
                  └── broker b ──┴── database e, its synchronous standby

What happens to the broker that serves: it is killed, or stopped for longer than its lease; its host and the database
lose each other, or it and the clients, or the two brokers, both ways or one way only. What happens to the database:
the primary is killed, its standby promoted, and a new standby made. Load, promises and judge are those of
`hardening.kills.failover`. A broker that is cut off from the database must end by itself, while it is cut off.
"""

import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import assert_never

from hardening.kills.campaign import rounds
from hardening.kills.failover import START_SECONDS, FailoverLedger, Half, Pair, load, percentile
from hardening.record import noted, times
from hardening.support.hosts import Hosts
from hardening.support.postgresql import QUICK, USER, Cluster, folder_of_server
from tidings.localnet.namespaces import within

EVENTS_PER_PAIR = 8
CUT_SECONDS = 3.0  # of cuts in which nobody takes over
BROKERS, CLIENTS, SERVERS = ("a", "b"), "c", ("d", "e")
PORT = 5432
ACCESS = "host all all 10.79.0.0/24 trust\nhost replication all 10.79.0.0/24 trust\n"


class HostEvent(Enum):
    KILL = "kill"
    STOP = "stop"
    DATABASE = "cut from the database"
    TO_DATABASE = "cut on the way to the database"
    FROM_DATABASE = "cut on the way from the database"
    CLIENTS = "cut from clients"
    TO_CLIENTS = "cut on the way to clients"
    FROM_CLIENTS = "cut on the way from clients"
    STANDBY = "cut from the standby"
    TO_STANDBY = "cut on the way to the standby"
    PROMOTE = "promotion"


FAILURES = tuple(one for one in HostEvent if one is not HostEvent.PROMOTE)


class Servers:
    """A primary on one host and its synchronous standby on another."""

    def __init__(self, hosts: Hosts, folders: Sequence[Path]) -> None:
        self._hosts = hosts
        named = zip(SERVERS, folders, strict=True)
        self.primary, self.standby = (self._server(name, folder) for name, folder in named)

    def _server(self, name: str, folder: Path) -> Cluster:
        return Cluster(folder, PORT, address=self._hosts.address(name), within=self._hosts.inside(name))

    @property
    def url(self) -> str:
        addresses = ",".join(f"{self._hosts.address(name)}:{PORT}" for name in SERVERS)
        return f"postgresql://{USER}@{addresses}/postgres?connect_timeout=2"

    def start(self) -> None:
        self.primary.make({**QUICK, "fsync": "on", "max_wal_senders": 4})
        with (self.primary.data / "pg_hba.conf").open("a") as file:
            file.write(ACCESS)
        self.primary.start()
        self._follow()

    def _follow(self) -> None:
        self.standby.follow(self.primary)
        self.standby.start()
        self.primary.configure({"synchronous_standby_names": "standby"})
        self.primary.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + START_SECONDS
        while self.primary.execute("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
            assert time.monotonic() < deadline, "the standby does not follow"
            time.sleep(0.02)

    def promote(self) -> None:
        """The primary is lost with its disk; its standby is the primary now, and gets a standby."""
        self.primary.kill()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary
        self.standby.remove()
        self._follow()

    def stop(self) -> None:
        for one in (self.primary, self.standby):
            one.discard()


class HostPair(Pair):
    def __init__(self, folder: Path, hosts: Hosts, servers: Servers) -> None:
        self._hosts, self._servers = hosts, servers
        halves = [Half(folder / name, 7300, 61613, 8700, hosts.address(name), hosts.inside(name)) for name in BROKERS]
        self._names = dict(zip((half.host for half in halves), BROKERS, strict=True))
        super().__init__(folder, servers.url, halves)

    def happen(self, event: HostEvent) -> None:
        if event is HostEvent.PROMOTE:
            self._servers.promote()
            self.active()
            return
        active = self.active()
        assert active.process is not None
        name = self._names[active.host]
        (other,) = set(BROKERS) - {name}
        match event:
            case HostEvent.KILL:
                active.kill()
                self._replaced(active, ended=True)
            case HostEvent.STOP:
                active.process.send_signal(signal.SIGSTOP)
                self._taken_over(active)
                active.process.send_signal(signal.SIGCONT)
                self._replaced(active)
            case HostEvent.DATABASE | HostEvent.TO_DATABASE | HostEvent.FROM_DATABASE:
                self._cut(
                    name, SERVERS, to=event is not HostEvent.FROM_DATABASE, back=event is not HostEvent.TO_DATABASE
                )
                self._replaced(active)
            case HostEvent.CLIENTS | HostEvent.TO_CLIENTS | HostEvent.FROM_CLIENTS:
                self._cut(name, CLIENTS, to=event is not HostEvent.FROM_CLIENTS, back=event is not HostEvent.TO_CLIENTS)
                self._healed()
            case HostEvent.STANDBY | HostEvent.TO_STANDBY:
                self._cut(name, other, to=True, back=event is HostEvent.STANDBY)
                self._healed()
            case _:
                assert_never(event)

    def _cut(self, name: str, others: Sequence[str], *, to: bool, back: bool) -> None:
        for other in others:
            if to:
                self._hosts.lose(name, other)
            if back:
                self._hosts.lose(other, name)

    def _replaced(self, former: Half, *, ended: bool = False) -> None:
        """The other process serves, and this one, which ends by itself, stands by."""
        self._taken_over(former)
        if not ended:
            former.end_as_lost()
        self._hosts.heal()
        former.start()
        self.active()

    def _healed(self) -> None:
        time.sleep(CUT_SECONDS)
        self._hosts.heal()
        self.active()


@contextmanager
def machines(prefix: str) -> Iterator[tuple[Hosts, Servers]]:
    """Five hosts, with a replicated database on two of them."""
    with Hosts(prefix, (*BROKERS, CLIENTS, *SERVERS)) as hosts, folder_of_server() as one, folder_of_server() as two:
        servers = Servers(hosts, (one, two))
        try:
            servers.start()
            yield hosts, servers
        finally:
            servers.stop()


def one_pair(plan: Sequence[HostEvent], rng: random.Random, hosts: Hosts, servers: Servers) -> FailoverLedger:
    """Raises AssertionError with what was broken. Each call needs a database that no broker has used."""
    with tempfile.TemporaryDirectory() as directory:
        pair = HostPair(Path(directory), hosts, servers)
        try:
            found = asyncio.run(load(pair, plan, pair.happen, rng))
        finally:
            hosts.heal()
            pair.end()
    problems = found.problems()
    assert not problems, f"{[one.value for one in plan]}: {problems[:10]}"
    return found


def plan_of(events: int, rng: random.Random, number: int, only: str = "") -> list[HostEvent]:
    """Every failure in turn; each third pair is one whose database fails over. `only`: all are this."""
    if only:
        return [HostEvent(only)] * events
    if number % 3 == 2:
        return rng.choices((HostEvent.PROMOTE, HostEvent.KILL, HostEvent.TO_DATABASE), (6, 1, 1), k=events)
    start = number * EVENTS_PER_PAIR
    return [FAILURES[(start + place) % len(FAILURES)] for place in range(events)]


def main(arguments: list[str]) -> None:
    events = times(arguments[0]) if arguments else 100
    seed = int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(1 << 32)
    results = arguments[2] if arguments[2:] else None
    only = arguments[3] if arguments[3:] else ""
    waits: dict[str, list[float]] = {}
    parts = [min(EVENTS_PER_PAIR, events - begun) for begun in range(0, events, EVENTS_PER_PAIR)]

    def one(number: int) -> dict[str, int]:
        rng = random.Random(f"{seed}/{number}")
        with machines("tdhosts") as (hosts, servers):
            plan = plan_of(parts[number], rng, number, only)
            found = within(hosts.namespace(CLIENTS), lambda: one_pair(plan, rng, hosts, servers))
        for name, some in found.waits.items():
            waits.setdefault(name.replace(" ", "_"), []).extend(some)
        return found.figures()

    def run() -> dict[str, int]:
        figures = Counter(rounds(f"hosts {only}".strip(), seed, len(parts), one))
        figures.update({f"{name}_ms_95": round(1000 * percentile(some, 0.95)) for name, some in waits.items()})
        return dict(figures)

    figures = noted(results, "fail-over of a pair on two hosts", run, events=events, seed=seed)
    sys.stdout.write(f"{events} events, seed {seed}: nothing lost of {figures['confirmed']:,} confirmed: {figures}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
