"""Subscriptions with wait="network", judged in the simulator: random networks, latencies and faults while they wait.

What must hold: when a subscription is confirmed, every broker that its broker can reach brings it what is published
there from that moment on; also if links were cut and brokers started again while it waited. Every wait is answered.

    python -m hardening.machines.interest_spread 17           # one seed
    python -m hardening.machines.interest_spread 1 1000
"""

import sys
from dataclasses import dataclass, field
from random import Random

from hardening.seeds import parser, run_seeds
from hardening.simulate.scenario import ENCODINGS, LINK
from tidings.model.codec import ID
from tidings.node.network.settings import NetworkSettings
from tidings.node.requests import Subscribe, SubscribeWait
from tidings.overlay.topology.generate import barabasi_albert, random_tree, ring
from tidings.overlay.topology.graph import Graph
from tidings.sim.broker import SimBroker
from tidings.sim.brokers import TOPIC, Brokers
from tidings.sim.client import SimClient
from tidings.sim.faults import Crash, CutLink, Fault, HealLink, Restart, inflict

SCHEMES = ("bdrp", "flooding")
SETTLE_MS, LATE_MS = 8_000.0, 45_000.0
STEP_MS = 1.0


@dataclass(eq=False)
class Waiter:
    """A subscription that waits: everything with its number in the attribute x is for it."""

    router: int
    number: int
    client: SimClient
    published: list[bytes] = field(default_factory=list)

    @property
    def confirmed(self) -> bool:
        return 1 in self.client.done


def network(rng: Random, seed: int) -> Brokers:
    size = rng.randint(3, 7)
    plain = rng.choice((ring(size), random_tree(size, rng), barabasi_albert(size, rng)))
    graph, dials = Graph(), dict[int, list[tuple[str, int]]]()
    for a, b in _links(plain):
        graph.add(a, b, rng.choice((0.5, 5.0, 60.0)))
        dials.setdefault(a, []).append((str(b), b))
        dials.setdefault(b, [])
    scheme, encoding = rng.choice(SCHEMES), rng.choice(ENCODINGS)
    settings = {
        router: NetworkSettings(router, dials=tuple(peers), link=LINK, scheme=scheme, encoding=encoding)
        for router, peers in dials.items()
    }
    return Brokers(graph, settings, seed)


def _links(graph: Graph) -> list[tuple[int, int]]:
    return sorted((int(min(edge.a, edge.b)), int(max(edge.a, edge.b))) for edge in graph.edges())


def subscribe(brokers: Brokers, router: int, number: int) -> Waiter | None:
    if brokers.broker(router) is None:
        return None
    found: list[SimClient] = []
    request = Subscribe(1, 1, TOPIC, f"x = {number}", wait=SubscribeWait.NETWORK)

    def act(machine: SimBroker, now: float) -> list[object]:
        found.append(machine.connect(now, f"waiter-{number}"))
        return machine.request(now, found[0], request)

    brokers.driver.call(str(router), act)
    return Waiter(router, number, found[0])


def faults(rng: Random, brokers: Brokers) -> list[tuple[float, Fault]]:
    """Cuts and crashes while subscriptions wait; the last ends SETTLE_MS before the end."""
    plan: list[tuple[float, Fault]] = []
    links = _links(brokers.graph)
    for _ in range(rng.randint(0, 3)):
        begin = rng.uniform(0, 3_000)
        end = begin + rng.uniform(1, 4_000)
        if rng.random() < 0.5:
            a, b = rng.choice(links)
            plan += [(begin, CutLink(a, b)), (end, HealLink(a, b))]
        else:
            node = rng.choice(links)[0]
            plan += [(begin, Crash(node)), (end, Restart(node))]
    return sorted(plan, key=lambda one: one[0])


def run(seed: int) -> dict[str, int]:
    rng = Random(f"interest spread {seed}")
    brokers = network(rng, seed)
    brokers.calendar.run(until=SETTLE_MS)
    begin, plan = brokers.calendar.now, faults(rng, brokers)
    quiet = begin + (max(at for at, _ in plan) + LINK.dead_ms if plan else 0.0)
    due = sorted(begin + rng.uniform(0, 6_000) for _ in range(rng.randint(1, 8)))
    waiting: list[Waiter] = []
    confirmed: list[Waiter] = []
    while (now := brokers.calendar.now) < begin + LATE_MS and (due or plan or waiting or now < quiet):
        while plan and begin + plan[0][0] <= now:
            _inflict(brokers, plan.pop(0)[1])
        while due and due[0] <= now:
            due.pop(0)
            waiter = subscribe(brokers, rng.choice(sorted(brokers.hosts)), len(waiting) + len(confirmed) + 1)
            waiting += [] if waiter is None else [waiter]
        brokers.calendar.run(until=now + STEP_MS)
        waiting = [one for one in waiting if _alive(brokers, one)]
        for one in [one for one in waiting if one.confirmed]:
            waiting.remove(one)
            confirmed.append(one)
            if not plan and brokers.calendar.now >= quiet:  # otherwise a message may be lost with a link
                _publish_everywhere(brokers, one)
    assert not waiting, f"{len(waiting)} subscriptions were never confirmed"
    brokers.calendar.run(until=brokers.calendar.now + SETTLE_MS)
    for one in confirmed:
        got = {delivery.message[ID] for delivery in one.client.deliveries}
        lost = [id.hex() for id in one.published if id not in got]
        assert not lost, f"{len(lost)} messages were published after subscription {one.number} was confirmed, and lost"
    return {"confirmed": len(confirmed), "published": sum(len(one.published) for one in confirmed)}


def _inflict(brokers: Brokers, fault: Fault) -> None:
    if isinstance(fault, Crash | Restart):
        up = brokers.broker(fault.node) is not None
        if up != isinstance(fault, Crash):
            return
    inflict(brokers.driver, fault, brokers.hosts)


def _alive(brokers: Brokers, one: Waiter) -> bool:
    """Its broker has not crashed since, which would have taken its client along."""
    broker = brokers.broker(one.router)
    assert not one.client.failures, one.client.failures
    return broker is not None and broker.clients.get(one.client.number) is one.client


def _publish_everywhere(brokers: Brokers, one: Waiter) -> None:
    here = brokers.broker(one.router)
    assert here is not None
    for router in (one.router, *here.network.unicast.reachable()):
        sent = brokers.publish(router, {"x": one.number})
        assert sent is not None
        one.published.append(sent.id)


def main(arguments: list[str]) -> int:
    about = "Subscriptions that wait until the whole network knows them, under faults."
    return run_seeds(parser("machines.interest_spread", about).parse_args(arguments), "wait for the network", run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
