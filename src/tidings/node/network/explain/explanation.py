"""Explains where a message that enters at this broker would go: whose interests match it, by which rows, and which way;
and of a selector the costs, and the brokers with interests like it.

Only brokers that the kernel would send it to are looked at, and of each at most ROWS_MAX rows, so that an explanation
takes a bounded time whatever is known.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tidings.model.codec import decode_predicate, encode_predicate
from tidings.model.covering import intersects
from tidings.model.destination import DestinationPattern
from tidings.model.predicate import Predicate
from tidings.model.predicate_text import abridged
from tidings.model.selector import Selector
from tidings.node.clients.subscription_plan import predicate_of
from tidings.node.network.explain.row_texts import MatchingRows, row_text
from tidings.node.network.network import Network
from tidings.node.network.store_and_forward import UNKNOWN
from tidings.overlay.effects import Router
from tidings.routing.bdrp import filter_rows
from tidings.routing.covering.scheme import CoveringScheme

ROWS_MAX, SHOWN_MAX = 20_000, 3
COMPARED_MAX = 2_000  # rows of a broker that are compared with a selector


def explain(network: Network, message: bytes) -> dict[str, Any]:
    found = {
        "router": network.settings.router,
        "scheme": network.settings.scheme,
        "synchronised": network.first_sync.done,
        "stops": "",
    }
    if isinstance(network.scheme, CoveringScheme):
        return found | _by_covering(network, network.scheme, message)
    matching = MatchingRows(network.settings.encoding, message)
    destinations = [router for router in network.destinations(message) if router != UNKNOWN]
    known = set(network.scheme.predicates)
    return found | {
        "destinations": [_destination(network, matching, one) for one in destinations],
        "others": sorted(known - set(destinations)),
    }


def _destination(network: Network, matching: MatchingRows, router: Router) -> dict[str, Any]:
    rows = network.scheme.predicates.get(router, set())
    texts = (text for row in islice(rows, ROWS_MAX) if (text := matching.text(row)))
    return _way(network, router) | {"rows": len(rows), "because": list(islice(texts, SHOWN_MAX))}


def _way(network: Network, router: Router) -> dict[str, Any]:
    hop = network.unicast.next_hop(router)
    link = None if hop is None else network.links.link(hop)
    return {
        "router": router,
        "next_hop": hop,
        "distance": network.unicast.distance(router),
        "fate": "no_route" if link is None else "sent",
    }


def _by_covering(network: Network, scheme: CoveringScheme, message: bytes) -> dict[str, Any]:
    """Under covering a message goes from neighbour to neighbour, and only if it is advertised."""
    entries = scheme.matching(message)
    texts: dict[Router, list[str]] = {}
    for entry in entries:
        if entry.hop is not None:
            texts.setdefault(entry.hop, []).append(abridged(entry.filter))
    neighbours = set(scheme.machine.borders)
    advertised = scheme.advertised(message)
    return {
        "destinations": [
            _way(network, router) | {"rows": len(some), "because": some[:SHOWN_MAX]}
            for router, some in sorted(texts.items())
            if advertised
        ],
        "others": sorted(neighbours if not advertised else neighbours - texts.keys()),
        "stops": "" if advertised else "unadvertised",
    }


def explain_selector(network: Network, destination: str, selector: str) -> dict[str, Any]:
    """The costs of a subscription on links, and which other brokers have interests in some of its messages."""
    predicate = predicate_of(DestinationPattern.parse(destination), Selector(selector))
    local = network.scheme.local
    cost = local.cost(encode_predicate(predicate))
    rows = local.encoding.rows(encode_predicate(predicate))
    return {
        "filter": abridged(predicate),
        "cost": cost._asdict(),
        "rows": [row_text(local.encoding, row) for row in islice(sorted(rows), SHOWN_MAX)],
        "like_it": [
            {"router": router, "because": like}
            for router, some in sorted(network.scheme.predicates.items())
            if (like := list(islice(_like(network, predicate, some), SHOWN_MAX)))
        ],
    }


def _like(network: Network, predicate: Predicate, rows: Iterable[bytes]) -> Iterator[str]:
    """The filters that may match a message that the predicate matches."""
    encoding = network.settings.encoding
    for row in islice(rows, COMPARED_MAX):
        if filter_rows.is_filter(row):
            filter = decode_predicate(filter_rows.predicate_of(encoding.opened(row)))
            if intersects(filter, predicate):
                yield abridged(filter)
