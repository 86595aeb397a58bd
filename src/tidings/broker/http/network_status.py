"""The page /network: links, routes, interests, queues and counters of a broker's network, as JSON."""

import json
import time
from typing import Any

from tidings.broker.broker_view import BrokerView
from tidings.broker.http.server import HttpPage
from tidings.node.view import NetworkView


def status(broker: BrokerView) -> dict[str, Any]:
    network = broker.engine.network()
    if network is None:
        return {}
    links = {}
    for peer, link in network.links.items():
        sent, received = broker.links.traffic(link.connection)
        links[peer] = {
            "state": link.state,
            "latency_ms": round(link.latency_ms, 3),
            "waiting_bytes": broker.forwarder.link_waiting(peer),
            "sent_bytes": sent,
            "received_bytes": received,
            "bandwidth_bytes_s": broker.links.bandwidth_bytes_s(peer),
        }
    return {
        "router": network.router,
        "network": network.name,
        "routing": network.scheme,
        "links": links,
        "routes": {router: route.next_hop for router, route in network.routes.items()},
        "interests": dict(network.interests),
        "scheme": dict(network.scheme_counts),
        "cpu_seconds": round(time.process_time(), 6),
        "pan": dict(network.pan),
        "synchronised": network.synchronised,
        "contested": network.contested,
        "in_transit": network.in_transit,
        "held": network.copies_held,
        "plane": broker.forwarder.stats(),
        "counts": copy_counts(broker, network),
    }


def copy_counts(broker: BrokerView, network: NetworkView) -> dict[str, int]:
    """Counters of the fates of copies between brokers, plain and persistent together."""
    counts: dict[str, int] = dict(broker.forwarder.network_stats())
    counts["expired"] += network.copies_expired
    counts["duplicates"] += network.copies_duplicate
    counts["abandoned"] = network.copies_abandoned
    counts["moved"] = network.copies_moved
    return counts


def network_page(broker: BrokerView) -> HttpPage:
    """The page as JSON; 404 for a broker without a network."""
    seen = status(broker)
    if not seen:
        return HttpPage("this broker has no network; configure [network] to join one\n", status=404)
    return HttpPage(json.dumps(seen) + "\n", "application/json")
