"""Pairs of broker processes on one store, of which the one that serves is killed, stopped or told to hand over.

    make failover EVENTS=100

Both are `tidings broker --standby` on one data directory, each with addresses of its own, as on two hosts. Clients know
both: native ones publish to a topic with durable and shared subscriptions and in transactions, STOMP ones to a queue.
What must hold is what the campaign of kills demands (`hardening.kills.broker`), across processes: nothing confirmed is
lost, nothing comes twice unmarked, the order of each publisher is kept, transactions are whole; never are both active.
A probe publishes one message at a time: the longest wait for its receipt is how long publishing was refused or delayed.

A stopped process (SIGSTOP) keeps the lease of a SQLite store: nobody takes over, and it goes on where it was. With a
PostgreSQL database the other one takes over; the stopped one, when it goes on, must end with one error. Stores are
chosen in turn.
"""

import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeVar

from hardening.kills.broker import consume, publish, quiet, transact
from hardening.kills.campaign import rounds
from hardening.kills.ledger import Ledger
from hardening.record import noted, times
from hardening.support.postgresql import QUICK, Cluster, cluster
from hardening.support.stomp import RawStomp
from tidings.broker.tenure import LOST_STATUS
from tidings.client import Client, connect
from tidings.errors import TidingsError
from tidings.localnet.ports import free_ports

E = TypeVar("E", bound=Enum)
TAKE_OVERS = {"kill", "cut from the database", "cut on the way to the database", "cut on the way from the database"}
EVENTS_PER_STORE = 10
START_SECONDS = 240.0  # only there to fail at all: machines may be busy
STOPPED_SECONDS = 1.5
LEASE_MS, CUT_OFF_MS = 1000, 2000
LOOPBACK = "127.0.0.1"
LOST = "this broker can no longer write its store and ends"
GIVE_UP_SECONDS = 600.0
STOMP_SECONDS = 3.0  # of silence, after which a client takes its connection for lost
_CONFIG = """
[broker]
id = 1
data = "{data}"
[[listeners]]
host = "{host}"
port = {native}
[[listeners]]
host = "{host}"
protocol = "stomp"
port = {stomp}
[users]
allow_anonymous = {open}
[metrics]
host = "{host}"
port = {metrics}
api = {api}
capacity = false
[delivery]
deliveries_max = 1000000
[store]
standby = true
{store}
[logging]
json = true
"""


class FailoverEvent(Enum):
    KILL = "kill"
    STOP = "stop"
    SWITCH = "switch"


@dataclass(slots=True)
class Half:
    """One process of a pair."""

    folder: Path
    native: int
    stomp: int
    metrics: int
    host: str = LOOPBACK
    within: tuple[str, ...] = ()  # the beginning of a command that is run on its host
    process: "subprocess.Popen[bytes] | None" = None
    losses: int = 0  # of the lease

    def configure(self, data: Path, store: str) -> None:
        self.folder.mkdir()
        far = self.host != LOOPBACK
        words = {"open": str(far).lower(), "api": str(not far).lower()}
        ports = {"native": self.native, "stomp": self.stomp, "metrics": self.metrics}
        text = _CONFIG.format(data=data, store=store, host=self.host, **words, **ports)
        (self.folder / "broker.toml").write_text(text)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "tidings.cli", "broker", "--config", str(self.folder / "broker.toml")]
            self.process = subprocess.Popen([*self.within, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def role(self) -> str:
        """The role in its health page; empty: no answer."""
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.metrics}/health", timeout=5) as answer:
                state = json.load(answer)
        except urllib.error.HTTPError as error:
            state = json.load(error)
        except OSError:
            return ""
        return str(state["role"]) if state["ready"] or state["role"] == "standby" else "starting"

    def end_as_lost(self) -> None:
        """It ends by itself, with one error, since another process may have the lease."""
        assert self.process is not None
        assert self.process.wait(START_SECONDS) == LOST_STATUS, "it did not notice that its lease is lost"
        self.losses += 1
        assert (self.folder / "log").read_text().count(LOST) == self.losses

    def switch_over(self) -> None:
        url = f"http://{self.host}:{self.metrics}/api/v1/broker/switch-over"
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, b"{}", headers), timeout=10) as answer:
            assert json.load(answer)["switching"]


