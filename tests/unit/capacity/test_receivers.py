"""Which brokers get a message, against enumeration, and against a simulation of the whole network."""

import itertools
from collections import Counter
from dataclasses import replace
from math import comb

import numpy as np
import pytest

from tidings.capacity.arrays import Array
from tidings.capacity.network_waiting import network_waiting
from tidings.capacity.plan import HEADER_BYTES, SizingQuestion, links_of, plan_capacity
from tidings.capacity.processing import Fitted, Load
from tidings.capacity.receivers import Receivers
from tidings.capacity.replication import Site, bdrp, shortest_path_trees
from tidings.capacity.service import Binomial, Deterministic, Empirical, Poisson, Replication, ScaledBernoulli
from tidings.errors import UsageError

SERVER = Fitted.of("base", t_rcv=2e-6, t_fltr=2e-7, t_tx=1e-6)
MEASURED = Empirical((0, 30, 0, 10, 0, 0, 0, 20, 0, 0, 0, 0, 40))


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_measured_grades_against_every_choice_of_receivers(count: int) -> None:
    weights = (0.1, 0.2, 0.0, 0.4, 0.0, 0.2, 0.1)
    receivers = Receivers.of(Empirical((1, 2, 0, 4, 0, 2, 1)), 6)
    local: Array = np.zeros(7)  # how probable it is that so many of the first `count` are receivers
    for grade, weight in enumerate(weights):
        for chosen in itertools.combinations(range(6), grade):
            local[sum(one < count for one in chosen)] += weight / comb(6, grade)
    k, found = np.arange(7), receivers.among(count)
    assert receivers.reached(count) == pytest.approx(1 - local[0])
    assert [found.first, found.second, found.third] == pytest.approx([local @ k, local @ k**2, local @ k**3])


@pytest.mark.parametrize("count", [0, 1, 7, 40])
def test_the_other_spreads_are_cases_of_the_same(count: int) -> None:
    chances = [comb(40, k) * 0.2**k * 0.8 ** (40 - k) for k in range(41)]
    by_grades = Receivers.of(Empirical(tuple(round(1e17 * chance) for chance in chances)), 40)
    binomial = Receivers.of(Binomial(40, 0.2), 40)
    assert binomial.reached(count) == pytest.approx(by_grades.reached(count))
    assert binomial.among(count).third == pytest.approx(by_grades.among(count).third)
    together = Receivers.of(ScaledBernoulli(40, 0.25), 40)
    measured = Receivers.of(Empirical((3, *(0,) * 39, 1)), 40)
    assert together.reached(count) == pytest.approx(measured.reached(count))
    assert together.among(count).second == pytest.approx(measured.among(count).second)
    half, between = Receivers.of(Deterministic(2.5), 40), Receivers.of(Empirical((0, 0, 1, 1)), 40)
    assert half.reached(count) == pytest.approx(between.reached(count))
    few, rare = Receivers.of(Poisson(0.4), 400_000), Receivers.of(Binomial(400_000, 1e-6), 400_000)
    assert few.reached(count) == pytest.approx(rare.reached(count), rel=1e-5)


def test_receivers_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="E_PLAN_SPREAD: a message has 3 receivers, but there are 2 subscribers"):
        Receivers.of(Empirical((5, 0, 0, 1, 0)), 2)
    with pytest.raises(UsageError, match="E_PLAN_SPREAD"):
        Receivers.of(Binomial(10, 0.1), 20)
    with pytest.raises(UsageError, match="E_PLAN_SPREAD"):
        Receivers.of(Deterministic(1e12), 10**13)


def simulated(
    replication: Replication, subscribers: int, brokers: int, topology: str, messages: int = 6000
) -> tuple[list[list[float]], float, float]:
    """What each broker spends on each message it gets; copies over all links and over the busiest, a message."""
    rng = np.random.default_rng(11)
    trees = shortest_path_trees(links_of(topology, brokers), brokers)
    ends = [(broker + 1) * subscribers // brokers for broker in range(brokers)]
    home = np.searchsorted(ends, np.arange(subscribers), side="right")
    filtering = [SERVER.filtering(Load(float(clients))) for clients in np.bincount(home, minlength=brokers)]
    services: list[list[float]] = [[] for _ in range(brokers)]
    over: Counter[tuple[int, int]] = Counter()
    for grade in replication.sample(rng, messages):
        entry = int(rng.integers(brokers))
        local = np.bincount(home[rng.choice(subscribers, int(grade), replace=False)], minlength=brokers)
        hops = set()
        for target in np.flatnonzero(local).tolist():
            while target != entry:
                hops.add((trees[entry][target], target))
                target = trees[entry][target]
        spent = dict.fromkeys({entry} | {child for _, child in hops}, SERVER.t_rcv)
        for parent, child in hops:
            spent[parent] += SERVER.t_tx
            over[min(parent, child), max(parent, child)] += 1
        for target in {entry, *np.flatnonzero(local).tolist()}:
            spent[target] += filtering[target] + local[target] * SERVER.t_tx
        for broker, seconds in spent.items():
            services[broker].append(seconds)
    return services, sum(over.values()) / messages, max(over.values()) / messages


@pytest.mark.parametrize("topology", ["ring", "star", "line"])
@pytest.mark.parametrize(
    ("spread", "match", "grades"),
    [("all-or-none", 0.2, None), ("fixed", 0.25, None), ("binomial", 0.1, None), ("binomial", 0.01, MEASURED)],
)
def test_a_network_against_a_simulation(spread: str, match: float, grades: Replication | None, topology: str) -> None:
    question = SizingQuestion(
        SERVER, 12, match_probability=match, spread=spread, grades=grades, brokers=5, topology=topology
    )
    services, copies, busiest = simulated(question.replication, 12, 5, topology)
    work = [sum(each) / 6000 for each in services]
    found = plan_capacity(replace(question, rate=0.5 / max(work))).network
    assert found is not None
    assert found.link_copies == pytest.approx(copies, rel=0.05)
    assert found.busiest_link_bytes is not None
    assert found.busiest_link_bytes == pytest.approx(busiest * HEADER_BYTES * 0.5 / max(work), rel=0.08)
    assert found.capacity == pytest.approx(0.9 / max(work), rel=0.05)


@pytest.mark.parametrize("topology", ["star", "line"])
@pytest.mark.parametrize(
    "replication",
    [ScaledBernoulli(12, 0.05), ScaledBernoulli(12, 0.6), Deterministic(3.0), MEASURED, Binomial(12, 0.1)],
)
def test_waiting_in_a_network_against_simulated_services(replication: Replication, topology: str) -> None:
    """Of three brokers in a line, or a star, which is one: a message waits for all of them on the longest way."""
    services, _, _ = simulated(replication, 12, 3, topology)
    work = [sum(each) / 6000 for each in services]
    rate = 0.6 / max(work)
    wanted = 0.0
    for each in services:
        handled, square = len(each) / 6000, float(np.mean(np.square(each)))
        wanted += rate * handled * square / (2 * (1 - rate * sum(each) / 6000))
    receivers, links = Receivers.of(replication, 12), links_of(topology, 3)
    sites = [Site(4, receivers.reached(4), float(receivers.among(4).first), clients=4, local=receivers.among(4))] * 3
    load = bdrp(SERVER, sites, links, reached=receivers.reached)
    found = network_waiting(SERVER, sites, links, load, replication.moments(), rate)
    assert found.mean == pytest.approx(wanted, rel=0.12)
