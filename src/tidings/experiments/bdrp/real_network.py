"""The scale-out with real broker processes, each in a network namespace, over links of 1 MB/s. Needs root.

Clients are processes of their own beside their broker (load.py). What the links carried is what their interfaces
counted, with the headers of TCP, IP and Ethernet, advertisements and heartbeats; the least possible is counted as in
scale_out.py. Beside our own variants runs ActiveMQ's network of brokers.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tidings.errors import TidingsError
from tidings.experiments.bdrp import activemq_network
from tidings.experiments.bdrp.load_process import LoadDescription, Stretch
from tidings.experiments.bdrp.real_measurement import RealMeasurement, Second
from tidings.experiments.bdrp.scale_out import BANDWIDTH_BYTES_S, FRAME_BYTES, LATENCY_MS, TOPOLOGIES, Truth, workload
from tidings.kernel.codec import MessageBatch, encode_message, encode_messages
from tidings.lab.machine import environment
from tidings.localnet.member import Member, Peer, Routing, write_secret
from tidings.localnet.namespaces import AddressPlan
from tidings.overlay.topology.generate import line, with_links
from tidings.overlay.topology.graph import Graph, Node, shortest_tree

ENCODINGS = {"graded": "graded", "plain": "vectors", "flooding": "graded"}
ACTIVEMQ = ("activemq-tree", "activemq")  # on a spanning tree; on all links
VARIANTS = (*ENCODINGS, *ACTIVEMQ)
WAIT_SECONDS = 180.0
PORT, LINK_PORT, HTTP_PORT = 7300, 7301, 8700  # each broker has its own namespace
GOSSIP_SECONDS = 8.0  # until ActiveMQ's brokers have heard of each other's consumers; they do not say so
BEGIN_SECONDS = 1.0
COST = 10  # of every link: they are alike, and a busy processor shall not send messages by another way


class LoadedProcess(NamedTuple):
    running: "subprocess.Popen[bytes]"
    log: Path

    @property
    def pid(self) -> int:
        return self.running.pid

    def last_words(self) -> str:
        return "".join(self.log.read_text(errors="replace").strip().splitlines()[-1:])


def measure(brokers: int, variant: str, profile: Sequence[Stretch], seed: int = 1) -> RealMeasurement:
    graph = with_links(topology(brokers), LATENCY_MS, BANDWIDTH_BYTES_S)
    truth = Truth(graph, seed)
    seconds = sum(one.seconds for one in profile)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plan = stack.enter_context(AddressPlan.of(graph, "tnet"))
        foreign = variant in ACTIVEMQ
        tree = shortest_tree(graph, next(iter(graph))) if variant == "activemq-tree" else None
        fleet = _ActiveMq(stack, plan, folder, tree) if foreign else _Tidings(stack, plan, folder, variant)
        loads = _loads(truth, folder, profile, seed, "stomp" if foreign else "native")
        fleet.start()
        clients: list[LoadedProcess] = []
        for load in loads:
            command = [sys.executable, "-m", "tidings.experiments.bdrp.load_process", str(load.save())]
            clients.append(_spawn(stack, plan, load.name, command, folder / f"{load.name}.load.log"))
        _wait(lambda: all(load.path("ready").exists() for load in loads), "clients subscribe", clients)
        fleet.settle()
        start = time.monotonic() + BEGIN_SECONDS
        (folder / "go.new").write_text(str(start))
        watch = _Watch(plan, fleet.processes, clients)
        packets, idle = plan.sent_packets(), fleet.work()
        (folder / "go.new").rename(folder / "go")
        time.sleep(max(0.0, start - time.monotonic()))
        watch.look()
        while not all(load.path("result.json").exists() for load in loads):
            if time.monotonic() > start + seconds + WAIT_SECONDS:
                raise TidingsError("E_EXPERIMENT", "clients do not finish")
            time.sleep(max(0.0, start + len(watch.carried) - time.monotonic()))
            watch.look()
        packets = plan.sent_packets() - packets
        work = [{name: one[name] - then[name] for name in one} for one, then in zip(fleet.work(), idle, strict=True)]
        results = {load.name: json.loads(load.path("result.json").read_text()) for load in loads}
    found = RealMeasurement(
        brokers, variant, list(profile), seed, packets=packets, work=work, environment=environment()
    )
    return _judge(truth, found, results, watch)


class _Watch:
    """Traffic of links and CPU time of processes, by second from the beginning."""

    def __init__(self, plan: AddressPlan, brokers: Sequence[LoadedProcess], clients: Sequence[LoadedProcess]) -> None:
        self._plan, self._brokers, self._clients = plan, brokers, clients
        self.carried: list[dict[tuple[str, str], int]] = []
        self.brokers: list[list[float]] = []  # processor seconds so far
        self.clients: list[list[float]] = []
        self.machine: list[float] = []  # of everything that runs on it

    def look(self) -> None:
        self.machine.append(_machine_seconds())
        self.carried.append(self._plan.sent_bytes())
        self.brokers.append([_cpu_seconds(one.pid) for one in self._brokers])
        self.clients.append([_cpu_seconds(one.pid) for one in self._clients])

    def busiest(self) -> list[float]:
        return [
            max((after[end] - before[end] for end in after), default=0) / BANDWIDTH_BYTES_S
            for before, after in pairwise(self.carried)
        ]

    def cores(self) -> list[tuple[float, float, float, float, float]]:
        """Of all brokers, of all clients, of the busiest of each, of others."""
        found = []
        pairs = (pairwise(one) for one in (self.brokers, self.clients, self.machine))
        for brokers, clients, (before, after) in zip(*pairs, strict=True):
            mine, theirs = ([b - a for a, b in zip(*pair, strict=True)] for pair in (brokers, clients))
            most = max(mine, default=0.0), max(theirs, default=0.0)
            found.append((sum(mine), sum(theirs), *most, max(0.0, after - before - sum(mine) - sum(theirs))))
        return found


def _cpu_seconds(pid: int) -> float:
    """Of all its threads; 0 once it has ended."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _machine_seconds() -> float:
    """Processor time that everything on this machine has taken, what the machine's host took included."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def topology(brokers: int) -> Graph:
    return line(1) if brokers == 1 else TOPOLOGIES[brokers]()


# --- brokers ----------------------------------------------------------------------------------------------------------


class _Tidings:
    def __init__(self, stack: ExitStack, plan: AddressPlan, folder: Path, variant: str) -> None:
        self._stack, self._plan, self._folder = stack, plan, folder
        routing = Routing(
            "flooding" if variant == "flooding" else "bdrp", encoding=ENCODINGS[variant], encoding_exact=False
        )
        router = {name: number for number, name in enumerate(plan.nodes, 1)}
        write_secret(folder, "5e" * 32)
        self._members: list[Member] = []
        self.processes: list[LoadedProcess] = []
        for name in plan.nodes:
            dialled = _dialled(plan, name)
            peers = [
                Peer(f"{plan.address(other, name)}:{LINK_PORT}" if other in dialled else "", router[other], cost=COST)
                for (one, other) in plan.addresses
                if one == name
            ]
            member = Member(name, router[name], "127.0.0.1", PORT, "0.0.0.0", LINK_PORT, HTTP_PORT)
            member.save(folder, peers, routing)
            self._members.append(member)

    def start(self) -> None:
        for member in self._members:
            log = self._folder / f"{member.name}.log"
            command = member.command(self._folder)
            self.processes.append(_spawn(self._stack, self._plan, member.name, command, log))
        _wait(lambda: all(self._statuses()), "brokers start", self.processes)
        _wait(
            lambda: all(self._plan.listens(name, PORT) for name in self._plan.nodes), "brokers listen", self.processes
        )

    def settle(self) -> None:
        """Until everybody has interests of everybody else, and these stay the same for a while."""

        def seen() -> list[dict[str, Any]]:
            return [one.get("interests", {}) for one in self._statuses()]

        def quiet() -> bool:
            first = seen()
            if any(sum(map(bool, one.values())) < len(self._members) - 1 for one in first):
                return False
            time.sleep(2.5)
            return seen() == first

        _wait(quiet, "interests are known everywhere")

    def work(self) -> list[dict[str, float]]:
        seen = self._statuses()
        return [{**one["plane"], **one["counts"], "cpu_seconds": one["cpu_seconds"]} for one in seen]

    def _statuses(self) -> list[dict[str, Any]]:
        """The status of each member; empty for one that does not answer."""
        return [member.status(self._plan.namespace(member.name)) or {} for member in self._members]


class _ActiveMq:
    """With cycles its topics deliver messages several times: a tree (node to predecessor) avoids them."""

    def __init__(self, stack: ExitStack, plan: AddressPlan, folder: Path, tree: Mapping[Node, Node] | None) -> None:
        self._stack, self._plan, self._folder = stack, plan, folder
        self.processes: list[LoadedProcess] = []
        self._used = None if tree is None else {frozenset((str(a), str(b))) for a, b in tree.items()}

    def start(self) -> None:
        for name in self._plan.nodes:
            peers = [one for one in _dialled(self._plan, name) if self._used is None or {one, name} in self._used]
            dials = [f"{self._plan.address(peer, name)}:{LINK_PORT}" for peer in peers]
            command = activemq_network.command(self._folder, name, PORT, LINK_PORT, dials)
            self.processes.append(_spawn(self._stack, self._plan, name, command, self._folder / f"{name}.log"))
        _wait(lambda: all(self._plan.listens(name, PORT) for name in self._plan.nodes), "brokers start", self.processes)
        time.sleep(GOSSIP_SECONDS)

    def settle(self) -> None:
        time.sleep(GOSSIP_SECONDS)

    def work(self) -> list[dict[str, float]]:
        return []


def _dialled(plan: AddressPlan, name: str) -> list[str]:
    """The neighbours that this end dials: those that come after it."""
    order = {node: number for number, node in enumerate(plan.nodes)}
    return [other for (one, other) in plan.addresses if one == name and order[name] < order[other]]


def _spawn(stack: ExitStack, plan: AddressPlan, name: str, command: list[str], log_path: Path) -> LoadedProcess:
    log = stack.enter_context(log_path.open("wb"))
    process = subprocess.Popen(plan.inside(name, command), stdout=log, stderr=log)
    stack.callback(process.wait, 10)
    stack.callback(process.kill)
    return LoadedProcess(process, log_path)


def _wait(condition: Callable[[], bool], what: str, running: Iterable[LoadedProcess] = ()) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        for process in running:
            if process.running.poll():
                raise TidingsError("E_EXPERIMENT", f"a process failed before {what}: {process.last_words()}")
        if time.monotonic() > deadline:
            raise TidingsError("E_EXPERIMENT", f"timed out after {WAIT_SECONDS:g} s waiting until {what}")
        time.sleep(0.2)


# --- clients and the truth --------------------------------------------------------------------------------------------


def _loads(truth: Truth, folder: Path, profile: Sequence[Stretch], seed: int, wire: str) -> list[LoadDescription]:
    by_home: dict[int, list[int]] = {}
    for client, home in enumerate(truth.homes):
        by_home.setdefault(home, []).append(client)
    mine = [one.shared(len(by_home)) for one in profile]
    return [
        LoadDescription("127.0.0.1", PORT, wire, clients, seed, mine, str(folder), str(home))
        for home, clients in by_home.items()
    ]


def _judge(truth: Truth, found: RealMeasurement, results: dict[str, Any], watch: _Watch) -> RealMeasurement:
    sent: Counter[int] = Counter()
    expected: Counter[int] = Counter()
    delivered: Counter[int] = Counter()
    late: Counter[int] = Counter()
    least = 0
    for name, result in results.items():
        messages = workload(found.seed).messages(0, len(result["sent"]))
        matches = truth.matches(MessageBatch.from_messages(encode_messages(messages))) if messages else []
        for second, message, matched in zip(result["sent"], messages, matches, strict=True):
            sent[second] += 1
            expected[second] += len(matched)
            links = truth.least_links(int(name), truth.brokers_of(matched) - {int(name)})
            least += links * (len(encode_message(message)) + FRAME_BYTES)
        delivered.update({int(second): count for second, count in result["delivered"].items()})
        late |= Counter({int(second): by for second, by in result["late"].items()})
    timeline = [
        Second(at, sent[at], expected[at], delivered[at], round(used, 4), late[at], *(round(one, 3) for one in cores))
        for at, (used, cores) in enumerate(zip(watch.busiest(), watch.cores(), strict=True))
    ]
    total = {end: watch.carried[-1][end] - watch.carried[0][end] for end in watch.carried[0]}
    return replace(
        found,
        planned=sum(result["planned"] for result in results.values()),
        sent=sent.total(),
        expected=expected.total(),
        delivered=delivered.total(),
        link_bytes=sum(total.values()),
        frame_bytes=round(sum(one["copy_bytes"] for one in found.work)),
        least_bytes=least,
        busiest=max(total.values(), default=0) / (BANDWIDTH_BYTES_S * found.seconds),
        timeline=timeline,
    )