class Pair:
    """`database`: the address of one that keeps the messages; each process then has a data directory of its own."""

    def __init__(self, folder: Path, database: str = "", halves: Sequence[Half] = ()) -> None:
        ports = iter(free_ports(0 if halves else 6))
        self.database = database
        self.halves = halves or [Half(folder / name, next(ports), next(ports), next(ports)) for name in ("a", "b")]
        store = f'url = "{database}"\nlease_ms = {LEASE_MS}\ncut_off_ms = {CUT_OFF_MS}' if database else ""
        for half in self.halves:
            half.configure(half.folder / "data" if database else folder / "data", store)
            half.start()
        self.url = "tidings://" + ",".join(f"{half.host}:{half.native}" for half in self.halves)

    def active(self) -> Half:
        """The one that serves, once the other one stands by."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            roles = [half.role() for half in self.halves]
            assert roles.count("active") < 2, "both processes say that they are the broker"
            if sorted(roles) == ["active", "standby"]:
                return self.halves[roles.index("active")]
            time.sleep(0.02)
        logs = "\n".join((half.folder / "log").read_text()[-2000:] for half in self.halves)
        raise AssertionError(f"no pair within {START_SECONDS} s: {roles}\n{logs}")

    def hurt(self, event: FailoverEvent) -> None:
        active = self.active()
        assert active.process is not None
        match event:
            case FailoverEvent.KILL:
                active.kill()
                self._taken_over(active)
                active.start()
                self.active()
            case FailoverEvent.STOP if self.database:
                active.process.send_signal(signal.SIGSTOP)
                self._taken_over(active)
                active.process.send_signal(signal.SIGCONT)
                active.end_as_lost()
                active.start()
                self.active()
            case FailoverEvent.STOP:
                active.process.send_signal(signal.SIGSTOP)
                time.sleep(STOPPED_SECONDS)
                active.process.send_signal(signal.SIGCONT)
            case FailoverEvent.SWITCH:
                active.switch_over()
                self._taken_over(active)
                self.active()

    def _taken_over(self, former: Half) -> None:
        """Wait until the other process serves. What it needs for that is not taken from it by one that starts."""
        (other,) = (half for half in self.halves if half is not former)
        deadline = time.monotonic() + START_SECONDS
        while other.role() != "active":
            assert time.monotonic() < deadline, f"not taken over within {START_SECONDS} s"
            time.sleep(0.02)

    def end(self) -> None:
        for half in self.halves:
            half.kill()


@dataclass(slots=True)
class FailoverLedger:
    native: Ledger = field(default_factory=Ledger)
    stomp: Ledger = field(default_factory=Ledger)
    waits: dict[str, list[float]] = field(default_factory=dict)  # by event: longest wait for a receipt, in seconds

    def problems(self) -> list[str]:
        return self.native.problems() + [f"stomp: {one}" for one in self.stomp.problems()]

    def figures(self) -> dict[str, int]:
        sums = Counter(self.native.figures())
        sums.update(self.stomp.figures())
        sums.update({f"events_{name}": len(waits) for name, waits in self.waits.items()})
        taken = [wait for name, waits in self.waits.items() if name in TAKE_OVERS for wait in waits]
        switched = self.waits.get(FailoverEvent.SWITCH.value, [])
        sums.update(take_overs=len(taken), take_overs_within_5_s=sum(wait <= 5 for wait in taken))
        sums.update(switch_overs=len(switched), switch_overs_within_1_s=sum(wait <= 1 for wait in switched))
        return dict(sums)


class Probe:
    """Publishes one message at a time, as `publish_alone`; knows the longest wait for a receipt."""

    def __init__(self, client: Client, ledger: Ledger) -> None:
        self._client, self._ledger, self._began = client, ledger, time.monotonic()
        self._longest = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._ledger.sent += 1
            n, self._began = self._ledger.sent, time.monotonic()
            self._ledger.ways[n] = "probe"
            await self._client.publish("t.x", {"n": n}, bytes(n % 300), persistent=True, wait=True)
            self._longest = max(self._longest, time.monotonic() - self._began)
            self._ledger.confirmed.add(n)
            await asyncio.sleep(0.005)

    def take(self) -> float:
        longest, self._longest = max(self._longest, time.monotonic() - self._began), 0.0
        return longest


class StompPeer:
    """A STOMP client that goes round both addresses when its connection is lost."""

    def __init__(self, pair: Pair) -> None:
        self._addresses = [(half.host, half.stomp) for half in pair.halves]
        self._next = 0

    async def line(self) -> RawStomp:
        while True:
            with suppress(OSError, AssertionError, TimeoutError, asyncio.IncompleteReadError):
                host, port = self._addresses[self._next]
                async with asyncio.timeout(STOMP_SECONDS):
                    raw = await RawStomp.open(port, host=host)
                try:
                    async with asyncio.timeout(STOMP_SECONDS):
                        await raw.connect()
                    return raw
                except BaseException:
                    raw.close()
                    raise
            self._next = (self._next + 1) % len(self._addresses)
            await asyncio.sleep(0.05)

    async def publish(self, ledger: Ledger, stop: asyncio.Event) -> None:
        """Publish one at a time; unconfirmed messages of a lost connection are not repeated, as STOMP has no ids."""
        while not stop.is_set():
            raw = await self.line()
            with suppress(OSError, AssertionError, TimeoutError, asyncio.IncompleteReadError):
                while not stop.is_set():
                    ledger.sent += 1
                    n = ledger.sent
                    ledger.ways[n] = "stomp publisher"
                    headers = {"destination": "/queue/s", "persistent": "true", "receipt": str(n), "n": str(n)}
                    await raw.send("SEND", headers, b"x" * (n % 300))
                    async with asyncio.timeout(STOMP_SECONDS):
                        assert (await raw.expect("RECEIPT")).headers["receipt-id"] == str(n)
                    ledger.confirmed.add(n)
            await ended(raw)

    async def consume(self, ledger: Ledger, done: asyncio.Event) -> None:
        life = 0
        ledger.reads("stomp")
        while not done.is_set():
            raw = await self.line()
            life += 1
            with suppress(OSError, AssertionError, TimeoutError, asyncio.IncompleteReadError):
                await raw.subscribe("/queue/s", ack="client-individual")
                while not done.is_set():
                    async with asyncio.timeout(STOMP_SECONDS):
                        frame = await raw.expect("MESSAGE")
                    marked = frame.headers.get("redelivered") == "true"
                    ledger.saw("stomp", int(frame.headers["n"]), marked=marked, life=life)
                    await raw.send("ACK", {"id": frame.headers["ack"]})
            await ended(raw)


async def ended(raw: RawStomp) -> None:
    raw.close()
    with suppress(OSError):
        await raw.writer.wait_closed()


async def load(pair: Pair, plan: Sequence[E], hurt: Callable[[E], None], rng: random.Random) -> FailoverLedger:
    """Run one pair through these events under load; return what clients noted."""
    found = FailoverLedger()
    ledger, stop, done = found.native, asyncio.Event(), asyncio.Event()
    await asyncio.to_thread(pair.active)
    names = ("p", "probe", "w", "a", "b", "g")
    clients = [await connect(pair.url, client_id=name, give_up_seconds=GIVE_UP_SECONDS) for name in names]
    one, probing, work, first, second, groups = clients
    subscriptions = {
        "durable": await first.subscribe("t.*", durable="d", ack="client", window=20),
        "shared": await second.subscribe("t.>", shared="s", durable=True, ack="client"),
        "groups": await groups.subscribe("queue:groups", ack="client"),
    }
    readers = zip((first, second, groups), subscriptions.items(), strict=True)
    consumers = [asyncio.create_task(consume(client, one, name, ledger)) for client, (name, one) in readers]
    consumers.append(asyncio.create_task(StompPeer(pair).consume(found.stomp, done)))
    probe = Probe(probing, ledger)
    publishers = [
        asyncio.create_task(publish(one, ledger, stop)),
        asyncio.create_task(probe.run(stop)),
        asyncio.create_task(transact(work, ledger, stop)),
        asyncio.create_task(StompPeer(pair).publish(found.stomp, stop)),
    ]
    for event in plan:
        await asyncio.sleep(0.2 + rng.expovariate(4))
        await asyncio.to_thread(pair.active)
        probe.take()
        await asyncio.to_thread(hurt, event)
        confirmed = len(ledger.confirmed)
        await _until(lambda before=confirmed: len(ledger.confirmed) > before + 5)  # type: ignore[misc]
        found.waits.setdefault(event.value, []).append(probe.take())
    stop.set()
    await asyncio.gather(*publishers)
    await quiet(ledger)
    await quiet(found.stomp)
    done.set()
    for client in clients:
        with suppress(TidingsError):
            await client.close()
    *native, stomp = consumers
    await stomp  # its silence is bounded
    for consumer in native:
        consumer.cancel()
    await asyncio.gather(*native, return_exceptions=True)
    return found


async def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "nothing is confirmed any more"
        await asyncio.sleep(0.01)


def plan_of(events: int, rng: random.Random) -> list[FailoverEvent]:
    return rng.choices(list(FailoverEvent), (6, 1, 3), k=events)


def one_pair(plan: list[FailoverEvent], rng: random.Random, database: str = "") -> FailoverLedger:
    """Raises AssertionError with what was broken."""
    with tempfile.TemporaryDirectory() as directory:
        pair = Pair(Path(directory), database)
        try:
            found = asyncio.run(load(pair, plan, pair.hurt, rng))
        finally:
            pair.end()
    problems = found.problems()
    assert not problems, f"{[one.value for one in plan]}: {problems[:10]}"
    return found


def percentile(waits: list[float], share: float) -> float:
    """
    >>> percentile([3.0, 1.0, 2.0], 0.95), percentile([], 0.95)
    (3.0, 0.0)
    """
    return sorted(waits)[min(int(len(waits) * share), len(waits) - 1)] if waits else 0.0


def main(arguments: list[str]) -> None:
    events = times(arguments[0]) if arguments else 100
    seed = int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(1 << 32)
    results = arguments[2] if arguments[2:] else None
    waits: dict[str, list[float]] = {}
    server: Cluster
    parts = [min(EVENTS_PER_STORE, events - begun) for begun in range(0, events, EVENTS_PER_STORE)]

    def one(number: int) -> dict[str, int]:
        rng = random.Random(f"{seed}/{number}")
        database = server.database() if number % 2 else ""
        found = one_pair(plan_of(parts[number], rng), rng, database)
        for name, some in found.waits.items():
            waits.setdefault(f"{name}_database" if database else name, []).extend(some)
        return found.figures()

    def run() -> dict[str, int]:
        nonlocal server
        with cluster({**QUICK, "fsync": "on"}) as server:
            figures = rounds("fail-over", seed, len(parts), one)
        late = {f"{name}_ms_95": round(1000 * percentile(some, 0.95)) for name, some in sorted(waits.items())}
        return figures | late

    figures = noted(results, "fail-over of a pair on one store", run, events=events, seed=seed)
    sys.stdout.write(f"{events} events, seed {seed}: nothing lost of {figures['confirmed']:,} confirmed: {figures}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
