"""A broker stops for a while, what is sent to it waits at its neighbour, and the neighbour crashes and restarts.

So the neighbour has a backlog in its store when it starts, and newer messages of the same publisher arrive while it is
read. The publisher is at that neighbour or behind it, and the subscriber at the broker that stopped.
"""

from dataclasses import dataclass
from random import Random

from hardening.simulate.choices import Choices
from tidings.overlay.topology.graph import Graph
from tidings.sim.faults import Clog, Crash, Fault, Restart, Unclog

STOP_MS, CRASH_MS, RESTART_MS, GO_ON_MS, END_MS = 300.0, 1200.0, 1300.0, 1500.0, 2500.0
MESSAGES = 40


@dataclass(frozen=True, slots=True)
class Strain:
    stopped: int  # the router that is stopped, where the subscriber is
    publisher: int  # the router where the publisher is
    faults: tuple[tuple[float, Fault], ...]
    messages: tuple[float, ...]  # when they are published


def random_strain(choices: Choices, graph: Graph) -> Strain | None:
    if choices.strain == "none" or choices.overlay == "pan" or choices.scheme == "flooding":
        return None
    rng = Random(f"strain {choices.seed}")
    ends = rng.choice([(int(edge.a), int(edge.b)) for edge in graph.edges()])
    stopped, restarted = ends if rng.random() < 0.5 else ends[::-1]
    behind = [int(node) for node in graph.neighbours(restarted) if int(node) != stopped]
    publisher = rng.choice([restarted, *behind])
    faults: list[tuple[float, Fault]] = [(CRASH_MS, Crash(restarted)), (RESTART_MS, Restart(restarted))]
    for a, b in (stopped, restarted), (restarted, stopped):
        faults += [(STOP_MS, Clog(a, b)), (rng.uniform(RESTART_MS, GO_ON_MS), Unclog(a, b))]
    messages = sorted(rng.uniform(0, END_MS) for _ in range(MESSAGES))
    return Strain(stopped, publisher, tuple(faults), tuple(messages))
