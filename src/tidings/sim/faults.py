"""Faults of a simulation: records, made by hand or by chance, that are carried out at their time.

Hosts and processes of a simulated overlay go by the same number: process "3" runs on host 3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias, assert_never

from tidings.overlay.topology.graph import Graph
from tidings.sim.driver import Driver
from tidings.sim.host import WRITE_MS, Host


@dataclass(frozen=True, slots=True)
class CutLink:
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class CutOneWay:
    """Nothing gets from a to b any more; from b to a it does."""

    a: int
    b: int


@dataclass(frozen=True, slots=True)
class HealLink:
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Slow:
    a: int
    b: int
    delay_ms: float


@dataclass(frozen=True, slots=True)
class Crash:
    """The process dies, its host stays: neighbours hear of it at once."""

    node: int


@dataclass(frozen=True, slots=True)
class LoseHost:
    """The host goes with it: neighbours only hear nothing more."""

    node: int


@dataclass(frozen=True, slots=True)
class Restart:
    node: int


@dataclass(frozen=True, slots=True)
class Freeze:
    """The process takes no input, as after SIGSTOP; its host goes on to take what is sent to it."""

    node: int


@dataclass(frozen=True, slots=True)
class Thaw:
    node: int


@dataclass(frozen=True, slots=True)
class Partition:
    group: tuple[int, ...]  # cut off from the others; empty: the partition ends


@dataclass(frozen=True, slots=True)
class Clog:
    """Packets sent from a to b get stuck; none is lost."""

    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Unclog:
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class SetClock:
    """The clock on a host's wall is set, ahead or back."""

    node: int
    by_ms: float


@dataclass(frozen=True, slots=True)
class SlowDisk:
    node: int
    write_ms: float


@dataclass(frozen=True, slots=True)
class FullDisk:
    """Nothing can be written, until there is room again."""

    node: int
    full: bool


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Another configuration is written to the host; the broker reads it at its next start."""

    node: int


@dataclass(frozen=True, slots=True)
class BackUpDisk:
    """The store is copied as it is."""

    node: int


@dataclass(frozen=True, slots=True)
class RestoreDisk:
    """The store is the copy again. The broker must be down."""

    node: int


@dataclass(frozen=True, slots=True)
class EmptyDisk:
    """The store is new: the disk was replaced. The broker must be down."""

    node: int


HostFault: TypeAlias = SetClock | SlowDisk | FullDisk | Reconfigure | BackUpDisk | RestoreDisk | EmptyDisk
Fault: TypeAlias = (
    CutLink
    | CutOneWay
    | HealLink
    | Slow
    | Crash
    | LoseHost
    | Restart
    | Freeze
    | Thaw
    | Partition
    | Clog
    | Unclog
    | HostFault
)


def inflict(driver: Driver, fault: Fault, hosts: Mapping[int, Host] | None = None) -> None:
    """Carry it out now. What is so already (a crash of what is down) stays as it is."""
    network = driver.network
    match fault:
        case CutLink(a, b):
            network.cut(a, b)
        case CutOneWay(a, b):
            network.cut(a, b, one_way=True)
        case HealLink(a, b):
            network.heal(a, b)
        case Slow(a, b, delay_ms):
            network.delay(a, b, delay_ms)
        case Crash(node) | LoseHost(node):
            if isinstance(fault, LoseHost):
                network.lose_host(node)
            if driver.processes[str(node)].machine is not None:
                driver.crash(str(node))
        case Restart(node):
            network.restore_host(node)
            if driver.processes[str(node)].machine is None:
                driver.start(str(node))
        case Freeze(node):
            driver.freeze(str(node))
        case Thaw(node):
            driver.thaw(str(node))
        case Partition(group):
            network.partition(*([group] if group else []))
        case Clog(a, b):
            network.clog(a, b)
        case Unclog(a, b):
            network.release(a, b)
        case SetClock() | SlowDisk() | FullDisk() | Reconfigure() | BackUpDisk() | RestoreDisk() | EmptyDisk():
            assert hosts is not None, "these hosts have no disk, clock or configuration"
            _inflict_on_host(hosts[fault.node], fault)
        case _:
            assert_never(fault)


def _inflict_on_host(host: Host, fault: HostFault) -> None:
    match fault:
        case SetClock(_, by_ms):
            host.ahead_ms += by_ms
        case SlowDisk(_, write_ms):
            host.write_ms = write_ms
        case FullDisk(_, full):
            host.full = full
        case Reconfigure():
            host.reconfigured = True
        case BackUpDisk():
            host.back_up()
        case RestoreDisk():
            host.restore()
        case EmptyDisk():
            host.empty()
        case _:
            assert_never(fault)


def random_faults(
    graph: Graph, rng: Random, count: int, until_ms: float, *, step_ms: float | None = None
) -> list[tuple[float, Fault]]:
    """Faults at random times, in order. What was broken is often, not always, mended later.

    `step_ms`: clogged links, disks and clocks too; a clock is set by at most so much.
    """
    links = [(int(edge.a), int(edge.b)) for edge in graph.edges()]
    nodes = [int(node) for node in graph]
    plan: list[tuple[float, Fault]] = []
    for _ in range(count):
        at, (a, b), node = rng.uniform(0, until_ms), rng.choice(links), rng.choice(nodes)
        again = rng.uniform(at, until_ms) if rng.random() < 0.7 else None
        if step_ms is not None and rng.random() < 0.5:
            fault, cure = _random_host_fault(a, b, node, rng, step_ms)
        else:
            fault, cure = _random_fault(nodes, a, b, node, rng)
        plan.append((at, fault))
        if again is not None and cure is not None:
            plan.append((again, cure))
    return sorted(plan, key=lambda entry: entry[0])


def _random_fault(nodes: Sequence[int], a: int, b: int, node: int, rng: Random) -> tuple[Fault, Fault | None]:
    a, b = (a, b) if rng.random() < 0.5 else (b, a)
    group = tuple(rng.sample(nodes, rng.randint(1, len(nodes) - 1)))
    choices: list[tuple[Fault, Fault | None]] = [
        (CutLink(a, b), HealLink(a, b)),
        (CutOneWay(a, b), HealLink(a, b)),
        (Slow(a, b, round(rng.uniform(1, 150), 1)), Slow(a, b, 0.0)),
        (Crash(node), Restart(node)),
        (LoseHost(node), Restart(node)),
        (Partition(group), Partition(())),
    ]
    return rng.choices(choices, (3, 2, 1, 3, 2, 1))[0]


def _random_host_fault(a: int, b: int, node: int, rng: Random, step_ms: float) -> tuple[Fault, Fault | None]:
    a, b = (a, b) if rng.random() < 0.5 else (b, a)
    choices: list[tuple[Fault, Fault | None]] = [
        (Clog(a, b), Unclog(a, b)),
        (SetClock(node, round(rng.uniform(-step_ms, step_ms))), None),
        (SlowDisk(node, round(rng.choice((20, 200, 1000)) * rng.random(), 1)), SlowDisk(node, WRITE_MS)),
        (FullDisk(node, True), FullDisk(node, False)),
    ]
    return rng.choices(choices, (4, 1, 3, 2))[0]
