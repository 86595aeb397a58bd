"""A read-only view of a running broker, for inspection, metrics and checkers.

Everything is read when it is asked for: a broker that nobody looks at counts nothing more than before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tidings.delivery.mailbox import Mailbox
from tidings.delivery.policy import QueuePolicy
from tidings.node.clients.client_sessions import ClientSession, ClientSessions
from tidings.node.clients.session import Connection
from tidings.node.clients.user_accounts import Usage
from tidings.node.network.explain import listing
from tidings.node.network.explain.explanation import explain, explain_selector
from tidings.node.network.network import Network
from tidings.node.node import Node
from tidings.overlay.effects import Router


@dataclass(frozen=True, slots=True)
class Counts:
    """Since the broker started."""

    expired: int
    dead_letters: int
    dead_letters_failed: int  # could not be moved to the dead letters
    duplicates: int  # publications sent again and known already
    pushed_back: int  # times that a publisher had to wait
    dropped: Mapping[str, int]  # for mailboxes, by reason
    message_bytes: int  # of messages held in memory now
    delayed: int  # messages that wait for their time now


@dataclass(frozen=True, slots=True)
class LinkView:
    state: str
    latency_ms: float
    connection: str


@dataclass(frozen=True, slots=True)
class RouteView:
    next_hop: Router | None
    distance: float | None


UNREACHABLE = RouteView(None, None)


@dataclass(frozen=True, slots=True)
class NetworkView:
    router: Router
    name: str
    scheme: str
    dialled: frozenset[Router]  # neighbours that the configuration names
    links: Mapping[Router, LinkView]
    routes: Mapping[Router, RouteView]
    interests: Mapping[Router, int]  # rows known of other brokers
    scheme_counts: Mapping[str, int]
    pan: Mapping[str, Any]
    synchronised: bool  # interests of the network are known, or were in an earlier run
    takes_persistent: bool  # they are not refused until then
    contested: bool  # another broker that was there before has the same id
    awaited: Mapping[Router, int]  # persistent messages that wait, by router
    in_transit: int
    copies_expired: int
    copies_duplicate: int
    copies_abandoned: int
    copies_moved: int  # to a queue, since their broker was forgotten
    copies_held: int
    store_behind: bool  # the store is older than what neighbours know of it


class View:
    def __init__(self, node: Node, clients: ClientSessions) -> None:
        self._node, self._clients = node, clients
        self.connections: Mapping[int, Connection] = MappingProxyType(node.connections)  # those that have logged in
        self.clients: Mapping[int, ClientSession] = MappingProxyType(clients.by_connection)
        self.mailboxes: Mapping[str, Mailbox] = MappingProxyType(node.mailbox_service.mailboxes.by_name)
        self.protocol_errors: Mapping[str, int] = MappingProxyType(clients.protocol_errors)

    @property
    def idle(self) -> bool:
        """Nothing waits to be written."""
        return self._node.idle

    @property
    def refused(self) -> int:
        """Clients that were not served because there were too many."""
        return self._clients.refused

    @property
    def policies(self) -> Sequence[QueuePolicy]:
        return self._node.mailbox_service.mailboxes.policies

    def home_of(self, mailbox: Mailbox) -> dict[str, Any]:
        """The broker that keeps a queue of the network (0: it is no such queue), and consumers by other broker."""
        queues = self._node.network_queues
        return {"home": 0, "remote_consumers": {}} if queues is None else queues.describe(mailbox)

    def usage(self) -> Iterable[Usage]:
        """Quotas of users, and their use."""
        return self._node.accounts.usage()

    def counts(self) -> Counts:
        service = self._node.mailbox_service
        return Counts(
            service.expired + self._node.delayed.expired,
            service.dead_letters.buried,
            service.dead_letters.failed,
            service.publish_dedup.duplicates,
            self._node.backpressure.pushed_back,
            service.overflow.dropped,
            service.message_cache.bytes,
            len(self._node.delayed),
        )

    def explain(self, message: bytes) -> dict[str, Any]:
        """The destinations of a message that enters here, and the reasons; empty without a network."""
        network = self._node.network
        return {} if network is None else explain(network, message)

    def explain_selector(self, destination: str, selector: str) -> dict[str, Any]:
        """The costs of a subscription on links, and brokers with interests like it; empty without a network."""
        network = self._node.network
        return {} if network is None else explain_selector(network, destination, selector)

    def interests(self, offset: int, limit: int, containing: str) -> listing.Items:
        """The interests that this broker advertises, the costliest on links first: how many, and one page."""
        network = self._node.network
        return (0, []) if network is None else listing.interests(network, offset, limit, containing)

    def covering_tables(self, offset: int, limit: int, containing: str) -> listing.Items:
        network = self._node.network
        return (0, []) if network is None else listing.covering(network, offset, limit, containing)

    def network(self) -> NetworkView | None:
        network = self._node.network
        return None if network is None else _network_view(network)


def _network_view(network: Network) -> NetworkView:
    settings, unicast, store_and_forward = network.settings, network.unicast, network.store_and_forward
    links = {}
    for peer in network.links.peers():
        link = network.links.link(peer)
        assert link is not None
        links[peer] = LinkView(link.state.value, link.latency_ms or 0.0, link.connection)
    return NetworkView(
        settings.router,
        settings.network,
        settings.scheme,
        frozenset(router for _, router in settings.dials if router),
        links,
        {router: RouteView(unicast.next_hop(router), unicast.distance(router)) for router in unicast.reachable()},
        {router: len(rows) for router, rows in network.scheme.predicates.items()},
        dict(network.scheme.counts()),
        {} if network.pan is None else network.pan.status(),
        network.first_sync.done,
        network.first_sync.takes,
        network.clock.now < network.flood.contested_until,
        store_and_forward.waiting_for(),
        len(store_and_forward),
        store_and_forward.expired + network.event_custody.expired + network.held_copies.expired,
        store_and_forward.duplicates,
        store_and_forward.abandoned,
        network.diversions.moved,
        len(network.held_copies),
        network.store_age.behind,
    )
