"""How a broker comes to have peers: its node with a network in it, and the driver of its links; or neither."""

import time
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from tidings.broker.links import BrokerLinks, LinkSettings
from tidings.kernel.events import PlaneEvent
from tidings.node.network_settings import NetworkSettings
from tidings.node.node import Node
from tidings.node.settings import Settings
from tidings.tracking.record import Settings as TrackingSettings

if TYPE_CHECKING:
    from tidings.broker.server import Broker


@dataclass(frozen=True, slots=True)
class Peers:
    network: NetworkSettings
    links: LinkSettings


class NoLinks:
    """Of a broker that is alone: there is nothing to do."""

    def now(self) -> float:
        return 0.0

    def tell_time(self) -> None: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def event(self, event: PlaneEvent) -> None: ...
    def write(self, number: int, data: bytes, left: int) -> None: ...
    def carry_out(self) -> None: ...
    def bandwidth_bytes_s(self, router: int) -> int:
        return 0

    def traffic(self, name: str) -> tuple[int, int]:
        return 0, 0


def enlist(
    broker: "Broker", settings: Settings, peers: Peers | None, tracking: TrackingSettings | None
) -> tuple[Node, BrokerLinks | NoLinks]:
    """The node and the links of a broker."""
    # A later start must have a greater incarnation, so that what it says overrules what an earlier one said.
    incarnation = time.time_ns() // 1_000_000
    if peers is None:
        return Node(broker.forwarder, settings, tracking=tracking, incarnation=incarnation), NoLinks()
    network = replace(peers.network, authenticate=not peers.links.insecure)
    node = Node(broker.forwarder, settings, network, tracking=tracking, incarnation=incarnation, rng=Random())
    assert node.network is not None
    return node, BrokerLinks(broker, node.network, peers.links)
