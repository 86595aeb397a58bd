"""The measurement of one row: a broker as a process, a client at a limit in another, and an innocent one in a third."""

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from hardening.innocent.broker import Gauge
from hardening.innocent.wire import PASSWORD, Native, Target, be_nice, message, publish
from tidings.broker.security.passwords import Cost
from tidings.broker.security.users import Users, add, save
from tidings.protocols.native.frames import FrameType

START_SECONDS, PAUSE_SECONDS, WARM_UP = 60.0, 0.004, 50
PREPARE_SECONDS, ATTACK_SECONDS_MAX, AFTER_SECONDS = 300.0, 400.0, 0.5
CONTEXT = multiprocessing.get_context("spawn")
CHEAP = Cost(n=1 << 10, r=8, p=1)  # of the innocent's own password
INNOCENT = "innocent"
CONFIG = """
[broker]
data = "data"
[[listeners]]
port = 0
[[listeners]]
protocol = "stomp"
port = 0
[[listeners]]
protocol = "amqp"
port = 0
[[listeners]]
protocol = "mqtt"
port = 0
[metrics]
port = 0
capacity = false
[logging]
json = true
"""
ACCESS = '[[access]]\nuser = "*"\noperations = ["publish", "subscribe", "manage", "browse"]\ndestination = "{}>"\n'
RULES = ACCESS.format("") + ACCESS.format("queue:")


@dataclass(frozen=True, slots=True)
class Row:
    """A limit, and a client that is at it until `Target.over`; `prepare` comes before the measurement."""

    what: str  # as in hardening.limits_table, where it is a limit of that table
    attack: Callable[[Target], None]
    config: str = ""
    users: bool = False
    prepare: Callable[[Target], None] | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    p50_ms: float
    p99_ms: float
    longest_ms: float
    turn_cpu_ms: float  # the event loop's longest turn
    turn_ms: float
    answers: int

    def shown(self) -> dict[str, float]:
        return {name: round(getattr(self, name), 2) for name in self.__slots__}


@contextmanager
def broker(folder: Path, row: Row, stacks: str) -> Iterator[dict[str, int]]:
    """A broker process; yields its ports by protocol, "http" among them."""
    (folder / "data").mkdir()
    if row.users:
        users = Users({})
        for name in (INNOCENT, "attacker"):
            users = add(users, name, PASSWORD, frozenset(), CHEAP if name == INNOCENT else None)
        save(folder / "data" / "users.toml", users)
    (folder / "broker.toml").write_text(CONFIG + row.config + (RULES if row.users else ""))
    command = [sys.executable, "-m", "hardening.innocent.broker", str(folder / "broker.toml"), str(folder / "gauge")]
    with (folder / "log").open("wb") as log:
        watched = [*command, *([stacks] if stacks else [])]
        process = subprocess.Popen(watched, stdout=log, stderr=log)
    try:
        yield _ports(folder / "log", process)
        assert process.poll() is None, f"the broker has ended:\n{(folder / 'log').read_text()[-2000:]}"
    finally:
        process.kill()
        process.wait()


def _ports(log: Path, process: "subprocess.Popen[bytes]") -> dict[str, int]:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
        if any(line["event"] == "ready" for line in lines):
            ports = {line["protocol"]: int(line["port"]) for line in lines if line["event"] == "listening"}
            return ports | {"http": next(int(line["port"]) for line in lines if line["event"] == "metrics")}
        time.sleep(0.02)
    raise AssertionError(f"the broker does not start:\n{log.read_text()}")


def innocent(target: Target, user: str, pipe: Connection) -> None:
    """Publishes a small message to itself and waits for it, again and again; sends the seconds that it waited."""
    client = Native(target, user)
    client.ask(FrameType.SUBSCRIBE, {"subscription": 1, "destination": INNOCENT})
    frame, taken, seconds = publish(message(INNOCENT, {"n": 1}, bytes(50))), client.frames(), list[float]()
    for count in range(1 << 30):
        if count == WARM_UP:
            pipe.send(None)
            pipe.recv()
            seconds.clear()
        if pipe.poll():
            break
        began = time.monotonic()
        client.socket.sendall(frame)
        while next(taken)[0] is not FrameType.DELIVER:
            pass
        seconds.append(time.monotonic() - began)
        time.sleep(PAUSE_SECONDS)
    pipe.send(seconds)


def attack(work: Callable[[Target], None], target: Target, seconds: float, pipe: Connection) -> None:
    be_nice()
    pipe.send("here")
    pipe.recv()
    work(replace(target, end=time.monotonic() + seconds))


def measure(row: Row, seconds: float, stacks: str = "") -> Figures:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        Gauge(folder / "gauge", create=True)
        with broker(folder, row, stacks) as ports:
            target = Target(ports, ports["http"], 0.0)
            if row.prepare is not None:
                _run(attack, row.prepare, target, PREPARE_SECONDS)()
            begin = _run(attack, row.attack, target, seconds)
            mine, theirs = CONTEXT.Pipe()
            client = CONTEXT.Process(target=innocent, args=(target, INNOCENT if row.users else "", theirs), daemon=True)
            client.start()
            mine.recv()
            Gauge(folder / "gauge").begin_again()
            mine.send("begin")
            begin()
            time.sleep(AFTER_SECONDS)  # what the end of its connections brings
            mine.send("end")
            waits = sorted(mine.recv())
            cpu, wall = Gauge(folder / "gauge").longest()
    return _figures(waits, cpu, wall)


def _run(work: Callable[..., None], *arguments: object) -> Callable[[], None]:
    """A process that is ready; the call lets it begin and waits for its end."""
    mine, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=work, args=(*arguments, theirs), daemon=True)
    process.start()
    mine.recv()

    def begin() -> None:
        mine.send("begin")
        process.join(ATTACK_SECONDS_MAX)
        assert process.exitcode == 0, f"the attack has failed with {process.exitcode}"

    return begin


def _figures(waits: list[float], cpu: float, wall: float) -> Figures:
    def at(share: float) -> float:
        return waits[min(len(waits) - 1, int(len(waits) * share))] * 1e3

    return Figures(at(0.5), at(0.99), waits[-1] * 1e3, cpu * 1e3, wall * 1e3, len(waits))
