"""Networks of whole brokers judged in the simulator: random topology, subscriptions, publications and faults.

Everything follows from a seed; a failure names the command that repeats it:

    python -m tidings.testing.network 17            # add --trace to see everything that happens
    python -m tidings.testing.network 1 1000        # all seeds from 1 to 1000
    python -m tidings.testing.network 17 --policy selective    # the same under covering
"""

import sys
from dataclasses import dataclass, field
from random import Random

from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.model.values import Value
from tidings.node.network_settings import NetworkSettings
from tidings.overlay.generate import barabasi_albert, random_tree, ring, waxman
from tidings.overlay.graph import Graph
from tidings.overlay.link import LinkOptions
from tidings.routing.interests import InterestEncoding
from tidings.sim.brokers import Brokers, Publication, no_loops
from tidings.sim.driver import Trace
from tidings.sim.faults import Fault, HealLink, Partition, Restart, Slow, inflict, random_faults

# Quicker than in production, so that a run is short; the proportions are the same.
LINK = LinkOptions(
    heartbeat_ms=500, suspect_ms=1200, dead_ms=2500, handshake_ms=1500, backoff_first_ms=50, backoff_max_ms=1000
)
START_MS, FAULTS_MS, SETTLE_MS, QUIET_MS = 4000.0, 5000.0, 7000.0, 2000.0
EVENTS_MAX = 2_000_000
SELECTORS = ("x = 1", "x > 3", "x < 2 AND y = 1", "y = 0", "s LIKE 'ab%'", "s = 'abc' OR x = 5", "")
TEXTS = ("abc", "abd", "xyz")


@dataclass
class Scenario:
    graph: Graph
    settings: dict[int, NetworkSettings]
    faults: list[tuple[float, Fault]]
    skews_ms: dict[int, float] = field(default_factory=dict)


def random_scenario(seed: int, policy: str = "") -> Scenario:
    """`policy`: route by covering, with this one."""
    rng = Random(seed)
    size = rng.randint(3, 15)
    kind = rng.choice((random_tree, lambda n, _: ring(n), waxman, barabasi_albert))
    graph = Graph()
    shape = kind(size, rng)
    dials: dict[int, list[int]] = {int(node) + 1: [] for node in shape}
    for edge in shape.edges():
        a, b = int(edge.a) + 1, int(edge.b) + 1
        graph.add(a, b, latency_ms=rng.choice((1, 1, 2, 5, 10, 30)))
        for one, other in rng.choice((((a, b),), ((b, a),), ((a, b), (b, a)))):
            dials[one].append(other)
    flooding = rng.random() < 0.15
    unicast = "link-state" if flooding or rng.random() < 0.8 else "distance-vector"
    if policy:
        flooding, unicast = False, "link-state"
    encoding = rng.choice(
        (InterestEncoding(), InterestEncoding(vectors=False), InterestEncoding(Encoding(grade=GradedGrade()), False))
    )
    broadcast_above = rng.choice((0, 0, 1, 3))
    settings = {
        router: NetworkSettings(
            router,
            "simulated",
            tuple((str(other), other) for other in others),
            unicast,
            "covering" if policy else "flooding" if flooding else "bdrp",
            encoding,
            broadcast_above,
            costs={int(peer): int(edge.latency_ms) for peer, edge in graph.neighbours(router).items()},
            window_bytes=rng.choice((300, 1 << 20)),
            link=LINK,
            policy=policy or "selective",
            merge=seed % 2 == 1,
        )
        for router, others in dials.items()
    }
    faults = random_faults(graph, rng, rng.randint(1, 8), FAULTS_MS)
    return Scenario(graph, settings, faults, {router: rng.uniform(0, 100_000) for router in dials})


