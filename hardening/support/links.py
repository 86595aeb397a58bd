"""Brokers with real links on loopback, in one event loop, for tests."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hardening.support.tcp_wire import TcpWire
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.links.links import LinkSettings, Peers
from tidings.broker.server import Broker
from tidings.broker.tracking_thread import TrackingOptions
from tidings.localnet.ports import free_ports as free_ports
from tidings.node.network.settings import NetworkSettings
from tidings.node.settings import NodeSettings
from tidings.overlay.link.machine import LinkOptions
from tidings.protocols.native.session import NativeSession
from tidings.store.sqlite.store import SqliteStore
from tidings.tracking.recording.recorder import TrackingSettings as TrackingSettings

# Quick to notice and to return, for short tests.
QUICK = LinkOptions(
    heartbeat_ms=200, suspect_ms=1500, dead_ms=5000, handshake_ms=5000, backoff_first_ms=20, backoff_max_ms=300
)
SECRET = b"a secret of the test network"


class BrokerNetwork:
    """`edges` name routers; the first of each dials the second: directly or, if `wired`, by a wire that can be cut."""

    def __init__(
        self,
        folder: Path,
        edges: list[tuple[int, int]],
        *,
        links: Callable[[int, int], LinkSettings] | None = None,
        wired: bool = False,
        tracking: TrackingSettings | None = None,
        **settings: Any,  # of all their networks
    ) -> None:
        self.folder, self.edges, self._tracking, self._settings = folder, edges, tracking, settings
        self._links = links or (lambda router, port: LinkSettings(port=port, secret=SECRET))
        self.routers = sorted({router for edge in edges for router in edge})
        ports = free_ports(len(self.routers) + len(edges))
        self.link_ports = dict(zip(self.routers, ports, strict=False))
        self.wires: dict[tuple[int, int], TcpWire] = {}
        for edge, port in zip(edges if wired else (), ports[len(self.routers) :], strict=False):
            self.wires[edge] = TcpWire(port, self.link_ports[edge[1]])
        self.ports: dict[int, int] = {}
        self.brokers: dict[int, Broker] = {}

    async def __aenter__(self) -> "BrokerNetwork":
        for wire in self.wires.values():
            await wire.start()
        for router in self.routers:
            await self.start(router)
        return self

    async def __aexit__(self, *_: object) -> None:
        for router in list(self.brokers):
            await self.stop(router)
        for wire in self.wires.values():
            await wire.stop()

    async def start(self, router: int, links: LinkSettings | None = None) -> None:
        ports = {edge: self.wires[edge].port if edge in self.wires else self.link_ports[edge[1]] for edge in self.edges}
        dials = tuple((f"127.0.0.1:{port}", b) for (a, b), port in ports.items() if a == router)
        network = NetworkSettings(router, "test", dials, link=QUICK, **self._settings)
        links = links or self._links(router, self.link_ports[router])
        store = SqliteStore(self.folder / f"{router}.db")
        records = None
        if self._tracking is not None:
            records = TrackingOptions(self._tracking, self.folder / f"tracking-{router}")
        broker = Broker(NodeSettings(broker_id=router), store, peers=Peers(network, links), tracking=records)
        await broker.start([])
        self.ports[router] = await broker.listen(ListenerSettings(NativeSession, port=self.ports.get(router, 0)))
        self.brokers[router] = broker

    async def stop(self, router: int) -> None:
        await self.brokers.pop(router).stop()

    def url(self, router: int) -> str:
        return f"tidings://127.0.0.1:{self.ports[router]}"

    def linked(self, a: int, b: int) -> bool:
        """True if both ends have a live link."""
        return all(
            (network := self.brokers[one].engine.node.network) is not None and other in network.links.peers()
            for one, other in ((a, b), (b, a))
        )

    def known(self) -> bool:
        """True if every broker has a route to, and the present interests of, every other."""
        networks = {router: broker.engine.node.network for router, broker in self.brokers.items()}
        for router, network in networks.items():
            others = {other: one for other, one in networks.items() if other != router}
            assert network is not None
            if set(network.unicast.reachable()) != others.keys():
                return False
            for other, one in others.items():
                assert one is not None
                if network.scheme.predicates.get(other, set()) != one.scheme.local_rows():
                    return False
        return True


async def eventually(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 20.0) -> None:
    """Wait until it holds; the limit is only there to fail at all."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        found = condition()
        if found if isinstance(found, bool) else await found:
            return
        assert asyncio.get_running_loop().time() < deadline, f"{condition} did not come true"
        await asyncio.sleep(0.02)
