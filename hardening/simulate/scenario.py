"""A random network of brokers and what goes wrong in it."""

from dataclasses import dataclass, replace
from random import Random

from hardening.simulate.choices import Choices
from hardening.simulate.fault_plans import combined_faults, rolling_change
from hardening.simulate.sizes import random_relay_sizes, random_sizes
from hardening.simulate.strain import Strain, random_strain
from hardening.simulate.typed import OPTIONS as HERMES
from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.node.network.held_copies import EmptyStoreOptions
from tidings.node.network.pan_links import PanSettings
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.link.machine import LinkOptions
from tidings.overlay.pan import PanOptions
from tidings.overlay.topology.generate import barabasi_albert, full, random_tree, ring, waxman
from tidings.overlay.topology.graph import Graph
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.control.flood import FloodOptions
from tidings.sim.broker import Sizes
from tidings.sim.faults import Fault, random_faults
from tidings.tracking.recording.history import BloomSettings, Mode
from tidings.tracking.recording.recorder import TrackingSettings as TrackingSettings
from tidings.tracking.recording.strategies import AsyncStrategy, BloomStrategy, RunStrategy, Strategy

# Quicker than in production, so that a run is short; the proportions are the same.
LINK = LinkOptions(
    heartbeat_ms=500, suspect_ms=1200, dead_ms=2500, handshake_ms=1500, backoff_first_ms=50, backoff_max_ms=1000
)
PAN = PanOptions(leaves=4, beat_ms=1000, fail_ms=4000, tend_ms=3000, forget_ms=10_000)
FAULTS_MS = 5000.0
ENCODINGS = (
    InterestEncoding(),
    InterestEncoding(vectors=False),
    InterestEncoding(Encoding(grade=GradedGrade()), False),
    InterestEncoding(Encoding(grade=GradedGrade()), False, exact=True),
    InterestEncoding(Encoding(hashes=5)),
    InterestEncoding(Encoding(bits=512)),
    InterestEncoding(Encoding(key=0x5EC2E7)),
    InterestEncoding(Encoding(key=0x5EC2E7, grade=GradedGrade()), False, exact=True),
)
COMBINED_SHARE = 0.4
# With tracking, clocks agree so far (T_s, T_j and the skew between brokers); without it they are anywhere.
SKEW_MS, JITTER_MS, CLOCKS_MS, STEP_MS = 50, 400, 80.0, 10.0
FAR_MS, FAR_STEP_MS = 100_000.0, 600_000.0
SHAPES = {
    "tree": random_tree,
    "ring": lambda size, _: ring(size),
    "waxman": waxman,
    "barabasi-albert": barabasi_albert,
}


@dataclass
class Scenario:
    graph: Graph
    settings: dict[int, NetworkSettings]
    faults: list[tuple[float, Fault]]
    skews_ms: dict[int, float]
    tracking: TrackingSettings | None
    sizes: dict[int, Sizes]
    read_ms: float  # how long it takes to load messages from a store
    strain: Strain | None
    later: dict[int, NetworkSettings] | None  # of a rolling change: what each broker is restarted with


