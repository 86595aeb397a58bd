"""A console that watches made-up brokers: python -m bench.console_feed BROKERS SUBSCRIPTIONS. It prints its port."""

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import uvicorn

from tidings.client import Client
from tidings.console.app import make_app
from tidings.console.source import BrokerLogin, Source
from tidings.errors import ConnectionLostError, TidingsError
from tidings.overlay.topology.generate import waxman


class FedSource:
    """One broker of a random network; every answer differs from the one before."""

    def __init__(self, id: int, neighbours: Sequence[int], subscriptions: int) -> None:
        self._id, self._neighbours, self._subscriptions = id, tuple(neighbours), subscriptions
        self._began = time.time()
        self._rng = random.Random(id)
        self._counts = dict.fromkeys(("received", "delivered", "unmatched"), 0)
        self._sent = dict.fromkeys(self._neighbours, 0)
        self._cpu = 0.0

    @property
    def url(self) -> str:
        return f"tidings://broker-{self._id}:7300"

    @property
    def refused(self) -> TidingsError | None:
        return None

    async def client(self) -> Client:
        raise ConnectionLostError("E_FED", "this broker is made up")

    async def connect(self) -> Client:
        return await self.client()

    async def close(self) -> None:
        pass

    async def inspect(
        self, part: str = "overview", *, offset: int = 0, count: int = 0, containing: str = ""
    ) -> dict[str, Any]:
        await asyncio.sleep(0.001)
        if part == "overview":
            return self._overview()
        if part != "subscriptions":
            return {"total": 0, "items": []}
        found = [number for number in range(self._subscriptions) if not containing or containing in f"price > {number}"]
        return {"total": len(found), "items": [self._item(number) for number in found[offset : offset + count]]}

    def _item(self, number: int) -> dict[str, Any]:
        return {
            "connection": number // 10,
            "subscription": number % 10,
            "user": f"user-{number % 100}",
            "client": f"client-{number // 10}",
            "destination": f"ticks.{number % 1000}.>",
            "selector": f"price > {number}",
            "kind": "direct",
            "stalled": False,
            "delivered": int(time.time() - self._began) * number,
            "dropped": 0,
        }

    def _overview(self) -> dict[str, Any]:
        rng = self._rng
        for name in self._counts:
            self._counts[name] += rng.randrange(10_000)
        for peer in self._sent:
            self._sent[peer] += rng.randrange(1_000_000)
        self._cpu += rng.random()
        same = {"state": "up", "latency_ms": 3.0, "waiting_bytes": 0, "received_bytes": 0}
        links = {str(peer): {**same, "sent_bytes": sent} for peer, sent in self._sent.items()}
        return {
            "broker": {"id": self._id, "name": f"site-{self._id}"},
            "time_ms": int(time.time() * 1000),
            "steady_seconds": time.monotonic(),
            "cpu_seconds": self._cpu,
            "plane": self._counts,
            "connections": 1000,
            "filters": self._subscriptions,
            "network": {"network": "fed", "routing": "bdrp", "links": links, "routes": {}},
        }


def sources(brokers: int, subscriptions: int) -> list[Source]:
    graph = waxman(brokers, random.Random(1))
    numbers = {node: number for number, node in enumerate(graph, 1)}
    return [
        FedSource(number, [numbers[peer] for peer in graph.neighbours(node)], subscriptions)
        for node, number in numbers.items()
    ]


async def main(brokers: int, subscriptions: int) -> None:
    fed = sources(brokers, subscriptions)
    app = make_app(lambda _: fed, BrokerLogin(), frozenset())
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, log_level="warning", lifespan="on"))
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.02)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await running


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