class Run:
    def __init__(self, seed: int, trace: Trace | None = None, policy: str = "") -> None:
        self.seed = seed
        self.scenario = random_scenario(seed, policy)
        self.rng = Random(f"actions {seed}")
        self.brokers = Brokers(self.scenario.graph, self.scenario.settings, seed, self.scenario.skews_ms, trace)
        self.flooding = any(one.scheme == "flooding" for one in self.scenario.settings.values())

    def until(self, at: float) -> None:
        calendar = self.brokers.calendar
        calendar.run(until=at, events_max=EVENTS_MAX)
        assert calendar.now == at, f"{EVENTS_MAX} events and no end"

    def run(self) -> None:
        """Grow, judge, break, heal, judge."""
        self.subscribe()
        self.until(START_MS)
        self.judge()
        start = self.brokers.calendar.now
        self.trouble(start)
        self.until(start + FAULTS_MS)
        self.heal()
        self.until(self.brokers.calendar.now + SETTLE_MS)
        self.brokers.check_nobody_twice()
        self.brokers.check_tables()
        self.judge()
        self.brokers.read_durables()
        self.until(self.brokers.calendar.now + 100)
        self.brokers.check_durable()
        self.brokers.check_nobody_twice()

    def subscribe(self) -> None:
        for router in self.scenario.settings:
            for _ in range(self.rng.randint(0, 2)):
                self.brokers.subscribe(router, self.rng.choice(SELECTORS))
            if self.rng.random() < 0.4:
                self.brokers.subscribe(router, self.rng.choice(SELECTORS), durable=True)

    def something(self) -> tuple[dict[str, Value], int, bool]:
        """To be published: attributes, where, and whether it is persistent."""
        attributes: dict[str, Value] = {"x": self.rng.randint(0, 6), "y": self.rng.randint(0, 1)}
        if self.rng.random() < 0.5:
            attributes["s"] = self.rng.choice(TEXTS)
        router = self.rng.choice(list(self.scenario.settings))
        persistent = self.rng.random() < 0.5 and not self.flooding
        return attributes, router, persistent

    def publish(self) -> Publication | None:
        attributes, router, persistent = self.something()
        return self.brokers.publish(router, attributes, persistent=persistent)

    def judge(self) -> None:
        """A stable phase: publish, wait, and compare with the truth."""
        before = {router: broker.forwarder.network_stats() for router, broker in self.brokers.running().items()}
        published = [self.publish() for _ in range(8)]
        self.until(self.brokers.calendar.now + QUIET_MS)
        self.brokers.check_delivered([one for one in published if one is not None])
        self.brokers.check_nobody_twice()
        after = {router: broker.forwarder.network_stats() for router, broker in self.brokers.running().items()}
        no_loops(before, after)

    def trouble(self, start: float) -> None:
        calendar, rng = self.brokers.calendar, self.rng
        for at, fault in self.scenario.faults:
            calendar.at(start + at, inflict, self.brokers.driver, fault)
        for _ in range(25):
            calendar.at(start + rng.uniform(0, FAULTS_MS), self.publish)
        for _ in range(4):
            calendar.at(start + rng.uniform(0, FAULTS_MS), self.change)

    def change(self) -> None:
        """Somebody comes or goes."""
        going = [one for one in self.brokers.subscribers if not one.durable]
        if going and self.rng.random() < 0.5:
            self.brokers.unsubscribe(self.rng.choice(going))
        else:
            self.brokers.subscribe(self.rng.choice(list(self.scenario.settings)), self.rng.choice(SELECTORS))

    def heal(self) -> None:
        """All is mended; who was connected to a broker that crashed has to come again."""
        driver = self.brokers.driver
        inflict(driver, Partition(()))
        for edge in self.scenario.graph.edges():
            inflict(driver, HealLink(int(edge.a), int(edge.b)))
            inflict(driver, Slow(int(edge.a), int(edge.b), 0.0))
        for router in self.scenario.settings:
            inflict(driver, Restart(router))
        running = self.brokers.running()
        for one in [one for one in self.brokers.subscribers if not one.durable]:
            client = one.client
            if client is None or running[one.router].clients.get(client.number) is not client:
                self.brokers.forget(one)
                self.brokers.subscribe(one.router, one.selector)


def run(seed: int, trace: Trace | None = None, policy: str = "") -> Run:
    """Simulate and judge one seed."""
    one = Run(seed, trace, policy)
    try:
        one.run()
    except Exception as error:
        option = f" --policy {policy}" if policy else ""
        error.add_note(f"Repeat with: python -m tidings.testing.network {seed}{option} --trace")
        raise
    return one


def main(arguments: list[str]) -> None:
    trace = None
    if "--trace" in arguments:
        arguments = [one for one in arguments if one != "--trace"]

        def trace(now: float, who: str, what: object) -> None:
            sys.stdout.write(f"{now:9.1f}  {who:>3}  {what}\n")

    policy = ""
    if "--policy" in arguments[:-1]:
        at = arguments.index("--policy")
        policy = arguments[at + 1]
        arguments = arguments[:at] + arguments[at + 2 :]
    if len(arguments) not in (1, 2) or not all(one.isdigit() for one in arguments):
        sys.exit("usage: python -m tidings.testing.network FIRST [LAST] [--policy NAME] [--trace]")
    first, last = int(arguments[0]), int(arguments[-1])
    for seed in range(first, last + 1):
        one = run(seed, trace, policy)
        if first == last or seed % 50 == 0:
            done = len(one.brokers.publications)
            sys.stdout.write(f"seed {seed}: right; {len(one.scenario.settings)} brokers, {done} messages\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
