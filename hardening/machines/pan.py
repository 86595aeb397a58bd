"""Pan under joins, leaves and crashes: does every key reach the closest node alive? `make pan` runs many seeds.

A run: nodes join one by one and at the same time, leave, crash singly or several at once, all while keys are
routed. Then nothing happens for a while, in which the survivors repair their tables, and every key routed from any
node must arrive at the node closest to it; so must requests, and their answers come back. Spared for a heartbeat is
only a node by which another has just joined: it may be all that the newcomer knows of the network.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from hardening.seeds import parser, run_seeds
from tidings.overlay.pan import PanOptions
from tidings.overlay.pan.messages import PanAnswered, PanArrived, PanEffect
from tidings.overlay.topology.space import plane
from tidings.sim.pan import PanNetwork

OPTIONS = PanOptions(leaves=4)
SPARED_MS = 1_500
REPAIR_MS = 40_000  # a few rounds of everything


@dataclass(frozen=True, slots=True)
class Churn:
    seed: int
    nodes: int
    joins: int
    leaves: int
    crashes: int
    wrong: tuple[str, ...]


def churn(seed: int, keys: int = 40) -> Churn:
    rng = Random(seed)
    points = plane(400, rng)
    network = PanNetwork(points.latency_ms, rng, options=OPTIONS, timers=True)
    counts = {"join": 0, "leave": 0, "crash": 0}
    guides: dict[int, float] = {}  # by whom somebody joined, and when
    network.add(0)
    for router in range(1, rng.randint(5, 40)):
        _join(network, router, rng, guides)
        network.calendar.run(until=network.calendar.now + rng.choice((0, 20, 1500)))
    fresh = len(network.nodes)
    for _ in range(rng.randint(5, 30)):
        what = rng.choice(("join", "leave", "crash"))
        if what == "join":
            _join(network, fresh, rng, guides)
            fresh += 1
        elif sum(node.joined for node in network.nodes.values()) > 4:
            now = network.calendar.now
            router = rng.choice(
                [one for one in network.nodes if guides.get(one, -SPARED_MS) + SPARED_MS <= now] or [-1]
            )
            if router < 0:
                continue
            (network.leave if what == "leave" else network.crash)(router)
        else:
            continue
        counts[what] += 1
        network.route(rng.choice(list(network.nodes)), rng.randrange(network.space.size))
        network.calendar.run(until=network.calendar.now + rng.choice((0, 100, 1000, 6000)))
    network.calendar.run(until=network.calendar.now + REPAIR_MS)
    wrong = tuple(_routed_wrong(network, rng, keys) + _unanswered(network, rng, keys // 4))
    return Churn(seed, len(network.nodes), counts["join"], counts["leave"], counts["crash"], wrong)


def _join(network: PanNetwork, router: int, rng: Random, guides: dict[int, float]) -> None:
    """By any node that is in the network. Its bootstrap may crash meanwhile: then it tries again by another."""
    guide = rng.choice([one for one, node in network.nodes.items() if node.joined])
    guides[guide] = network.calendar.now
    network.add(router, guide, seek=rng.random() < 0.3)
    network.calendar.after(8_000, _retry, network, router, rng)


def _retry(network: PanNetwork, router: int, rng: Random) -> None:
    node = network.nodes.get(router)
    if node is not None and not node.joined:
        inside = [one for one, other in network.nodes.items() if other.joined]
        network.do(router, node.join(network.calendar.now, network.nodes[rng.choice(inside)].me, seek=False))
        network.calendar.after(8_000, _retry, network, router, rng)


def _routed_wrong(network: PanNetwork, rng: Random, keys: int) -> list[str]:
    network.arrived.clear()
    expected = {}
    for number in range(keys):
        key = rng.randrange(network.space.size)
        expected[number.to_bytes(4)] = network.closest(key)
        network.route(rng.choice(list(network.nodes)), key, number.to_bytes(4))
    network.calendar.run(until=network.calendar.now + 5_000)
    got = {arrived.payload: router for router, arrived in network.arrived}
    return [
        f"key {int.from_bytes(name)} reached {got.get(name)}, not {router}"
        for name, router in expected.items()
        if got.get(name) != router
    ]


def _unanswered(network: PanNetwork, rng: Random, requests: int) -> list[str]:
    answers: set[tuple[int, int]] = set()
    answer = _answering(network, answers)
    network.on_effect = answer
    asked = set()
    for _ in range(requests):
        router = rng.choice(list(network.nodes))
        token, effects = network.nodes[router].request(network.calendar.now, rng.randrange(network.space.size), b"?")
        asked.add((router, token))
        network.do(router, effects)
    network.calendar.run(until=network.calendar.now + 5_000)
    return [f"request {token} of {router} was not answered" for router, token in asked - answers]


def _answering(network: PanNetwork, answers: set[tuple[int, int]]) -> Callable[[int, PanEffect], None]:
    def hear(router: int, effect: PanEffect) -> None:
        if isinstance(effect, PanArrived) and effect.token:
            network.do(router, network.nodes[router].reply(network.calendar.now, effect, effect.payload + b"!"))
        elif isinstance(effect, PanAnswered) and effect.payload == b"?!":
            answers.add((router, effect.token))

    return hear


def figures(seed: int) -> dict[str, int]:
    result = churn(seed)
    assert result.wrong == (), result.wrong
    return {"nodes": result.nodes, "joins": result.joins, "leaves": result.leaves, "crashes": result.crashes}


def main(arguments: list[str]) -> int:
    return run_seeds(
        parser("machines.pan", "Pan under joins, leaves and crashes.").parse_args(arguments), "pan", figures
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
