"""Messages between covering brokers; what their clients ask for uses the same records.

Ids are (router, number): the router of the client's broker and a number that it never uses twice, so it counts on
from its incarnation, shifted, when it restarts. A subscription that was taken back may live on elsewhere.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tidings.model.predicate import Predicate
from tidings.overlay.effects import ControlMessage


class AdvertisementId(NamedTuple):
    router: int
    number: int


class FilterId(NamedTuple):
    router: int
    number: int


class Prune(NamedTuple):
    """Takes the subscription back this many hops further towards this advertisement; beyond, it stays."""

    advertisement: AdvertisementId
    hops: int


@dataclass(frozen=True, slots=True)
class Join(ControlMessage):
    """I route on this tree now. A link carries messages once both ends have said so and heard each other."""

    epoch: int  # of the tree
    session: int  # grows each time the sender joins a tree
    heard: int  # the receiver's session as the sender knows it; 0: none


@dataclass(frozen=True, slots=True)
class CoveringAdvertise(ControlMessage):
    id: AdvertisementId
    filter: Predicate


@dataclass(frozen=True, slots=True)
class CoveringUnadvertise(ControlMessage):
    id: AdvertisementId


@dataclass(frozen=True, slots=True)
class CoveringSubscribe(ControlMessage):
    id: FilterId
    filter: Predicate


@dataclass(frozen=True, slots=True)
class CoveringUnsubscribe(ControlMessage):
    id: FilterId
    prunes: tuple[Prune, ...] | None = None  # None: everywhere


@dataclass(frozen=True, slots=True)
class Packed(ControlMessage):
    """All changes of one step for one neighbour, in this order."""

    changes: tuple[CoveringSubscribe | CoveringUnsubscribe, ...]


@dataclass(frozen=True, slots=True)
class CoveringPublication(ControlMessage):
    """A message on its way. What its publisher's broker sets to 0 tells the last one who else wanted it, and where."""

    advertisement: AdvertisementId
    distance: int  # hops since a broker where it matched more than one subscription
    count: int  # such brokers so far
    message: bytes  # docs/wire.md, "Message"


Change: TypeAlias = CoveringSubscribe | CoveringUnsubscribe
CoveringMessage: TypeAlias = (
    Join
    | CoveringAdvertise
    | CoveringUnadvertise
    | CoveringSubscribe
    | CoveringUnsubscribe
    | Packed
    | CoveringPublication
)


@dataclass(frozen=True, slots=True)
class CoveringHandOver:
    """Effect: give a publication to these clients' subscriptions."""

    subscriptions: tuple[FilterId, ...]
    publication: CoveringPublication
