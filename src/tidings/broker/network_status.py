"""What a broker sees of its network: links, routes, interests, what waits and what was counted. For /network."""

import json
import time
from typing import TYPE_CHECKING, Any

from tidings.broker.http_endpoint import Page
from tidings.node.network import Network

if TYPE_CHECKING:
    from tidings.broker.server import Broker


def status(broker: "Broker") -> dict[str, Any]:
    network = broker.node.network
    if network is None:
        return {}
    links = {}
    for peer in network.links.peers():
        link = network.links.link(peer)
        assert link is not None
        sent, received = broker.links.traffic(link.connection)
        links[peer] = {
            "state": link.state.value,
            "latency_ms": round(link.latency_ms or 0.0, 3),
            "waiting_bytes": broker.forwarder.link_waiting(peer),
            "sent_bytes": sent,
            "received_bytes": received,
            "bandwidth_bytes_s": broker.links.bandwidth_bytes_s(peer),
        }
    return {
        "router": network.settings.router,
        "network": network.settings.network,
        "routing": network.settings.scheme,
        "links": links,
        "routes": {router: network.unicast.next_hop(router) for router in network.unicast.reachable()},
        "interests": {router: len(rows) for router, rows in network.scheme.predicates.items()},
        "scheme": dict(network.scheme.counts()),
        "cpu_seconds": round(time.process_time(), 6),
        "pan": {} if network.pan is None else network.pan.status(),
        "in_transit": len(network.transit),
        "plane": broker.forwarder.stats(),
        "counts": copy_counts(broker, network),
    }


def copy_counts(broker: "Broker", network: Network) -> dict[str, int]:
    """What became of copies between brokers: in the forwarding plane, and where persistent ones are kept."""
    counts: dict[str, int] = dict(broker.forwarder.network_stats())
    counts["expired"] += network.transit.expired + network.event_post.expired
    counts["duplicates"] += network.transit.duplicates
    counts["abandoned"] = network.transit.abandoned
    return counts


def network_page(broker: "Broker") -> Page:
    """404 for a broker that stands alone."""
    seen = status(broker)
    if not seen:
        return Page("this broker stands alone: there is no [network] in its configuration\n", status=404)
    return Page(json.dumps(seen) + "\n", "application/json")
