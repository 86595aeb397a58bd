"""Four broker processes in a ring, restarted one by one with another configuration under load and kills.

    python -m hardening.kills.rolling 15000                        # deliveries due for each change
    python -m hardening.kills.rolling 3000 --only hops_max --seed 7 --results FILE

For each change of `rolled_parameters`, a network of `tidings broker` processes from configuration files runs with the
old value. Persistent messages enter at all four brokers, and each has durable subscribers. One broker after the other
is stopped or killed, is given the new value and starts again; another one is killed in between. The oracle is apart
from the broker: what each subscriber is due is computed from attributes in Python, for the messages that were
confirmed. None may be missing, none may come that was not asked for, and none may come twice without a mark.

With a file of results, changes that are in it for this commit with as many deliveries are not run again.
"""

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hardening.kills.rolled_parameters import CHANGES, HERMES, Change, write_files
from hardening.record import noted
from hardening.support.links import eventually
from tidings.client import Client, Subscription, connect
from tidings.errors import TidingsError
from tidings.lab.machine import environment
from tidings.localnet.member import Routing
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.localnet.ports import free_ports
from tidings.overlay.topology.generate import ring

CAMPAIGN = "rolling changes"
BROKERS = 4
UNDER_WAY_MAX = 50  # publications of one client without a receipt
PAUSE_SECONDS = 0.012  # of a publisher, between two messages
PROBE_SECONDS, START_SECONDS, SETTLE_SECONDS = 120.0, 60.0, 60.0
PATIENCE_SECONDS = 600.0  # of clients, while their broker restarts on a busy machine
STALL_SECONDS, QUIET_SECONDS = 45.0, 2.0  # without any arrival, what is missing counts as lost; for what comes twice
EVENT, EVENT_TYPE = "Tick", {"n": "int", "x": "int", "s": "string"}
WANTS: tuple[tuple[str, Callable[[int, str], bool]], ...] = (  # the second says the same as the first
    ("x > 1", lambda x, s: x > 1),
    ("x BETWEEN 2 AND 4 AND s LIKE 'ab%'", lambda x, s: 2 <= x <= 4 and s.startswith("ab")),
    ("s IN ('abc', 'xyz') OR x = 0", lambda x, s: s in ("abc", "xyz") or x == 0),
    ("x * 2 >= 6", lambda x, s: x * 2 >= 6),
)
PROBE: dict[str, Any] = {"x": 3, "s": "abc"}  # all of them want this


@dataclass(slots=True)
class Ledger:
    """The messages that were confirmed, and those that each subscriber saw."""

    wants: dict[str, Callable[[int, str], bool]]
    confirmed: dict[int, tuple[int, str]] = field(default_factory=dict)
    seen: dict[str, Counter[int]] = field(default_factory=dict)
    probes: dict[str, set[int]] = field(default_factory=dict)  # the brokers whose probes it saw
    unmarked: list[tuple[str, int]] = field(default_factory=list)
    unwanted: list[tuple[str, int]] = field(default_factory=list)
    sent: int = 0
    arrived: float = 0.0  # when something came last

    def start(self, name: str) -> None:
        self.seen[name], self.probes[name] = Counter(), set()

    def saw(self, name: str, n: int, x: int, s: str, *, marked: bool) -> None:
        self.arrived = time.monotonic()
        if n < 0:
            self.probes[name].add(-n)
            return
        if not self.wants[name](x, s):
            self.unwanted.append((name, n))
        if self.seen[name][n] and not marked:
            self.unmarked.append((name, n))
        self.seen[name][n] += 1

    def due(self) -> int:
        return sum(want(x, s) for want in self.wants.values() for x, s in self.confirmed.values())

    def missing(self) -> list[tuple[str, int]]:
        due = ((name, n) for name, want in self.wants.items() for n, one in self.confirmed.items() if want(*one))
        return [(name, n) for name, n in due if not self.seen[name][n]]

    def again(self) -> int:
        """Counts messages that came again with a mark."""
        return sum(count - 1 for seen in self.seen.values() for count in seen.values()) - len(self.unmarked)

    def problems(self) -> list[str]:
        found = {"missing": self.missing(), "twice without a mark": self.unmarked, "not asked for": self.unwanted}
        return [f"{len(those)} {what}, the first {min(those)}" for what, those in found.items() if those]


