"""Lists what a broker's network knows, page by page: the costs of its own interests, and the tables of covering.

Whatever is known, a page takes a bounded time: only the first LOOKED_AT_MAX entries are searched for a text, and only
those on the page are decoded otherwise.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tidings.model.codec import decode_predicate
from tidings.model.predicate import Predicate
from tidings.model.predicate_text import abridged
from tidings.node.network.network import Network
from tidings.routing.covering.messages import AdvertisementId, FilterId
from tidings.routing.covering.scheme import CoveringScheme

LOOKED_AT_MAX = 2000
Items = tuple[int, list[dict[str, Any]]]


def interests(network: Network, offset: int, limit: int, containing: str) -> Items:
    """This broker's interests, the costliest on links first."""
    local = network.scheme.local
    most = LOOKED_AT_MAX if containing else offset + limit
    return _page(len(local), (_interest(network, one) for one in local.costliest(most)), offset, limit, containing)


def _interest(network: Network, predicate: bytes) -> dict[str, Any]:
    return {
        "filter": abridged(decode_predicate(predicate)),
        **network.scheme.local.cost(predicate)._asdict(),
        "in_vain": network.vain_copies.blamed.get(predicate, 0),
        "looked_at": network.vain_copies.looked_at,
    }


def covering(network: Network, offset: int, limit: int, containing: str) -> Items:
    """The entries of all tables of a covering broker."""
    if not isinstance(network.scheme, CoveringScheme):
        return 0, []
    machine = network.scheme.machine
    borders = machine.borders.values()
    total = len(machine.advertisements) + len(machine.table) + sum(len(border.told) for border in borders)
    return _page(total, _covering_entries(network.scheme), offset, limit, containing)


def _covering_entries(scheme: CoveringScheme) -> Iterator[dict[str, Any]]:
    machine = scheme.machine
    for advertisement, (filter, hop) in machine.advertisements.items():
        yield _entry("advertisement", hop, advertisement, filter)
    for border in machine.borders.values():
        for id in border.preserved:
            yield _entry("preserved", border.neighbour, id, border.told[id])
    for entry in machine.table.entries.values():
        yield _entry("subscription", entry.hop, entry.id, entry.filter)
    for border in machine.borders.values():
        for id in border.told:
            if id not in border.preserved:
                yield _entry("told", border.neighbour, id, border.told[id])


def _entry(table: str, neighbour: int | None, id: FilterId | AdvertisementId, filter: Predicate) -> dict[str, Any]:
    """`neighbour`: the one it came from, or was told to; 0: it is of this broker."""
    name = f"{id.router}/{id.number}"
    at = neighbour or 0
    return {"key": f"{table} {at} {name}", "table": table, "neighbour": at, "id": name, "filter": abridged(filter)}


def _page(total: int, items: Iterable[dict[str, Any]], offset: int, limit: int, containing: str) -> Items:
    if not containing:
        return total, list(islice(items, offset, offset + limit))
    found = [one for one in islice(items, LOOKED_AT_MAX) if containing in one["filter"]]
    return len(found), found[offset : offset + limit]
