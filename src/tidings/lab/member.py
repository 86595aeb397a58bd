"""One broker of a local network, as a process: `python -m tidings.lab.member member.json`.

The file has everything it needs (`Member`). Each second the broker writes what it sees of the network to its status
file, whole or not at all, for `tidings net show`. SIGTERM ends it in good order.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidings.broker.links import LinkSettings
from tidings.broker.peers import Peers
from tidings.broker.server import Broker, Listener
from tidings.broker.sqlite_store import SqliteStore
from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.node.network_settings import NetworkSettings
from tidings.node.settings import Settings
from tidings.overlay.link import LinkOptions
from tidings.protocols.native import NativeSession
from tidings.routing.interests import InterestEncoding

STATUS_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    router: int
    host: str
    port: int  # for clients
    link_port: int
    dials: list[tuple[str, int]]  # address and router
    folder: str
    secret: str  # hexadecimal
    scheme: str = "bdrp"
    unicast: str = "link-state"
    encoding: str = "graded"  # or vectors, elements
    broadcast_above: int = 0
    heartbeat_ms: float = 1000.0
    link_host: str = ""  # where links come in, if not at `host`

    @property
    def status_path(self) -> Path:
        return Path(self.folder) / f"{self.name}.status.json"

    def save(self) -> Path:
        path = Path(self.folder) / f"{self.name}.json"
        path.touch(mode=0o600)  # it holds the secret
        path.write_text(json.dumps(asdict(self), indent=1))
        return path

    @classmethod
    def load(cls, path: Path) -> "Member":
        data = json.loads(path.read_text())
        return cls(**{**data, "dials": [(address, router) for address, router in data["dials"]]})

    def network(self) -> NetworkSettings:
        graded = Encoding(grade=GradedGrade())
        encodings = {
            "vectors": InterestEncoding(),
            "elements": InterestEncoding(vectors=False),
            "graded": InterestEncoding(graded, vectors=False),
        }
        beat = self.heartbeat_ms
        return NetworkSettings(
            self.router,
            "local",
            tuple(self.dials),
            self.unicast,
            self.scheme,
            encodings[self.encoding],
            self.broadcast_above,
            link=LinkOptions(heartbeat_ms=beat, suspect_ms=2.5 * beat, dead_ms=6 * beat, backoff_max_ms=2000),
        )


def status(broker: Broker) -> dict[str, Any]:
    """What a broker sees of its network now."""
    network = broker.node.network
    assert network is not None
    links = {}
    for peer in network.links.peers():
        link = network.links.link(peer)
        assert link is not None
        links[peer] = {
            "latency_ms": round(link.latency_ms or 0.0, 3),
            "waiting_bytes": broker.forwarder.link_waiting(peer),
        }
    return {
        "links": links,
        "routes": {router: network.unicast.next_hop(router) for router in network.unicast.reachable()},
        "interests": {router: len(rows) for router, rows in network.scheme.predicates.items()},
        "in_transit": len(network.transit),
        "plane": broker.forwarder.stats(),
        "network": broker.forwarder.network_stats(),
    }


async def serve(member: Member) -> None:
    store = SqliteStore(Path(member.folder) / f"{member.name}.db")
    links = LinkSettings(member.link_host or member.host, member.link_port, bytes.fromhex(member.secret))
    broker = Broker(Settings(broker_id=member.router), store, peers=Peers(member.network(), links))
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await broker.start([Listener(NativeSession, member.host, member.port)])
    while not stopping.is_set():
        fresh = member.status_path.with_suffix(".new")
        fresh.write_text(json.dumps(status(broker)))
        os.replace(fresh, member.status_path)
        try:
            await asyncio.wait_for(stopping.wait(), STATUS_SECONDS)
        except TimeoutError:
            continue
    await broker.stop()


def main(path: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(serve(Member.load(Path(path))))


if __name__ == "__main__":
    main(sys.argv[1])
