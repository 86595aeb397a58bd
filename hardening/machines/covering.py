"""The covering scheme judged in the simulator: random trees or graphs, clients that come and go, links that fail.

What must hold, for every policy, at any interleaving. A *quiet* moment is one at which no control message is on its
way or waiting, and no news of a failure either. A subscription or advertisement is *settled* from the first quiet
moment after it was made, until it is taken back, a link fails or a link comes back. A publication is *due* to a
subscription that matches it if, when it is published, its advertisement and the subscription are both settled and
their brokers connected. Then:

- what is due arrives, exactly once, whatever control messages of others are on their way at the same time, unless the
  subscription is taken back or a link fails or comes back before it arrives;
- nothing arrives twice, nothing at a subscription that does not match or has been taken back;
- at a quiet moment neighbours agree on what they told each other, and every border keeps its promise (tables.py).

Since `none` is held to the same, each client receives with every policy what it would with `none`; only where a control
message of that very client, or of the publisher, is still on its way may the two differ.

Everything follows from the policy, the kind of overlay and a seed; a failure names the command that repeats it:

    python -m hardening.machines.covering selective graph 17          # add --trace to see everything that is done
    python -m hardening.machines.covering 1 2000                      # these seeds, every policy, trees and graphs
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from hardening.seeds import parser, run_seeds
from tidings.kernel.codec import decode_message, encode_message
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.overlay.topology.generate import barabasi_albert, random_tree, ring
from tidings.overlay.topology.graph import Graph
from tidings.routing.covering.messages import (
    AdvertisementId,
    CoveringAdvertise,
    CoveringHandOver,
    CoveringPublication,
    CoveringSubscribe,
    CoveringUnadvertise,
    CoveringUnsubscribe,
    FilterId,
)
from tidings.routing.covering.policies import POLICIES
from tidings.routing.covering.policy import Policy
from tidings.routing.covering.selective import Selective, SelectiveOptions
from tidings.routing.covering.tables import CoveringTable, NeighbourTable
from tidings.sim.covering import CoveringNetwork

OVERLAYS = ("tree", "graph")
CLASSES = ("a", "b")
WIDTH = 12  # values of x
EVENTS_MAX = 400_000
EAGER = SelectiveOptions(phi=0.7, count_small=0, window_age_ms=2_000, window_size_max=60, bucket_depth=2.0)


@dataclass
class Made:
    """A subscription or an advertisement."""

    router: int
    filter: Predicate
    settled: bool = False


@dataclass
class Published:
    attributes: dict[str, str | int]
    due: set[FilterId]
    handed: Counter[FilterId] = field(default_factory=Counter)


def random_filter(rng: Random) -> Predicate:
    """Few values, so that filters often cover each other, are equal, or only intersect."""
    rows = []
    for _ in range(rng.choice((1, 1, 1, 1, 2))):
        row = [Constraint("class", Op.EQ, rng.choice(CLASSES))] if rng.random() < 0.8 else []
        if rng.random() < 0.8:
            low = rng.randrange(WIDTH)
            high = rng.randint(low, WIDTH)
            row += [Constraint("x", Op.GE, low), Constraint("x", Op.LE, high)]
        rows.append(row)
    return Predicate(rows)


def random_graph(rng: Random, overlay: str) -> Graph:
    size = rng.randint(2, 9)
    shape = random_tree(size, rng)
    if overlay == "graph":
        shape = rng.choice((lambda: ring(max(3, size)), lambda: barabasi_albert(size, rng), lambda: shape))()
    graph = Graph()
    for edge in shape.edges():
        graph.add(edge.a, edge.b, latency_ms=rng.choice((1, 2, 5, 20)))
    return graph


class Trial:
    """One network, its clients, and what they are due."""

    def __init__(self, policy: str, overlay: str, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.rng = Random(seed)
        self.trace = trace
        make: Callable[[], Policy] = POLICIES[policy]
        if policy == "selective":
            make = lambda: Selective(EAGER)  # noqa: E731
        graph = random_graph(self.rng, overlay)
        self.network = CoveringNetwork(
            graph, make, jitter=Random(seed + 1), cycles=overlay == "graph", hear_ms=30.0, on_hand=self.on_hand
        )
        self.network.on_quiet = self.on_quiet
        self.routers = list(self.network.brokers)
        self.links = [(int(edge.a), int(edge.b)) for edge in graph.edges()]
        self.down: set[tuple[int, int]] = set()
        self.subscriptions: dict[FilterId, Made] = {}
        self.advertisements: dict[AdvertisementId, Made] = {}
        self.published: list[Published] = []
        self.quiet_checks = 0
        self._number = 0

    # What clients do.

    def subscribe(self) -> None:
        self._number += 1
        made = Made(self.rng.choice(self.routers), random_filter(self.rng))
        id = FilterId(made.router, self._number)
        self.subscriptions[id] = made
        self._tell(made.router, CoveringSubscribe(id, made.filter))

    def unsubscribe(self) -> None:
        if self.subscriptions:
            id = self.rng.choice(list(self.subscriptions))
            made = self.subscriptions.pop(id)
            for one in self.published:
                one.due.discard(id)
            self._tell(made.router, CoveringUnsubscribe(id))

    def advertise(self) -> None:
        self._number += 1
        made = Made(self.rng.choice(self.routers), random_filter(self.rng))
        id = AdvertisementId(made.router, self._number)
        self.advertisements[id] = made
        self._tell(made.router, CoveringAdvertise(id, made.filter))

    def unadvertise(self) -> None:
        if self.advertisements:
            id = self.rng.choice(list(self.advertisements))
            self._tell(self.advertisements.pop(id).router, CoveringUnadvertise(id))

    def publish(self) -> None:
        attributes: dict[str, str | int] = {"class": self.rng.choice(CLASSES), "x": self.rng.randrange(WIDTH + 1)}
        able = [id for id, made in self.advertisements.items() if made.filter.matches(attributes)]
        if not able:
            return
        id = self.rng.choice(able)
        made = self.advertisements[id]
        reached = self._reached(made.router)
        due = {
            sub
            for sub, other in self.subscriptions.items()
            if made.settled and other.settled and other.router in reached and other.filter.matches(attributes)
        }
        number = len(self.published)
        self.published.append(Published(attributes, due))
        message = encode_message(Message(Destination("t"), attributes, str(number).encode()))
        self._tell(made.router, CoveringPublication(id, 99, 99, message))

    def fail_or_heal(self) -> None:
        down = self.rng.choice(sorted(self.down)) if self.down and self.rng.random() < 0.6 else None
        link = down or self.rng.choice(self.links)
        self._note(f"{'heal' if link in self.down else 'cut'} {link}")
        for one in self.published:
            one.due &= set(one.handed)
        for made in (*self.subscriptions.values(), *self.advertisements.values()):
            made.settled = False
        if link in self.down:
            self.down.discard(link)
            self.network.heal(*link)
        else:
            self.down.add(link)
            self.network.cut(*link)
        if self.network.pending == 0:
            self.on_quiet()

    def _tell(self, router: int, message: object) -> None:
        self._note(f"{router}: {message}")
        self.network.tell(router, message)  # type: ignore[arg-type]

    def _note(self, text: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.network.calendar.now:9.1f} {text}")

    def _reached(self, router: int) -> set[int]:
        found, waiting = {router}, [router]
        while waiting:
            at = waiting.pop()
            for a, b in self.network.links_up():
                if a == at and b not in found:
                    found.add(b)
                    waiting.append(b)
        return found

    # What the network does.

    def on_hand(self, router: int, hand: CoveringHandOver) -> None:
        self._note(f"{router}: {hand}")
        one = self.published[int(decode_message(hand.publication.message).body)]
        for id in hand.subscriptions:
            assert id in self.subscriptions, f"{id} was taken back and still receives"
            assert self.subscriptions[id].router == router, f"{id} receives at {router}"
            assert self.subscriptions[id].filter.matches(one.attributes), f"{id} receives what it does not match"
            one.handed[id] += 1
            assert one.handed[id] == 1, f"{id} receives {one.attributes} twice"

    def on_quiet(self) -> None:
        for made in (*self.subscriptions.values(), *self.advertisements.values()):
            made.settled = True
        self.quiet_checks += 1
        if self.quiet_checks % 8 == 1:
            check_borders(self.network)

    def run(self, bursts: int = 12) -> None:
        """Bursts of requests, too fast for the network to settle, and pauses in which it does."""
        calendar = self.network.calendar
        doings = [self.subscribe, self.unsubscribe, self.advertise, self.unadvertise, self.publish, self.fail_or_heal]
        for _ in range(bursts):
            weights = (6, 4, 2, 1, 8, self.rng.choice((0, 0, 1)))
            pace_ms = self.rng.choice((0.5, 3.0, 20.0))
            for _ in range(self.rng.randint(1, 20)):
                calendar.run(until=calendar.now + self.rng.expovariate(1 / pace_ms))
                self.rng.choices(doings, weights)[0]()
            if self.rng.random() < 0.7:
                calendar.run(until=calendar.now + self.rng.uniform(0, 400))
                self.storm()
        calendar.run(events_max=EVENTS_MAX)
        assert len(calendar) == 0, "it does not come to rest"
        assert self.network.pending == 0
        check_borders(self.network)
        for _ in range(10):  # everything is settled now: these say what the tables are worth
            self.publish()
        calendar.run()
        self.check_due()

    def storm(self) -> None:
        """Publications close together while a few requests make their way: the gaps that they may leave are short."""
        calendar = self.network.calendar
        for _ in range(self.rng.randint(1, 3)):
            self.rng.choice((self.unsubscribe, self.unsubscribe, self.subscribe, self.unadvertise, self.advertise))()
            for _ in range(self.rng.choice((5, 25))):
                self.publish()
                calendar.run(until=calendar.now + self.rng.uniform(0, 2))

    def check_due(self) -> None:
        for one in self.published:
            missed = sorted(id for id in one.due if one.handed[id] != 1)
            assert not missed, f"{one.attributes} was due to {missed} and did not arrive"


def check_borders(network: CoveringNetwork) -> None:
    """At a quiet moment: neighbours agree, promises are kept, and policies have what they are meant to have."""
    for router, broker in network.brokers.items():
        machine = broker.machine
        for neighbour, border in machine.borders.items():
            where = f"{router} towards {neighbour}"
            there = network.brokers[neighbour].machine
            assert {entry.id for entry in there.table.from_hop(router)} == set(border.told), (
                f"{where}: not what it told"
            )
            assert router in there.borders, f"{where}: open on one side only"
            advertised = {id for id, (_, hop) in machine.advertisements.items() if hop == neighbour}
            assert advertised == set(border.advertised), f"{where}: other advertisements"
            for entry in machine.table.entries.values():
                if entry.hop != neighbour and border.wants(entry.filter):
                    assert border.covered(entry.filter), f"{where}: {entry.id} is wanted and not covered"
            check_policy(machine.policy.name, where, border, machine.table)


def check_policy(name: str, where: str, border: NeighbourTable, table: CoveringTable) -> None:
    known = {id for id, entry in table.entries.items() if entry.hop != border.neighbour}
    orphans = set(border.told) - known
    assert orphans == set(border.preserved), f"{where}: told of {orphans}, preserved are {set(border.preserved)}"
    if name in ("active", "packing", "selective"):
        for id in border.told:
            others = [one for one in border.told.covering(border.told[id]) if one != id]
            assert not others, f"{where}: {id} is covered by {others} and still told"
    for id in border.preserved:
        assert next(border.quenched_by(table, border.told[id]), None), f"{where}: {id} is preserved for nothing"


def run(policy: str, overlay: str, seed: int, trace: Callable[[str], None] | None = None) -> Trial:
    """One random trial; a failure says how to repeat it."""
    try:
        trial = Trial(policy, overlay, seed, trace)
        trial.run()
    except AssertionError as error:
        error.add_note(f"Repeat with: python -m hardening.machines.covering {policy} {overlay} {seed} --trace")
        raise
    return trial


def figures(seed: int) -> dict[str, int]:
    """All policies on both kinds of overlay."""
    trials = [run(policy, overlay, seed) for policy in POLICIES for overlay in OVERLAYS]
    published = [one for trial in trials for one in trial.published]
    return {
        "schedules": len(trials),
        "publications": len(published),
        "due": sum(len(one.due) for one in published),
        "handed": sum(one.handed.total() for one in published),
        "quiet_moments": sum(trial.quiet_checks for trial in trials),
    }


def repeat(asked: argparse.Namespace) -> int:
    """One schedule, which may be shown."""
    trial = run(asked.policy, asked.overlay, asked.seed, (lambda text: print(text)) if asked.trace else None)  # noqa: T201
    handed = sum(one.handed.total() for one in trial.published)
    due = sum(len(one.due) for one in trial.published)
    told = f"{due} due, {handed} handed over, {trial.quiet_checks} quiet moments"
    print(f"{asked.policy} {asked.overlay} {asked.seed}: right; {told}")  # noqa: T201
    return 0


def main(arguments: list[str]) -> int:
    if arguments and arguments[0].isdecimal():
        about = (
            "Every policy on trees and graphs under random schedules; POLICY OVERLAY SEED [--trace] runs a single one."
        )
        return run_seeds(parser("machines.covering", about).parse_args(arguments), "covering", figures)
    one = argparse.ArgumentParser(
        prog="python -m hardening.machines.covering", description="FIRST LAST, or one schedule:"
    )
    one.add_argument("policy", choices=POLICIES)
    one.add_argument("overlay", choices=OVERLAYS)
    one.add_argument("seed", type=int)
    one.add_argument("--trace", action="store_true", help="show everything that happens")
    return repeat(one.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
