"""The machines of one life of a broker in its network: links, unicast and flood, a routing scheme, perhaps Pan."""

from random import Random
from typing import NamedTuple

from tidings.node.network.link_channels import LinkChannels
from tidings.node.network.pan_links import PanLinks
from tidings.node.network.settings import NetworkSettings
from tidings.node.network.tables import NetworkTables
from tidings.node.plane import NetworkPlane
from tidings.overlay.link.links import Links
from tidings.routing.control.flood import Flood
from tidings.routing.registry import SchemePlacement
from tidings.routing.scheme import Scheme
from tidings.routing.unicast.distance_vector import DistanceVector
from tidings.routing.unicast.link_state import LinkStateOptions, LinkStateUnicast
from tidings.routing.unicast.protocol import Unicast

FLOOD_TIMER = "flood"


class Machines(NamedTuple):
    links: Links
    unicast: Unicast
    flood: Flood
    scheme: Scheme
    pan: PanLinks | None


def make_machines(
    settings: NetworkSettings,
    incarnation: int,
    rng: Random,
    plane: NetworkPlane,
    wires: LinkChannels,
    tables: NetworkTables,
) -> Machines:
    links = Links(settings.greeting(incarnation), settings.link, rng, authenticate=settings.authenticate)
    unicast, flood = _make_unicast(settings, incarnation)
    pan = None if settings.pan is None else PanLinks(settings.router, settings.pan, links, rng, wires.say)
    place = SchemePlacement(
        flood,
        tables,
        settings.encoding,
        settings.bdrp,
        lambda: getattr(unicast, "links", {}),
        lambda neighbour: plane.link_waiting(neighbour) < settings.backlog_bytes_max,
        settings.policy,
        settings.advertise,
        settings.merge,
        settings.merge_in_vain_max,
        settings.cover_advertisements,
        settings.selective,
        settings.hermes,
        lambda key: None if pan is None else pan.next_hop(key),
        lambda: pan is not None and pan.pan.joined,
        lambda key: None if pan is None else pan.second(key),
        tables,
    )
    return Machines(links, unicast, flood, settings.kind.make(place), pan)


def _make_unicast(settings: NetworkSettings, incarnation: int) -> tuple[Unicast, Flood]:
    if settings.unicast == "link-state":
        options = LinkStateOptions(reverse_paths=settings.broadcast_above > 0)
        link_state = LinkStateUnicast(settings.router, incarnation, options, settings.flood)
        return link_state, link_state.flood
    flood = Flood(settings.router, incarnation, settings.flood, FLOOD_TIMER)
    return DistanceVector(settings.router, incarnation), flood
