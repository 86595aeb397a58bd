"""The whole answer to "will it carry this?": one server, several, or a network, from one model and one scenario.

Joins what the planner (forecast.py), replicated servers and B-DRP networks (replication.py) say, so that a person can
compare: rate and waiting time of one server, the same at other utilisations, whether filters pay, how many servers a
demand needs and of which kind, and what a network of brokers would carry over links of a given bandwidth.

>>> from tidings.capacity.thesis import FIORANO_PROPERTY
>>> asked = {"subscribers": 50, "filters_each": 2, "match_probability": 0.02, "rate": 900, "brokers": 4}
>>> answer = plan_capacity(SizingQuestion(FIORANO_PROPERTY, **asked))
>>> answer.demand.publisher_side, answer.filters_pay, answer.recommendation
(2, False, 'replicate at the publishers')
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidings.capacity.arrays import check_finite, check_probability, refuse
from tidings.capacity.forecast import (
    RHO_MAX,
    Allowed,
    CapacityRefused,
    CapacityScenario,
    Forecast,
    allow,
    forecast,
    utilisation_allowed,
)
from tidings.capacity.network_waiting import network_waiting
from tidings.capacity.processing import Fitted, filters_pay_off
from tidings.capacity.receivers import Receivers
from tidings.capacity.replication import (
    NetworkLoad,
    Site,
    bdrp,
    break_even_publishers,
    publisher_side,
    subscriber_side,
)
from tidings.capacity.service import Binomial, Deterministic, Poisson, Replication, ScaledBernoulli
from tidings.errors import UsageError

UTILISATIONS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
PROBABILITIES = (0.99, 0.9999, 0.99999)
PROBABILITY_MAX = 1 - 1e-15
HEADER_BYTES = 150  # of a message on a link, besides its body: frame, id, destination, a few attributes
SPREADS = ("binomial", "poisson", "all-or-none", "fixed")
TOPOLOGIES = ("line", "ring", "star", "full")


@dataclass(frozen=True, slots=True)
class SizingQuestion:
    server: Fitted
    subscribers: int
    filters_each: float = 1.0
    match_probability: float = 0.01  # that a message matches a given subscriber
    spread: str = "binomial"  # how the number of receivers varies
    grades: Replication | None = None  # measured instead
    rate: float | None = None  # messages a second that are wanted
    waiting_max_s: float = 0.1
    probability: float = 0.9999
    utilisation: float = 0.9
    publishers: int = 1
    components: float = 1.0
    body_bytes: int = 0
    brokers: int = 1
    topology: str = "ring"
    link_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        check_finite("subscribers", self.subscribers, 1)
        check_finite("filters_each", self.filters_each, 0)
        check_probability("match_probability", self.match_probability)
        check_finite("brokers", self.brokers, 1, 4096)
        check_finite("publishers", self.publishers, 1)
        check_finite("components", self.components, 0)
        check_finite("body_bytes", self.body_bytes, 0)
        check_finite("waiting_max_s", self.waiting_max_s, 0)
        if not 0 <= self.probability <= PROBABILITY_MAX:  # none waits at most so long with certainty
            raise refuse(f"probability must lie in [0, 1), not {self.probability:g}")
        check_finite("utilisation", self.utilisation, 0, RHO_MAX, open_low=True)
        if self.rate is not None:
            check_finite("rate", self.rate, 0, open_low=True)
        if self.link_bytes_per_s is not None:
            check_finite("link_bytes_per_s", self.link_bytes_per_s, 0, open_low=True)
        if self.topology not in TOPOLOGIES:
            raise refuse(f"topology is one of {', '.join(TOPOLOGIES)}, not {self.topology!r}")
        if self.spread not in SPREADS:
            raise refuse(f"spread is one of {', '.join(SPREADS)}, not {self.spread!r}")
        if self.grades is not None and float(self.grades.moments().first) > self.subscribers:
            mean = float(self.grades.moments().first)
            raise refuse(f"measured grades: {mean:.6g} receivers a message, but {self.subscribers} subscribers")

    @property
    def match(self) -> float:
        """The probability that a message matches a given subscriber: by measured grades if there are any."""
        if self.grades is None:
            return self.match_probability
        return float(self.grades.moments().first) / self.subscribers

    @property
    def replication(self) -> Replication:
        n, p = self.subscribers, self.match_probability
        if self.grades is not None:
            return self.grades
        spreads: dict[str, Replication] = {
            "binomial": Binomial(n, p),
            "poisson": Poisson(n * p),
            "all-or-none": ScaledBernoulli(n, p),
            "fixed": Deterministic(n * p),
        }
        return spreads[self.spread]

    @property
    def scenario(self) -> CapacityScenario:
        return CapacityScenario(
            self.server, self.subscribers * self.filters_each, self.replication, components=self.components
        )


@dataclass(frozen=True, slots=True)
class NetworkAnswer:
    brokers: int
    topology: str
    capacity: float  # messages published a second, in the whole network
    link_copies: float  # a message
    busiest_link_bytes: float | None  # a second, at the wanted rate, both directions of the busiest link together
    waiting_quantile: float | None  # over the longest way, at the wanted rate; None: none wanted, or more than it takes


@dataclass(frozen=True, slots=True)
class SizingAnswer:
    at: tuple[tuple[Forecast, ...], ...]  # by utilisation, then by probability
    filters_pay: bool
    rate_allowed: float  # of one server, for the waiting time asked about
    demand: Allowed | CapacityRefused | None  # None: no rate was asked for
    publisher_side: float  # capacity of as many servers as publishers
    subscriber_side: float
    break_even_publishers: float
    network: NetworkAnswer | None
    recommendation: str


def plan_capacity(question: SizingQuestion) -> SizingAnswer:
    scenario, server = question.scenario, question.server
    mean, components = scenario.load.replication, question.components
    each, subscribers = question.filters_each, question.subscribers
    one_gets = mean / subscribers  # a server at a subscriber sends only to that one
    levels = sorted({*UTILISATIONS, question.utilisation})
    psr = publisher_side(
        server, question.publishers, subscribers, each, mean, question.utilisation, components=components
    )
    even = break_even_publishers(
        server, subscribers, each, mean, replication_each=one_gets, components=components
    )  # fmt: skip
    service = scenario.service()
    limit = utilisation_allowed(service, question.waiting_max_s, question.probability)
    network = _network(question) if question.brokers > 1 else None
    demand = None
    if question.rate is not None:
        demand = allow(scenario, question.rate, question.waiting_max_s, question.probability)
    return SizingAnswer(
        at=tuple(tuple(forecast(scenario, rho, p) for p in PROBABILITIES) for rho in levels),
        filters_pay=filters_pay_off(each, question.match, _one_filter(server, scenario), max(server.t_tx, 1e-300)),
        rate_allowed=limit / float(service.first),
        demand=demand,
        publisher_side=psr,
        subscriber_side=subscriber_side(server, each, one_gets, question.utilisation, components=components),
        break_even_publishers=even,
        network=network,
        recommendation=_recommend(question, demand, network),
    )


def _one_filter(server: Fitted, scenario: CapacityScenario) -> float:
    """Mean cost of an installed filter: with an index not all filters cost the same."""
    return server.filtering(scenario.load) / max(scenario.filters, 1.0)


def _recommend(
    question: SizingQuestion, demand: Allowed | CapacityRefused | None, network: NetworkAnswer | None
) -> str:
    """Whatever carries the demand within the waiting time, with the fewest servers."""
    if demand is None or isinstance(demand, Allowed):
        return "one server"
    offers: dict[str, int] = {}
    if demand.publisher_side is not None:  # messages can be dealt out to servers with all filters
        offers["replicate at the publishers"] = demand.publisher_side
    if demand.subscriber_side is not None and demand.subscriber_side <= question.subscribers:
        offers["replicate at the subscribers"] = demand.subscriber_side
    if network is not None and _suffices(question, network):
        offers[f"a network of {network.brokers} brokers"] = network.brokers
    nothing = "no arrangement carries it: fewer filters, fewer receivers or a faster server"
    return min(offers, key=offers.__getitem__) if offers else nothing


def _suffices(question: SizingQuestion, network: NetworkAnswer) -> bool:
    if question.rate is None or question.rate > network.capacity or network.waiting_quantile is None:
        return False
    return network.waiting_quantile <= question.waiting_max_s


def _network(question: SizingQuestion) -> NetworkAnswer:
    """Subscribers spread over the brokers as evenly as whole numbers allow; every broker has publishers."""
    count, links = question.brokers, links_of(question.topology, question.brokers)
    receivers = Receivers.of(question.replication, question.subscribers)
    sites = _sites(question, receivers)
    found = bdrp(question.server, sites, links, reached=receivers.reached)
    message = question.body_bytes + HEADER_BYTES
    capacity, busiest = found.capacity(question.utilisation), found.busiest_link * message
    if question.link_bytes_per_s is not None and busiest > 0:
        capacity = min(capacity, question.link_bytes_per_s / busiest)
    return NetworkAnswer(
        count,
        question.topology,
        capacity,
        found.link_copies,
        None if question.rate is None else question.rate * busiest,
        _network_waiting(question, sites, links, found),
    )


def _sites(question: SizingQuestion, receivers: Receivers) -> list[Site]:
    """Brokers without subscribers lie between those with: a fraction of one at each would all get every message."""
    count, subscribers = question.brokers, question.subscribers
    found = []
    for number in range(count):
        clients = (number + 1) * subscribers // count - number * subscribers // count
        local = receivers.among(clients)
        site = Site(
            clients * question.filters_each,
            receivers.reached(clients),
            float(local.first),
            components=question.components,
            clients=clients,
            local=local,
        )
        found.append(site)
    return found


def _network_waiting(
    question: SizingQuestion, sites: Sequence[Site], links: Sequence[tuple[int, int]], load: NetworkLoad
) -> float | None:
    if question.rate is None:
        return None
    grades = question.replication.moments()
    try:
        waiting = network_waiting(question.server, sites, links, load, grades, question.rate)
    except UsageError as error:
        if error.code != "E_LAB_OVERLOAD":
            raise
        return None
    return float(waiting.quantile(question.probability))


def links_of(topology: str, count: int) -> Sequence[tuple[int, int]]:
    """
    >>> links_of("ring", 4), links_of("star", 3), links_of("ring", 2)
    ([(0, 1), (1, 2), (2, 3), (0, 3)], [(0, 1), (0, 2)], [(0, 1)])
    """
    line = [(number, number + 1) for number in range(count - 1)]
    match topology:
        case "ring":
            return [*line, (0, count - 1)] if count > 2 else line
        case "star":
            return [(0, number) for number in range(1, count)]
        case "full":
            return [(a, b) for a in range(count) for b in range(a + 1, count)]
        case _:
            return line
