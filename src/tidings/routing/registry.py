"""The routing schemes by the names that configurations use, and what the rest must know of each.

Another scheme: one entry here. Its node gives it a `SchemePlacement`, and it answers to `scheme.Scheme`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidings.model.destination import DestinationPattern
from tidings.model.predicate import Predicate
from tidings.overlay.pan import NETWORK_IDS
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.scheme import Bdrp, BdrpOptions
from tidings.routing.control.flood import Flood
from tidings.routing.covering.policies import make_policy
from tidings.routing.covering.scheme import CoveringScheme
from tidings.routing.covering.selective import SelectiveOptions
from tidings.routing.effects import Router
from tidings.routing.flooding.scheme import Flooding
from tidings.routing.hermes import Hermes, HermesOptions
from tidings.routing.hermes.scheme import HermesScheme
from tidings.routing.scheme import Carrier, EventCarrier, EventTables, Scheme, Tables


@dataclass(frozen=True, slots=True)
class SchemePlacement:
    """Parts of a node that its scheme works with."""

    flood: Flood
    tables: Tables
    encoding: InterestEncoding
    options: BdrpOptions
    links: Callable[[], Mapping[Router, Mapping[Router, int]]]  # the map, where unicast has one; otherwise empty
    room: Callable[[Router], bool]  # whether the link to a neighbour takes more messages
    policy: str = "selective"  # of covering
    advertise: tuple[str, ...] = (">",)  # topics that clients here may publish to; for covering
    merge: bool = False  # subscriptions of this broker; for covering
    merge_in_vain_max: float = 0.0  # share of what a merger lets through; for covering
    cover_advertisements: bool = False  # do not tell neighbours of those that others cover; for covering
    selective: SelectiveOptions = field(default_factory=SelectiveOptions)
    hermes: HermesOptions = field(default_factory=HermesOptions)
    next_hop: Callable[[int], Router | None] = lambda key: None  # towards a key, in Pan; None: this broker is closest
    ready: Callable[[], bool] = lambda: True  # whether this broker is in the overlay
    second: Callable[[int], Router | None] = lambda key: None  # in Pan: the closest to a key but for this broker
    events: EventTables | None = None


@dataclass(frozen=True, slots=True)
class SchemeKind:
    make: Callable[[SchemePlacement], Scheme]
    needs_map: bool = False  # of the whole network: only link-state unicast has it
    carries: bool = False  # messages that are not persistent: it is a Carrier
    typed: bool = False  # it is an EventCarrier, and needs Pan
    by_neighbour: bool = False  # rows lead to neighbours, each broker matches; otherwise to routers, matched once


def _bdrp(place: SchemePlacement) -> Scheme:
    return Bdrp(place.flood, place.encoding, place.tables, place.options)


def _flooding(place: SchemePlacement) -> Scheme:
    return Flooding(place.flood, place.encoding, place.tables, place.links, place.options)


def _covering(place: SchemePlacement) -> Carrier:
    flood = place.flood
    patterns = [DestinationPattern.parse(one) for one in place.advertise]
    return CoveringScheme(
        Bdrp(flood, place.encoding, place.tables, place.options),
        flood.router,
        flood.incarnation,
        make_policy(place.policy, place.selective),
        [Predicate.of(pattern.constraint) for pattern in patterns],
        place.links,
        place.room,
        merge=place.merge,
        merge_in_vain_max=place.merge_in_vain_max,
        cover_advertisements=place.cover_advertisements,
    )


def _hermes(place: SchemePlacement) -> EventCarrier:
    bdrp = Bdrp(place.flood, place.encoding, place.tables, place.options)
    machine = Hermes(place.flood.router, NETWORK_IDS.hash, place.next_hop, place.hermes, place.second)
    return HermesScheme(bdrp, machine, place.ready, place.events)


SCHEMES: dict[str, SchemeKind] = {
    "bdrp": SchemeKind(_bdrp),
    "flooding": SchemeKind(_flooding, needs_map=True, by_neighbour=True),
    "covering": SchemeKind(_covering, needs_map=True, carries=True),
    "hermes": SchemeKind(_hermes, typed=True),
}
