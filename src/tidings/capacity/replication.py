"""Capacity of several servers together: replicated servers of the thesis (section 5.3), and a B-DRP network.

**Publisher-side**: each of n publishers has a server that holds the filters of all m subscribers; the system's
capacity grows with n and falls with m. **Subscriber-side**: each subscriber has a server that gets every message;
the capacity depends on neither. Real networks lie between, and B-DRP is one of them.

**A B-DRP network of k brokers.** A message enters at broker e (with probability `entry[e]`), is matched there against
the local filters and once against the encoded interests of all others; one copy per link then travels down the
unicast tree of e to the brokers that matched. Let q_j be the probability that broker j matches (false positives of
the encoding included). Of a message that enters at e, broker i ≠ e gets a copy iff some broker in its part of the tree
matches; if brokers match independently of each other, that is

    c_i(e) = 1 − Π_{j below or at i} (1 − q_j),      c_e(e) = 1

and otherwise what is given for as many subscribers as there are in that part (`reached`; receivers.py knows it). Either
way the seconds that the broker spends on the message, on average, are

    w_i(e) = c_i(e)·t_rcv                                      receive
           + [i = e]·t_entry                                   match the encoded interests, once in the network
           + ([i = e] + [i ≠ e]·q_i)·filtering(n_i)            exact match of local filters, at entry and targets
           + Σ_{v child of i} c_v(e)·t_link                    one copy per link
           + r_i·t_tx                                          copies to local clients

The mean over e is the broker's work per message published in the network; the busiest broker decides the capacity:
λ_max = ρ / max_i E_e[w_i(e)]. `filtering`, t_rcv and t_tx are those of a single broker, measured as in
`tidings.capacity.fitting`; t_link defaults to t_tx and t_entry is given (0: not counted). Not modelled: control
traffic, the broadcast threshold, links as bottlenecks, and what batching saves under load; a measurement that beats the
prediction has usually found the last.

>>> from tidings.capacity.thesis import FIORANO_CORRELATION_ID as server
>>> round(break_even_publishers(server, subscribers=100, filters_each=10, replication=1), 1)
79.9
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tidings.capacity.arrays import Array, check_finite, check_probability, refuse
from tidings.capacity.processing import Fitted, Load
from tidings.capacity.service import Moments

BROKERS_MAX = 4096


def publisher_side(
    server: Fitted,
    publishers: int,
    subscribers: int,
    filters_each: float,
    replication: float,
    utilisation: float = 0.9,
    *,
    different: float | None = None,
    components: float = 1.0,
) -> float:
    """(5.48): received messages per second of n servers at the publishers, each with all filters."""
    check_finite("publishers", publishers, 1)
    load = Load(subscribers * filters_each, replication, different, components)
    return publishers * server.capacity(load, utilisation)


def subscriber_side(
    server: Fitted,
    filters_each: float,
    replication: float,
    utilisation: float = 0.9,
    *,
    different: float | None = None,
    components: float = 1.0,
) -> float:
    """(5.49): received messages per second of servers at the subscribers, each of which gets every message."""
    return server.capacity(Load(filters_each, replication, different, components), utilisation)


def break_even_publishers(
    server: Fitted,
    subscribers: int,
    filters_each: float,
    replication: float,
    *,
    replication_each: float | None = None,
    components: float = 1.0,
) -> float:
    """(5.50): with more publishers than this, publisher-side replication carries more than subscriber-side.

    The thesis has one E[R] for both. A server at one of m subscribers sends only what that one gets, however: give it
    as `replication_each`, E[R]/m if all get equally much.
    """
    each = replication if replication_each is None else replication_each
    one = publisher_side(server, 1, subscribers, filters_each, replication, components=components)
    return subscriber_side(server, filters_each, each, components=components) / one


def broker_match_probability(clients: float, match_probability: float) -> float:
    """q of a broker whose clients match independently of each other: 1 − (1 − p)^c."""
    check_finite("clients", clients, 0)
    check_probability("match_probability", match_probability)
    return -math.expm1(clients * math.log1p(-match_probability)) if match_probability < 1 else float(clients > 0)


@dataclass(frozen=True, slots=True)
class Site:
    """One broker of the network."""

    filters: float  # of its own clients
    match_probability: float  # that a message from elsewhere is sent here
    replication: float  # copies to its own clients, per message published anywhere in the network
    entry: float = 1.0  # its share of the messages published; shares are scaled to sum to 1
    different: float | None = None  # filters that differ from each other; None: all of them
    components: float = 1.0  # comparisons in one filter
    clients: int = 0  # subscribers here, for `reached`
    local: Moments | None = None  # of the copies to its own clients; None: each receiver is here or not by itself

    def __post_init__(self) -> None:
        check_finite("filters", self.filters, 0)
        check_probability("match_probability", self.match_probability)
        check_finite("replication", self.replication, 0)
        check_finite("entry", self.entry, 0)

    @property
    def load(self) -> Load:
        """The load of exact matching."""
        return Load(self.filters, 0.0, self.different, self.components)


@dataclass(frozen=True, slots=True)
class NetworkLoad:
    """Per message published anywhere: means over entry brokers."""

    work: tuple[float, ...]  # seconds of each broker
    received: tuple[float, ...]  # times each broker receives it
    sent: tuple[float, ...]  # copies that each broker sends over links
    sent_entered: tuple[float, ...]  # the same, of a message published at that broker
    wanted: float  # the probability that somebody in the network gets it; 1 where that is not known
    receives: float  # times the message is received by some broker, the first included
    link_copies: float
    busiest_link: float  # copies over the link that has most of them, both directions together
    targets: float  # brokers other than the entry that are destinations
    deliveries: float  # to clients

    @property
    def bottleneck(self) -> int:
        return int(np.argmax(self.work))

    def capacity(self, utilisation: float = 0.9) -> float:
        """Messages published per second, over the whole network, until the busiest broker is this busy."""
        check_finite("utilisation", utilisation, 0, 1, open_low=True)
        return utilisation / max(self.work)

    def utilisations(self, rate: float) -> tuple[float, ...]:
        """Utilisation of each broker at this rate."""
        check_finite("rate", rate, 0)
        return tuple(rate * work for work in self.work)


def shortest_path_trees(links: Sequence[tuple[int, int]], brokers: int) -> list[list[int]]:
    """parents[e][v]: the broker before v on the path from e; e itself is its own parent. Ties: the lower number."""
    check_finite("brokers", brokers, 1, BROKERS_MAX)
    neighbours: list[set[int]] = [set() for _ in range(brokers)]
    for a, b in links:
        if not (0 <= a < brokers and 0 <= b < brokers and a != b):
            raise refuse(f"no link between {a} and {b} in a network of {brokers} brokers")
        neighbours[a].add(b)
        neighbours[b].add(a)
    return [_tree(e, neighbours) for e in range(brokers)]


def _tree(entry: int, neighbours: list[set[int]]) -> list[int]:
    parents = [-1] * len(neighbours)
    parents[entry], reached = entry, [entry]
    for broker in reached:  # grows while it is walked
        for other in sorted(neighbours[broker]):
            if parents[other] < 0:
                parents[other] = broker
                reached.append(other)
    if len(reached) < len(neighbours):
        raise refuse("the network is not connected")
    return parents


def bdrp(
    server: Fitted,
    sites: Sequence[Site],
    links: Sequence[tuple[int, int]],
    t_entry: float = 0.0,
    t_link: float | None = None,
    reached: Callable[[int], float] | None = None,
) -> NetworkLoad:
    """The work of each broker, by the formula at the top of this file.

    `reached` is the probability that at least one of n subscribers gets a message; without it brokers are independent.
    """
    check_finite("t_entry", t_entry, 0)
    t_link = server.t_tx if t_link is None else t_link
    check_finite("t_link", t_link, 0)
    trees = shortest_path_trees(links, len(sites))
    entry = np.array([site.entry for site in sites], dtype=np.float64)
    if entry.sum() <= 0:
        raise refuse("no broker has publishers")
    entry /= entry.sum()
    q = np.array([site.match_probability for site in sites], dtype=np.float64)
    filtering = np.array([server.filtering(site.load) for site in sites])
    grades = np.array([site.replication for site in sites], dtype=np.float64)
    if reached is None:
        copies, wanted = np.array([_copies(tree, q) for tree in trees]), 1.0  # [e, i]: c_i(e)
    else:
        clients = [site.clients for site in sites]
        counts, places = np.unique([_behind(tree, clients) for tree in trees], return_inverse=True)
        copies = np.array([reached(count) for count in counts.tolist()])[places].reshape(len(sites), len(sites))
        q, wanted = np.array([reached(one) for one in clients]), reached(sum(clients))
    np.fill_diagonal(copies, 1.0)  # where the message always is
    sent = np.array([_sent(tree, row) for tree, row in zip(trees, copies, strict=True)])
    targets = np.where(np.eye(len(sites), dtype=bool), 1.0, q)
    work = entry @ (copies * server.t_rcv + targets * filtering + sent * t_link) + entry * t_entry
    work += grades * server.t_tx
    return NetworkLoad(
        work=tuple(work.tolist()),
        received=tuple((entry @ copies).tolist()),
        sent=tuple((entry @ sent).tolist()),
        sent_entered=tuple(np.diag(sent).tolist()),
        wanted=wanted,
        receives=float(entry @ copies.sum(axis=1)),
        link_copies=float(entry @ sent.sum(axis=1)),
        busiest_link=_busiest_link(trees, entry, copies),
        targets=float(entry @ targets.sum(axis=1)) - 1,
        deliveries=float(grades.sum()),
    )


def _depths(parents: list[int]) -> list[int]:
    depths = [-1] * len(parents)
    for broker in range(len(parents)):
        path = []
        while depths[broker] < 0 and parents[broker] != broker:
            path.append(broker)
            broker = parents[broker]
        depths[broker] = max(depths[broker], 0)
        for below in reversed(path):
            depths[below] = depths[parents[below]] + 1
    return depths


def _copies(parents: list[int], q: Array) -> Array:
    """Of one tree: the probability that a broker at or below i matches."""
    none = 1 - q
    for broker in _from_leaves(parents):
        none[parents[broker]] *= none[broker]
    return np.asarray(1 - none, dtype=np.float64)


def _behind(parents: list[int], clients: Sequence[int]) -> list[int]:
    """Of one tree: how many subscribers are at or below i."""
    behind = list(clients)
    for broker in _from_leaves(parents):
        behind[parents[broker]] += behind[broker]
    return behind


def _from_leaves(parents: list[int]) -> list[int]:
    """All but the root, each before its parent."""
    order = sorted(range(len(parents)), key=_depths(parents).__getitem__, reverse=True)
    return [broker for broker in order if parents[broker] != broker]


def _sent(parents: list[int], copies: Array) -> Array:
    sent = np.zeros(len(parents))
    for broker, parent in enumerate(parents):
        if parent != broker:
            sent[parent] += copies[broker]
    return sent


def _busiest_link(trees: Sequence[list[int]], entry: Array, copies: Array) -> float:
    brokers = np.arange(len(trees))
    over = np.zeros((len(trees), len(trees)))  # [parent, child]: no tree has a child twice
    for root, parents in enumerate(trees):
        over[np.array(parents), brokers] += entry[root] * np.where(brokers == root, 0.0, copies[root])
    return float((over + over.T).max())