def random_scenario(choices: Choices) -> Scenario:
    rng = Random(f"scenario {choices.seed}")
    graph, dials = _network(choices, rng)
    encoding = rng.choice(ENCODINGS[:4])
    broadcast_above = rng.choice((0, 0, 1, 3))
    scheme = choices.scheme.partition("-")[0]
    # A broker whose disk was full from its first moment on seems to have a new store after a crash.
    empty_store = EmptyStoreOptions(wait_ms=Random(f"empty store {choices.seed}").choice((200.0, 1000.0, 3000.0)))
    flood = FloodOptions(log_items_max=Random(f"flood {choices.seed}").choice((1, 3, 64)))
    settings = {
        router: NetworkSettings(
            router,
            "simulated",
            tuple((str(other), other) for other in others),
            choices.unicast,
            scheme,
            encoding,
            broadcast_above,
            costs={int(peer): int(edge.latency_ms) for peer, edge in graph.neighbours(router).items()},
            window_bytes=rng.choice((300, 1 << 20)),
            link=LINK,
            flood=flood,
            policy=choices.policy or "selective",
            in_vain_max=(1.0, 0.0, 0.2)[choices.seed % 3],
            merge=choices.seed % 2 == 1,
            merge_in_vain_max=0.2 if choices.seed % 4 == 1 else 0.0,
            hermes=HERMES,
            pan=_pan(router, rng) if choices.overlay == "pan" else None,
            empty_store=empty_store,
        )
        for router, others in dials.items()
    }
    tracked = choices.tracking != "none"
    clocks_ms, step_ms = (CLOCKS_MS, STEP_MS) if tracked else (FAR_MS, FAR_STEP_MS)
    faults = random_faults(graph, rng, rng.randint(1, 9), FAULTS_MS, step_ms=step_ms)
    combining = Random(f"combined {choices.seed}")
    if combining.random() < COMBINED_SHARE:
        faults = sorted([*faults, *combined_faults(graph, combining, FAULTS_MS)], key=lambda one: one[0])
    skews_ms = {router: rng.uniform(0, clocks_ms) for router in dials}
    strain = random_strain(choices, graph)
    if strain is not None:
        faults = sorted([*faults, *strain.faults], key=lambda entry: entry[0])
    later = None
    if choices.roll == "encoding":
        rolling = Random(f"roll {choices.seed}")
        other = rolling.choice([one for one in ENCODINGS if one != encoding])
        later = {router: replace(one, encoding=other) for router, one in settings.items()}
        rolled = rolling_change(list(settings), rolling, FAULTS_MS - 500, rolling.choice((0.3, 0.6, 1.0)))
        faults = sorted([*faults, *rolled], key=lambda entry: entry[0])
    sizing = Random(f"sizes {choices.seed}")
    sizes = {router: random_sizes(sizing) for router in dials}
    if scheme == "bdrp":
        relaying = Random(f"relays {choices.seed}")
        sizes = {router: random_relay_sizes(relaying, one) for router, one in sizes.items()}
    tracking = random_tracking(choices.tracking, rng) if tracked else None
    return Scenario(graph, settings, faults, skews_ms, tracking, sizes, sizing.choice((0.0, 1.0, 20.0)), strain, later)


def _network(choices: Choices, rng: Random) -> tuple[Graph, dict[int, list[int]]]:
    """The wires, and who dials whom."""
    if choices.overlay == "pan":
        size = rng.randint(3, 9)
        return full(size, latency_ms=5), {router: [] for router in range(1, size + 1)}
    graph, shape = Graph(), SHAPES[choices.overlay](rng.randint(3, 14), rng)
    dials: dict[int, list[int]] = {int(node) + 1: [] for node in shape}
    for edge in shape.edges():
        a, b = int(edge.a) + 1, int(edge.b) + 1
        graph.add(a, b, latency_ms=rng.choice((1, 1, 2, 5, 10, 30)))
        for one, other in rng.choice((((a, b),), ((b, a),), ((a, b), (b, a)))):
            dials[one].append(other)
    return graph, dials


def _pan(router: int, rng: Random) -> PanSettings:
    return PanSettings(str(rng.randrange(1, router)) if router > 1 else "", PAN)


def random_tracking(name: str, rng: Random) -> TrackingSettings:
    shape = rng.choice(((8, 512, 10), (60, 2048, 8), (2521, 65536, 16)))
    bloom = BloomStrategy(BloomSettings(*shape, SKEW_MS, JITTER_MS, rng.choice(tuple(Mode))))
    made: dict[str, Strategy] = {
        "runs": RunStrategy(SKEW_MS, JITTER_MS, shape[0]),
        "bloom": bloom,
        "async": AsyncStrategy(160, SKEW_MS, JITTER_MS),
    }
    strategy = made[name]
    return TrackingSettings(strategy, persist_ms=rng.choice((200, 1000)), forwards=rng.random() < 0.3)