class Rolled:
    """A network whose members are given another configuration one by one."""

    def __init__(self, folder: Path, change: Change, rng: random.Random) -> None:
        self.change, self.rng, self.kills = change, rng, 0
        routing = self._routing(change.old)
        options = LocalOptions(port=free_ports(3 * BROKERS)[0], routing=routing)
        folder.mkdir()
        write_files(folder, BROKERS)
        self.network = LocalNetwork.create(folder, ring(BROKERS), options)
        self.names = list(self.network.members)
        for name in self.names:
            self._configure(name, change.old)

    @staticmethod
    def _routing(keys: Mapping[str, Any]) -> Routing:
        quick = {"heartbeat_ms": 300.0, "redial_ms_max": 500.0}
        own = {name: value for name, value in keys.items() if name in Routing.__slots__}
        return Routing(**{**quick, **own}, settings={name: one for name, one in keys.items() if name not in own})

    def _configure(self, name: str, keys: Mapping[str, Any]) -> None:
        number = str(self.network.members[name].router)
        mine = {key: one.replace("*", number) if key == "certificate" else one for key, one in keys.items()}
        self.network.configure(name, self._routing(mine))

    def start(self, name: str | None = None) -> None:
        """Returns when clients can connect."""
        self.network.start(name)
        deadline = time.monotonic() + START_SECONDS
        waited = [self.network.members[one] for one in ([name] if name else self.names)]
        while not all(_listens(member.host, member.port) for member in waited):
            ended = self.network.ended()
            assert not ended, f"{self.change.name}: brokers have ended: {ended}"
            assert time.monotonic() < deadline, f"{self.change.name}: a broker does not start"
            time.sleep(0.02)

    def roll(self, name: str) -> None:
        self.network.stop(name, kill=self.rng.random() < 0.5)
        self._configure(name, self.change.new)
        time.sleep(self.rng.uniform(0, 1.0))
        self.start(name)

    def kill(self, name: str) -> None:
        self.kills += 1
        self.network.stop(name, kill=True)
        self.start(name)

    def foreign(self) -> int:
        """Counts interests of brokers that other brokers cannot read."""
        found = [member.status() for member in self.network.members.values()]
        return sum(seen["scheme"].get("foreign", 0) for seen in found if seen is not None)


def _listens(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), 1.0):
        return True
    return False


async def publish(client: Client, ledger: Ledger, rng: random.Random, stop: asyncio.Event, *, typed: bool) -> None:
    waiting: set[asyncio.Task[None]] = set()

    async def one(n: int, x: int, s: str) -> None:
        receipt = await say(client, {"n": n, "x": x, "s": s}, typed=typed)
        with suppress(TidingsError):  # it was refused: nothing was promised
            await receipt.confirmed()
            ledger.confirmed[n] = x, s

    while not stop.is_set():
        ledger.sent += 1
        task = asyncio.create_task(one(ledger.sent, rng.randint(0, 6), rng.choice(("abc", "abd", "klm", "xyz"))))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        await asyncio.sleep(PAUSE_SECONDS if len(waiting) < UNDER_WAY_MAX else 0.1)
    await asyncio.gather(*waiting)


async def say(client: Client, attributes: dict[str, Any], *, typed: bool) -> Any:
    if typed:
        return await client.publish_event(EVENT, attributes, persistent=True, wait=False)
    return await client.publish("t.x", attributes, persistent=True, wait=False)


async def consume(subscription: Subscription, name: str, ledger: Ledger) -> None:
    async for message in subscription:
        got = message.properties
        ledger.saw(name, int(got["n"]), int(got["x"]), str(got["s"]), marked=message.redelivered)
        with suppress(TidingsError):
            await message.ack()


@contextlib.asynccontextmanager
async def readers(rolled: Rolled, ledger: Ledger, *, typed: bool) -> Any:
    """Two durable subscribers at each broker."""
    members = list(rolled.network.members.values())
    async with contextlib.AsyncExitStack() as stack:
        tasks = []
        for place, member in enumerate(members):
            client = await stack.enter_async_context(
                connect(member.url(), client_id=f"reader {member.name}", give_up_seconds=PATIENCE_SECONDS)
            )
            if typed and place == 0:
                await client.add_type(EVENT, EVENT_TYPE)
            for number in (place, place + 1):
                selector, want = WANTS[number % len(WANTS)]
                name = f"{member.name}/{selector}"
                ledger.wants[name] = want
                ledger.start(name)
                if typed:
                    await eventually(partial(_knows, client), PROBE_SECONDS)
                where: dict[str, Any] = {"type": EVENT} if typed else {"destination": "t.*"}
                durable = f"d{number}"
                one = await client.subscribe(**where, selector=selector, durable=durable, ack="client", window=100)
                tasks.append(asyncio.create_task(consume(one, name, ledger)))
        try:
            yield None
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(ended, asyncio.CancelledError | None), f"a subscriber has ended: {ended!r}"


async def _knows(client: Client) -> bool:
    """True if the broker of this client finds the event type in its network."""
    with suppress(TidingsError):
        return bool(await client.get_type(EVENT))
    return False


