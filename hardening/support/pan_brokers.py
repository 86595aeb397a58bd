"""Brokers on loopback that arrange themselves: each is given one address, Pan does the rest."""

from pathlib import Path

from hardening.support.links import QUICK, SECRET
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.links.links import LinkSettings, Peers
from tidings.broker.server import Broker
from tidings.node.network.pan_links import PanSettings
from tidings.node.network.settings import NetworkSettings
from tidings.node.settings import NodeSettings
from tidings.overlay.pan import PanOptions
from tidings.protocols.native.session import NativeSession
from tidings.routing.hermes import HermesOptions
from tidings.routing.hermes.scheme import HermesScheme
from tidings.store.sqlite.store import SqliteStore

# Few leaves, so that not everybody is everybody's neighbour; patient, since tests run on busy machines.
BRISK = HermesOptions(refresh_ms=2_000, lifetime_ms=20_000, settle_ms=3_000)
PATIENT = PanOptions(leaves=4, beat_ms=500, fail_ms=10_000, tend_ms=2_000, forget_ms=15_000)


class PanBrokers:
    def __init__(self, folder: Path, scheme: str = "bdrp", hermes: HermesOptions = BRISK) -> None:
        self.folder, self.scheme, self.options = folder, scheme, hermes
        self.brokers: dict[int, Broker] = {}
        self.ports: dict[int, int] = {}

    async def __aenter__(self) -> "PanBrokers":
        return self

    async def __aexit__(self, *_: object) -> None:
        for router in list(self.brokers):
            await self.stop(router)

    def link_port(self, router: int) -> int:
        port: int = self.brokers[router].links.port  # type: ignore[union-attr]
        return port

    async def start(self, router: int, by: int | None) -> None:
        join = "" if by is None else f"127.0.0.1:{self.link_port(by)}"
        pan = PanSettings(join, PATIENT, linger_ms=3_000, reach_ms=10_000)
        network = NetworkSettings(router, "test", scheme=self.scheme, link=QUICK, hermes=self.options, pan=pan)
        broker = Broker(
            NodeSettings(broker_id=router),
            SqliteStore(self.folder / f"{router}.db"),
            peers=Peers(network, LinkSettings(port=0, secret=SECRET)),
        )
        await broker.start([])
        self.ports[router] = await broker.listen(ListenerSettings(NativeSession, port=0))
        self.brokers[router] = broker

    async def stop(self, router: int) -> None:
        await self.brokers.pop(router).stop()

    def url(self, router: int) -> str:
        return f"tidings://127.0.0.1:{self.ports[router]}"

    def known(self) -> bool:
        """True if every broker is a member, has a route to, and the present interests of, every other."""
        networks = {router: broker.engine.node.network for router, broker in self.brokers.items()}
        for router, network in networks.items():
            assert network is not None
            assert network.pan is not None
            if not network.pan.pan.joined or set(network.unicast.reachable()) != networks.keys() - {router}:
                return False
            for other, one in networks.items():
                assert one is not None
                if other != router and network.scheme.predicates.get(other, set()) != one.scheme.local_rows():
                    return False
        return True

    def settled(self) -> bool:
        """Under Hermes: whether every broker knows what its neighbours have told it, and nobody waits for an answer."""
        schemes = {router: self.hermes(router) for router in self.brokers}
        for router, scheme in schemes.items():
            if scheme.waiting:
                return False
            for tree in scheme.machine.trees.trees.values():
                for kind, flow in tree.flows.items():
                    for neighbour, told in flow.told.items():
                        there = schemes[neighbour].machine.trees.trees.get(tree.name) if neighbour in schemes else None
                        if not all(there is not None and there.flows[kind].has(router, one) for one in told.until):
                            return False
        return True

    def hermes(self, router: int) -> HermesScheme:
        network = self.brokers[router].engine.node.network
        assert network is not None
        assert isinstance(network.scheme, HermesScheme)
        return network.scheme
