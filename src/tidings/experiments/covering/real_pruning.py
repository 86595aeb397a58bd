"""Covering on real broker processes: many root subscriptions are taken back, each of which covered others.

    1 ── 2 ── 3 ── 4 ── 5          publisher at 1, subscribers at 5, 6 and 7
              │    └─── 6
              └──────── 7

Subscriptions come in families as in the simulator's experiment (experiments/covering/pruning_setup.py): a root and
those it
covers, spread over the subscribers' brokers. Publications flow at a steady rate, before (so that brokers learn whose
traffic is whose), while the roots go, and after. What counts: messages between brokers about subscriptions, bytes that
wait for links, and how long publications take.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

from tidings.client import connect
from tidings.client.client import Client
from tidings.client.subscription import Subscription
from tidings.errors import TidingsError
from tidings.localnet.member import Routing
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.model.values import Value
from tidings.overlay.topology.graph import Graph

LINKS = ((1, 2), (2, 3), (3, 4), (4, 5), (4, 6), (3, 7))
PUBLISHER, SUBSCRIBERS = "1", ("5", "6", "7")
X_MAX, NARROW = 1000, 600
WAIT_SECONDS, SAMPLE_SECONDS = 300.0, 0.25
CALM_SAMPLES = 8  # alike: nothing changes any more
TOGETHER = 100  # subscriptions that wait for their receipts at the same time
CONTROL = ("subscribes", "controls")


@dataclass(frozen=True, slots=True)
class RealPruningOptions:
    covered: int = 10_000
    roots: int = 300
    rate: float = 40.0  # publications a second
    before_seconds: float = 30.0
    removal_ms: float = 5.0  # between two removals
    after_seconds: float = 15.0
    port: int = 7500
    seed: int = 1


@dataclass(slots=True)
class PruningMeasurement:
    policy: str
    control: dict[str, int]  # messages about subscriptions that each broker got because roots went
    queue_bytes_max: dict[str, int]  # the most that waited for the links of each broker
    entries: dict[str, int]  # of each broker's table, afterwards
    preserved: int
    delay_ms: dict[str, float]  # of publications since the first removal: mean, p50, p90, max
    delay_before_ms: dict[str, float]
    removal_seconds: float  # from the first removal until brokers had nothing more to say about it
    published: int
    delivered: int
    timeline: list[tuple[float, int, int]] = field(default_factory=list)  # seconds, control messages, bytes waiting


def measure(policy: str, options: RealPruningOptions, folder: Path) -> PruningMeasurement:
    graph = Graph()
    for a, b in LINKS:
        graph.add(a, b)
    routing = Routing("covering", encoding="elements", policy=policy)
    network = LocalNetwork.create(
        folder, graph, LocalOptions(port=options.port, routing=routing, publishers=(PUBLISHER,))
    )
    network.start()
    try:
        return asyncio.run(_Run(network, policy, options).run())
    finally:
        network.stop(kill=True)


class _Run:
    def __init__(self, network: LocalNetwork, policy: str, options: RealPruningOptions) -> None:
        self.network, self.policy, self.options = network, policy, options
        self.rng = Random(options.seed)
        self.delays: list[tuple[float, float]] = []  # when it was published, how long it took
        self.published = 0
        self.roots: list[Subscription] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> PruningMeasurement:
        await self._until(self.network.settled, "all brokers know each other")
        async with AsyncExitStack() as stack:
            await self._subscribe(stack)
            await self._quiet()
            writer = await stack.enter_async_context(connect(self.network.members[PUBLISHER].url()))
            publishing = asyncio.create_task(self._publish(writer))
            await asyncio.sleep(self.options.before_seconds)
            before = self._seen()
            start = time.monotonic()
            timeline: list[tuple[float, int, int]] = []
            queues: dict[str, int] = dict.fromkeys(self.network.members, 0)
            removing = asyncio.create_task(self._remove())
            while not removing.done() or not _calm(timeline):
                self._sample(start, before, timeline, queues)
                await asyncio.sleep(SAMPLE_SECONDS)
            await removing
            took = _last_change(timeline)
            await asyncio.sleep(self.options.after_seconds)
            self._sample(start, before, timeline, queues)
            publishing.cancel()
            after = self._seen()
        control = {name: _control(after[name]) - _control(before[name]) for name in after}
        entries = {name: one["scheme"]["entries"] for name, one in after.items()}
        preserved = sum(one["scheme"]["preserved"] for one in after.values())
        delays, earlier = ([took for at, took in self.delays if (at >= start) == late] for late in (True, False))
        return PruningMeasurement(
            self.policy, control, queues, entries, preserved, _summary(delays), _summary(earlier), took,
            self.published, len(self.delays), timeline,
        )  # fmt: skip

    # --- clients --------------------------------------------------------------------------------------------------

    async def _subscribe(self, stack: AsyncExitStack) -> None:
        clients = {
            name: await stack.enter_async_context(connect(self.network.members[name].url())) for name in SUBSCRIBERS
        }
        options = self.options
        for family in range(options.roots):
            root = clients[self.rng.choice(SUBSCRIBERS)]
            self.roots.append(await self._subscribe_one(root, f"class = 'c{family}'"))
        covered = []
        for number in range(options.covered):
            low = self.rng.randrange(X_MAX - NARROW)
            covered.append(f"class = 'c{number % options.roots}' AND x BETWEEN {low} AND {low + NARROW}")
        self.rng.shuffle(covered)
        for first in range(0, len(covered), TOGETHER):
            batch = covered[first : first + TOGETHER]
            whose = [clients[self.rng.choice(SUBSCRIBERS)] for _ in batch]
            await asyncio.gather(*map(self._subscribe_one, whose, batch))

    async def _subscribe_one(self, client: Client, selector: str) -> Subscription:
        subscription = await client.subscribe(">", selector=selector)
        self._tasks.append(asyncio.create_task(self._receive(subscription)))
        return subscription

    async def _receive(self, subscription: Subscription) -> None:
        async for delivery in subscription:
            at = float(delivery.properties["at"])
            self.delays.append((at, time.monotonic() - at))

    async def _publish(self, writer: Client) -> None:
        at = time.monotonic()
        while True:
            at += self.rng.expovariate(self.options.rate)
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            x = min(X_MAX, max(0, round(self.rng.gauss(0.5, 0.15) * X_MAX)))  # mostly where many want it
            family = self.rng.randrange(self.options.roots)
            properties: dict[str, Value] = {"class": f"c{family}", "x": x, "at": time.monotonic()}
            await writer.publish("ticks", properties, wait=False)
            self.published += 1

    async def _remove(self) -> None:
        for root in self.roots:
            await root.close()
            await asyncio.sleep(self.options.removal_ms / 1000)

    # --- brokers --------------------------------------------------------------------------------------------------

    def _seen(self) -> dict[str, dict[str, Any]]:
        found = {name: member.status() for name, member in self.network.members.items()}
        missing = [name for name, one in found.items() if one is None]
        if missing:
            raise TidingsError("E_EXPERIMENT", f"brokers {', '.join(missing)} do not answer; see the logs")
        return {name: one for name, one in found.items() if one is not None}

    def _sample(
        self, start: float, before: dict[str, Any], timeline: list[tuple[float, int, int]], queues: dict[str, int]
    ) -> None:
        seen = self._seen()
        waiting = {name: sum(link["waiting_bytes"] for link in one["links"].values()) for name, one in seen.items()}
        for name, some in waiting.items():
            queues[name] = max(queues[name], some)
        control = sum(_control(one) - _control(before[name]) for name, one in seen.items())
        timeline.append((round(time.monotonic() - start, 3), control, sum(waiting.values())))

    async def _quiet(self) -> None:
        """Until brokers have nothing more to say about subscriptions."""
        timeline: list[tuple[float, int, int]] = []
        before, start = self._seen(), time.monotonic()
        while not _calm(timeline):
            self._sample(start, before, timeline, dict.fromkeys(self.network.members, 0))
            if timeline[-1][0] > WAIT_SECONDS:
                raise TidingsError("E_EXPERIMENT", f"subscriptions do not settle within {WAIT_SECONDS:g} s")
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise TidingsError("E_EXPERIMENT", f"timed out after {WAIT_SECONDS:g} s waiting until {what}")
            await asyncio.sleep(0.2)


def _control(seen: dict[str, Any]) -> int:
    return sum(seen["scheme"].get(name, 0) for name in CONTROL)


def _calm(timeline: list[tuple[float, int, int]]) -> bool:
    """True if the last samples are alike."""
    return len(timeline) >= CALM_SAMPLES and len({control for _, control, _ in timeline[-CALM_SAMPLES:]}) == 1


def _last_change(timeline: list[tuple[float, int, int]]) -> float:
    final = timeline[-1][1]
    return next((at for at, control, _ in timeline if control == final), 0.0)


def _summary(seconds: list[float]) -> dict[str, float]:
    if len(seconds) < 2:
        return {}
    deciles = quantiles(seconds, n=10)
    found = {"mean": sum(seconds) / len(seconds), "p50": deciles[4], "p90": deciles[8], "max": max(seconds)}
    return {name: round(value * 1000, 3) for name, value in found.items()}


def as_rows(found: list[PruningMeasurement]) -> list[dict[str, Any]]:
    return [asdict(one) for one in found]
