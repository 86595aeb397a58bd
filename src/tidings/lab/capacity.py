"""The whole answer to "will it carry this?": one server, several, or a network, from one model and one scenario.

Joins what the planner (planner.py), replicated servers and B-DRP networks (replication.py) say, so that a person can
compare: rate and waiting time of one server, the same at other utilisations, whether filters pay, how many servers a
demand needs and of which kind, and what a network of brokers would carry over links of a given bandwidth.

>>> from tidings.lab.thesis import FIORANO_PROPERTY
>>> question = Question(FIORANO_PROPERTY, subscribers=50, filters_each=2, match_probability=0.02, rate=900, brokers=4)
>>> answer = plan_capacity(question)
>>> answer.demand.publisher_side, answer.filters_pay, answer.recommendation
(2, False, 'replicate at the publishers')
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidings.lab.arrays import check_finite, check_probability, refuse
from tidings.lab.planner import Allowed, Forecast, Refused, Scenario, allow, forecast
from tidings.lab.processing import Fitted, filters_pay_off
from tidings.lab.replication import (
    Site,
    bdrp,
    break_even_publishers,
    broker_match_probability,
    publisher_side,
    subscriber_side,
)
from tidings.lab.service import Binomial, Deterministic, Poisson, Replication, ScaledBernoulli

UTILISATIONS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
PROBABILITIES = (0.99, 0.9999, 0.99999)
HEADER_BYTES = 150  # of a message on a link, besides its body: frame, id, destination, a few attributes
SPREADS = ("binomial", "poisson", "all-or-none", "fixed")
TOPOLOGIES = ("line", "ring", "star", "full")


@dataclass(frozen=True, slots=True)
class Question:
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
        if self.topology not in TOPOLOGIES:
            raise refuse(f"topology is one of {', '.join(TOPOLOGIES)}, not {self.topology!r}")
        if self.spread not in SPREADS:
            raise refuse(f"spread is one of {', '.join(SPREADS)}, not {self.spread!r}")

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
    def scenario(self) -> Scenario:
        return Scenario(self.server, self.subscribers * self.filters_each, self.replication, components=self.components)


@dataclass(frozen=True, slots=True)
class NetworkAnswer:
    brokers: int
    topology: str
    capacity: float  # messages published a second, in the whole network
    link_copies: float  # a message
    busiest_link_bytes: float | None  # a second, at the wanted rate, if traffic spreads evenly over the links


@dataclass(frozen=True, slots=True)
class Answer:
    at: tuple[tuple[Forecast, ...], ...]  # by utilisation, then by probability
    filters_pay: bool
    demand: Allowed | Refused | None  # None: no rate was asked for
    publisher_side: float  # capacity of as many servers as publishers
    subscriber_side: float
    break_even_publishers: float
    network: NetworkAnswer | None
    recommendation: str


def plan_capacity(question: Question) -> Answer:
    scenario, server = question.scenario, question.server
    mean = scenario.load.replication
    each, subscribers = question.filters_each, question.subscribers
    levels = sorted({*UTILISATIONS, question.utilisation})
    psr = publisher_side(server, question.publishers, subscribers, each, mean, question.utilisation)
    ssr = subscriber_side(server, each, mean / subscribers, question.utilisation)
    network = _network(question) if question.brokers > 1 else None
    demand = None
    if question.rate is not None:
        demand = allow(scenario, question.rate, question.waiting_max_s, question.probability)
    return Answer(
        at=tuple(tuple(forecast(scenario, rho, p) for p in PROBABILITIES) for rho in levels),
        filters_pay=filters_pay_off(
            each, question.match_probability, _one_filter(server, scenario), max(server.t_tx, 1e-300)
        ),
        demand=demand,
        publisher_side=psr,
        subscriber_side=ssr,
        break_even_publishers=break_even_publishers(server, subscribers, each, mean),
        network=network,
        recommendation=_recommend(question, demand, psr, ssr, network),
    )


def _one_filter(server: Fitted, scenario: Scenario) -> float:
    """What a filter costs, on average over those installed: with an index not all cost the same."""
    return server.filtering(scenario.load) / max(scenario.filters, 1.0)


def _recommend(
    question: Question, demand: Allowed | Refused | None, psr: float, ssr: float, network: NetworkAnswer | None
) -> str:
    if demand is None or isinstance(demand, Allowed):
        return "one server"
    offers = {"replicate at the publishers": psr if question.publishers > 1 else 0.0}
    if demand.publisher_side is not None:  # messages can be dealt out to servers with all filters
        offers["replicate at the publishers"] = max(psr, question.rate or 0.0)
    if demand.subscriber_side is not None:
        offers["replicate at the subscribers"] = ssr
    if network is not None:
        offers[f"a network of {network.brokers} brokers"] = network.capacity
    enough = [name for name, rate in offers.items() if rate >= (question.rate or 0.0)]
    return enough[0] if enough else "no arrangement carries it: fewer filters, fewer receivers or a faster server"


def _network(question: Question) -> NetworkAnswer:
    """Clients spread evenly over the brokers; every broker has publishers."""
    count = question.brokers
    clients = question.subscribers / count
    mean = question.scenario.load.replication / count
    q = broker_match_probability(round(clients), question.match_probability)
    links = links_of(question.topology, count)
    site = Site(clients * question.filters_each, q, mean)
    found = bdrp(question.server, [site] * count, links)
    bandwidth = None
    if question.rate is not None:
        bandwidth = question.rate * found.link_copies / len(links) * (question.body_bytes + HEADER_BYTES)
    capacity = found.capacity(question.utilisation)
    if question.link_bytes_per_s is not None:
        copies = found.link_copies / len(links) * (question.body_bytes + HEADER_BYTES)
        capacity = min(capacity, question.link_bytes_per_s / copies) if copies else capacity
    return NetworkAnswer(count, question.topology, capacity, found.link_copies, bandwidth)


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
