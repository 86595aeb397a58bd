"""Tracking judged in the simulator: networks of whole brokers, strayed clocks, messages sent again, crashes; then every
message is traced from some broker, over links, and compared with what subscribers got.

    python -m tidings.testing.tracing 17            # one seed
    python -m tidings.testing.tracing 1 1000        # all seeds from 1 to 1000
    python -m tidings.testing.tracing 17 --policy selective    # the same under covering

No false negatives: whoever got a message is in its path, or the broker says that its records of that time are lost,
which only a broker that crashed may say. What a broker recorded long after a message's time and lost in a crash, it
cannot know to be missing: where there were crashes, only messages that surely were not late are judged by who got them.
"""

import sys
from random import Random

from tidings.sim.brokers import Brokers, Publication
from tidings.sim.faults import Crash, LoseHost
from tidings.testing.network import FAULTS_MS, QUIET_MS, SETTLE_MS, START_MS, Run
from tidings.tracking.history import BloomSettings, Mode
from tidings.tracking.path import Path
from tidings.tracking.record import Settings
from tidings.tracking.strategies import AsyncStrategy, BloomStrategy, Strategy

SKEW_MS, JITTER_MS, CLOCKS_MS = 50, 400, 100
ANSWER_MS = 6000.0


def random_settings(rng: Random) -> Settings:
    shape = rng.choice(((8, 512, 10), (60, 2048, 8), (2521, 65536, 16)))
    bloom = BloomSettings(*shape, SKEW_MS, JITTER_MS, rng.choice(tuple(Mode)))
    strategy: Strategy = rng.choice(
        (BloomStrategy(bloom), BloomStrategy(bloom), AsyncStrategy(160, SKEW_MS, JITTER_MS))
    )
    return Settings(strategy, persist_ms=rng.choice((200, 1000)), forwards=rng.random() < 0.3)


class TracedRun(Run):
    def __init__(self, seed: int, policy: str = "") -> None:
        super().__init__(seed, policy=policy)
        rng = Random(f"tracking {seed}")
        self.skews_ms = {router: rng.uniform(0, CLOCKS_MS) for router in self.scenario.settings}
        self.brokers = Brokers(
            self.scenario.graph, self.scenario.settings, seed, self.skews_ms, tracking=random_settings(rng)
        )
        ends = (Crash, LoseHost)
        self.crashed = {fault.node for _, fault in self.scenario.faults if isinstance(fault, ends)}
        self.again: set[bytes] = set()  # messages that were sent more than once
        self.paths: list[Path] = []

    def run(self) -> None:
        self.subscribe()
        self.until(START_MS)
        self.flow()
        start = self.brokers.calendar.now
        self.trouble(start)
        self.until(start + FAULTS_MS)
        self.heal()
        self.until(self.brokers.calendar.now + SETTLE_MS)
        self.flow()
        self.brokers.read_durables()
        self.until(self.brokers.calendar.now + 100)
        self.brokers.collect()
        self.check_traces()

    def flow(self) -> None:
        for _ in range(8):
            self.publish()
        self.until(self.brokers.calendar.now + QUIET_MS)

    def publish(self) -> Publication | None:
        rng = self.rng
        published = self.brokers.publications
        if published and rng.random() < 0.15:
            one = rng.choice(published)
            self.again.add(one.id)
            self.brokers.publish_again(one)
        attributes, router, persistent = self.something()
        stray_ms = self.skews_ms[router] + rng.uniform(-SKEW_MS, SKEW_MS)
        return self.brokers.publish(router, attributes, persistent=persistent, stray_ms=stray_ms)

    def check_traces(self) -> None:
        asked = []
        for number, one in enumerate(self.brokers.publications):
            asked.append((one, self.brokers.trace(self.rng.choice(list(self.brokers.running())), one.id)))
            if number % 10 == 9:  # while messages flow
                self.publish()
        self.until(self.brokers.calendar.now + ANSWER_MS)
        for one, client in asked:
            assert len(client.paths) == 1, f"no answer about {one.id.hex()}: {client.failures}"
            self.paths += client.paths
            self.check_path(one, client.paths[0])

    def check_path(self, one: Publication, path: Path) -> None:
        unsure = set(path.unknown) | set(path.unasked)
        assert not path.unasked, f"{path.message} was not asked for everywhere: {path.unasked}"
        assert set(path.unknown) <= self.crashed, f"{path.message}: {path.unknown} are unsure and never crashed"
        assert path.confirmed or one.router in unsure, f"router {one.router} has forgotten {path.message}"
        named = {(broker, statement.peer) for broker, statement in path.subscribers}
        if self.crashed and (one.persistent or one.id in self.again):
            return
        for subscriber in self.brokers.subscribers + self.brokers.gone:
            if subscriber.got[one.id] and subscriber.router not in unsure:
                place = (subscriber.router, subscriber.name)
                assert place in named, f"{path.message} reached {place}, which {sorted(named)} does not name: {path}"


def run(seed: int, policy: str = "") -> TracedRun:
    """Simulate and judge one seed."""
    one = TracedRun(seed, policy)
    try:
        one.run()
    except Exception as error:
        more = f" --policy {policy}" if policy else ""
        error.add_note(f"Repeat with: python -m tidings.testing.tracing {seed}{more}")
        raise
    return one


def main(arguments: list[str]) -> None:
    policy = ""
    if "--policy" in arguments[:-1]:
        at = arguments.index("--policy")
        policy = arguments[at + 1]
        arguments = arguments[:at] + arguments[at + 2 :]
    if len(arguments) not in (1, 2) or not all(one.isdigit() for one in arguments):
        sys.exit("usage: python -m tidings.testing.tracing FIRST [LAST] [--policy NAME]")
    for seed in range(int(arguments[0]), int(arguments[-1]) + 1):
        one = run(seed, policy)
        unsure = sum(not path.complete for path in one.paths)
        found = sum(len(path.subscribers) for path in one.paths)
        sys.stdout.write(f"seed {seed}: right; {len(one.paths)} traces, {unsure} of them unsure, {found} deliveries\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
