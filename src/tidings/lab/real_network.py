"""The scale-out with real broker processes, each in a network namespace, over links of 1 MB/s. Needs root.

    python -m tidings.lab.real_network 4 graded 100 5       # brokers, variant, messages a second, seconds

Clients are processes of their own beside their broker. What the links carried is what their interfaces counted, with
the headers of TCP, IP and Ethernet, advertisements and heartbeats; the least possible is counted as in scale_out.py.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidings.errors import TidingsError
from tidings.kernel.codec import MessageBatch, encode_message, encode_messages
from tidings.lab.load import Load
from tidings.lab.member import Member, Routing, write_secret
from tidings.lab.namespaces import Plan
from tidings.lab.scale_out import BANDWIDTH_BYTES_S, FRAME_BYTES, LATENCY_MS, TOPOLOGIES, Truth, workload
from tidings.overlay.generate import with_links

ENCODINGS = {"graded": "graded", "plain": "vectors", "flooding": "graded"}
WAIT_SECONDS = 90.0
PORT, LINK_PORT, HTTP_PORT = 7300, 7301, 8700  # each broker has its own namespace


@dataclass(frozen=True, slots=True)
class RealMeasurement:
    brokers: int
    variant: str
    rate: float
    sent: int
    expected: int
    delivered: int
    link_bytes: int  # as the interfaces counted
    frame_bytes: int  # of these, frames with messages
    least_bytes: int
    busiest: float  # share of its bandwidth that the busiest link used


def measure(brokers: int, variant: str, rate: float, seconds: float, seed: int = 1) -> RealMeasurement:
    graph = with_links(TOPOLOGIES[brokers](), LATENCY_MS, BANDWIDTH_BYTES_S)
    truth = Truth(graph, seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plan = stack.enter_context(Plan.of(graph, "tnet"))
        members = _members(plan, folder, variant)
        loads = _loads(truth, folder, rate, seconds, seed)
        for member in members:
            _start(stack, plan, member.name, member.command(folder), folder / f"{member.name}.log")
        _wait(lambda: all(_statuses(plan, members)), "brokers start")
        for load in loads:
            command = [sys.executable, "-m", "tidings.lab.load", str(load.save())]
            _start(stack, plan, load.name, command, folder / f"{load.name}.load.log")
        _wait(lambda: all(load.path("ready").exists() for load in loads), "clients subscribe")
        _wait(lambda: _quiet(plan, members), "interests are known everywhere")
        before, start = plan.sent_bytes(), time.monotonic()
        (folder / "go").touch()
        _wait(lambda: all(load.path("result.json").exists() for load in loads), "clients finish")
        carried = {end: sent - before[end] for end, sent in plan.sent_bytes().items()}
        took = time.monotonic() - start
        frames = sum(seen["counts"]["copy_bytes"] for seen in _statuses(plan, members))
        results = {load.name: json.loads(load.path("result.json").read_text()) for load in loads}
    expected, least = _expected(truth, loads, results, seed)
    sent = sum(len(one["sent"]) for one in results.values())
    delivered = sum(one["delivered"] for one in results.values())
    busiest = max(carried.values()) / (BANDWIDTH_BYTES_S * min(took, seconds))
    carried_bytes = sum(carried.values())
    return RealMeasurement(brokers, variant, rate, sent, expected, delivered, carried_bytes, frames, least, busiest)


def _members(plan: Plan, folder: Path, variant: str) -> list[Member]:
    routing = Routing("flooding" if variant == "flooding" else "bdrp", encoding=ENCODINGS[variant])
    router = {name: number for number, name in enumerate(plan.nodes, 1)}
    found = []
    write_secret(folder, "5e" * 32)
    for name in plan.nodes:
        peers = [other for (one, other) in plan.addresses if one == name and router[name] < router[other]]
        dials = [(f"{plan.address(peer, name)}:{LINK_PORT}", router[peer]) for peer in peers]
        member = Member(name, router[name], "127.0.0.1", PORT, "0.0.0.0", LINK_PORT, HTTP_PORT)
        member.save(folder, dials, routing)
        found.append(member)
    return found


def _loads(truth: Truth, folder: Path, rate: float, seconds: float, seed: int) -> list[Load]:
    by_home: dict[int, list[int]] = {}
    for client, home in enumerate(truth.homes):
        by_home.setdefault(home, []).append(client)
    share = rate / len(by_home)
    return [
        Load(f"tidings://127.0.0.1:{PORT}", clients, seed, share, seconds, str(folder), str(home))
        for home, clients in by_home.items()
    ]


def _statuses(plan: Plan, members: list[Member]) -> list[dict[str, Any]]:
    """What each member sees; empty for one that does not say."""
    return [member.status(plan.namespace(member.name)) or {} for member in members]


def _start(stack: ExitStack, plan: Plan, name: str, command: list[str], log_path: Path) -> None:
    log = stack.enter_context(log_path.open("wb"))
    process = subprocess.Popen(plan.inside(name, command), stdout=log, stderr=log)
    stack.callback(process.wait, 10)
    stack.callback(process.kill)


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TidingsError("E_EXPERIMENT", f"waited {WAIT_SECONDS:g} s in vain until {what}")
        time.sleep(0.2)


def _quiet(plan: Plan, members: list[Member]) -> bool:
    """Whether everybody has interests of everybody else, and these stay the same for two seconds."""

    def seen() -> list[dict[str, Any]]:
        return [one.get("interests", {}) for one in _statuses(plan, members)]

    first = seen()
    if any(len([rows for rows in one.values() if rows]) < len(members) - 1 for one in first):
        return False
    time.sleep(2.5)
    return seen() == first


def _expected(truth: Truth, loads: list[Load], results: dict[str, Any], seed: int) -> tuple[int, int]:
    expected = least = 0
    for load in loads:
        senders = results[load.name]["sent"]
        messages = workload(seed).messages(0, len(senders))
        batch = MessageBatch.from_messages(encode_messages(messages))
        for message, matched in zip(messages, truth.matches(batch), strict=True):
            expected += len(matched)
            home = int(load.name)
            least += truth.least_links(home, truth.brokers_of(matched) - {home}) * (
                len(encode_message(message)) + FRAME_BYTES
            )
    return expected, least


def main(arguments: list[str]) -> None:
    brokers, variant, rate, seconds = arguments
    found = measure(int(brokers), variant, float(rate), float(seconds))
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