async def work(rolled: Rolled, due: int) -> Ledger:
    ledger, stop = Ledger({}), asyncio.Event()
    typed = rolled.change.old.get("routing") == HERMES["routing"]
    rng = rolled.rng
    await asyncio.to_thread(rolled.start)
    await eventually(lambda: rolled.network.settled(), SETTLE_SECONDS)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(readers(rolled, ledger, typed=typed))
        writers = []
        for member in rolled.network.members.values():
            writer = await stack.enter_async_context(
                connect(member.url(), client_id=f"writer {member.name}", give_up_seconds=PATIENCE_SECONDS)
            )
            if typed:
                await writer.advertise_type(EVENT)
            writers.append((member.router, writer))
        await eventually(lambda: _ways_known(writers, ledger, typed=typed), PROBE_SECONDS)
        publishers = [
            asyncio.create_task(publish(writer, ledger, random.Random(rng.random()), stop, typed=typed))
            for _, writer in writers
        ]
        await asyncio.sleep(0.5)
        for name in rng.sample(rolled.names, len(rolled.names)):
            await asyncio.to_thread(rolled.roll, name)
            await asyncio.sleep(rng.uniform(0, 1.5))
            await asyncio.to_thread(rolled.kill, rng.choice(rolled.names))
            await asyncio.sleep(rng.uniform(0, 1.5))
        while ledger.due() < due:
            await asyncio.sleep(0.5)
        stop.set()
        await asyncio.gather(*publishers)
        await _arrived(ledger)
        await eventually(lambda: rolled.foreign() == 0, SETTLE_SECONDS)
    return ledger


async def _ways_known(writers: list[tuple[int, Client]], ledger: Ledger, *, typed: bool) -> bool:
    """Messages with negative numbers find out whether every broker knows every subscription."""
    for router, writer in writers:
        await say(writer, {"n": -router, **PROBE}, typed=typed)
    await asyncio.sleep(0.3)
    return all(len(seen) == len(writers) for seen in ledger.probes.values())


async def _arrived(ledger: Ledger) -> None:
    """Until nothing is missing or nothing has come for long, and a little longer for what comes twice."""
    ledger.arrived = time.monotonic()
    while ledger.missing() and time.monotonic() < ledger.arrived + STALL_SECONDS:
        await asyncio.sleep(0.5)
    await asyncio.sleep(QUIET_SECONDS)


def run(change: Change, due: int, seed: int) -> dict[str, int]:
    """Raises AssertionError with what was broken; the folder is kept then, for its logs."""
    rng = random.Random(f"{seed} {change.name}")
    folder = Path(tempfile.mkdtemp(prefix="tidings-rolling-"))
    rolled = Rolled(folder / "net", change, rng)
    try:
        ledger = asyncio.run(work(rolled, due))
    finally:
        rolled.network.stop(kill=True)
    problems = ledger.problems()
    assert not problems, f"{change.name}, seed {seed}: {'; '.join(problems)}; the logs are in {folder}"
    shutil.rmtree(folder)
    figures = {"confirmed": len(ledger.confirmed), "due": ledger.due(), "marked_again": ledger.again()}
    return figures | {"kills": rolled.kills}


def done(results: Path | None, due: int) -> set[str]:
    """The changes that this file has, without an error, for this commit and as many deliveries."""
    if results is None or not results.exists():
        return set()
    commit = environment()["commit"]
    records = [json.loads(line) for line in results.read_text().splitlines()]
    records = [one for one in records if one["what"] == CAMPAIGN and one["commit"] == commit and not one["wrong"]]
    return {one["parameter"] for one in records if one["due"] >= due}


def chosen(only: list[str]) -> Iterator[Change]:
    if unknown := set(only) - {change.key for change in CHANGES}:
        sys.exit(f"{min(unknown)} is not a parameter that can be rolled; see hardening.kills.rolled_parameters")
    return (change for change in CHANGES if not only or change.key in only)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        "rolling", description="rolling changes of network parameters under load and kills"
    )
    parser.add_argument("due", type=int, help="deliveries due for each change")
    parser.add_argument("--only", nargs="*", default=[], help="these keys of [network]")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--results", type=Path)
    given = parser.parse_args(arguments)
    changes, finished, failed = list(chosen(given.only)), done(given.results, given.due), 0
    for number, change in enumerate(changes, 1):
        if change.name in finished:
            continue
        said = {"parameter": change.name, "seed": given.seed}
        try:
            figures = noted(given.results, CAMPAIGN, lambda one=change: run(one, given.due, given.seed), **said)  # type: ignore[misc]
        except (AssertionError, TidingsError, OSError) as error:
            failed += 1
            sys.stdout.write(f"{number}/{len(changes)} FAILED {error}\n")
        else:
            shown = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in figures.items())
            sys.stdout.write(f"{number}/{len(changes)} {change.name}: {shown}\n")
        sys.stdout.flush()
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(sys.argv[1:])
