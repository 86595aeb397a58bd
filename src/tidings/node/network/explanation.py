"""Explains where a message that enters at this broker would go: whose interests match it, by which rows, and which way.

Only brokers that the kernel would send it to are looked at, and of each at most ROWS_MAX rows, so that an explanation
takes a bounded time whatever is known.
"""

from contextlib import suppress
from itertools import islice
from typing import Any

from tidings.errors import UsageError
from tidings.model.codec import decode_predicate
from tidings.model.predicate_text import abridged
from tidings.model.selector.program import run
from tidings.node.network.network import Network
from tidings.node.network.store_and_forward import UNKNOWN
from tidings.overlay.effects import Router
from tidings.routing.bdrp.filter_rows import is_filter, predicate_of
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.message_views import batch_of

ROWS_MAX, SHOWN_MAX = 20_000, 3


def explain(network: Network, message: bytes) -> dict[str, Any]:
    matching = _Matching(network.settings.encoding, message)
    destinations = [router for router in network.destinations(message) if router != UNKNOWN]
    known = set(network.scheme.predicates)
    return {
        "router": network.settings.router,
        "scheme": network.settings.scheme,
        "synchronised": network.first_sync.done,
        "destinations": [_destination(network, matching, one) for one in destinations],
        "others": sorted(known - set(destinations)),
    }


def _destination(network: Network, matching: "_Matching", router: Router) -> dict[str, Any]:
    hop = network.unicast.next_hop(router)
    link = None if hop is None else network.links.link(hop)
    rows = network.scheme.predicates.get(router, set())
    texts = (text for row in islice(rows, ROWS_MAX) if (text := matching.text(row)))
    found = list(islice(texts, SHOWN_MAX))
    return {
        "router": router,
        "next_hop": hop,
        "distance": network.unicast.distance(router),
        "fate": "no_route" if link is None else "sent",
        "rows": len(rows),
        "because": found,
    }


class _Matching:
    """Rows compared with one message."""

    def __init__(self, encoding: InterestEncoding, message: bytes) -> None:
        self._encoding = encoding
        self._attributes = batch_of(message).attributes(0)
        self._carried: frozenset[int] | None = None
        with suppress(UsageError):  # too large to be encoded: it is sent to every broker with an encoded row
            self._carried = encoding.carried(encoding.encoding.message_elements(self._attributes))

    def text(self, row: bytes) -> str:
        """The text of a row that lets the message through; empty: it does not."""
        if is_filter(row):
            predicate = decode_predicate(predicate_of(self._encoding.opened(row)))
            return abridged(predicate) if predicate.matches(self._attributes, run) else ""
        asked = self._encoding.members(row)
        if self._carried is not None and not asked <= self._carried:
            return ""
        unit = "bits" if self._encoding.vectors else "elements"
        return f"an encoded row of {len(asked)} {unit}" if asked else "a row that asks for everything"
