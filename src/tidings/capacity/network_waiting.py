"""Waiting time of a message in a B-DRP network, from the same model as the network's capacity (replication.py).

A broker of the network is an M/GI/1 queue of three kinds of messages: those published here (all local filters, its
clients' copies), those sent here because somebody here wants them (the same, and at least one copy), and those that
only pass. What nobody wants ends where it is published; otherwise copies over links are counted by their mean, that of
messages published here and that of others. A message waits at every broker on its way; these waiting times
are taken to be independent, and their sum gets the Gamma-approximation that `tidings.capacity.waiting` has for one of
them: right mean, right variance, right probability of not waiting at all. What is asked for is the longest way, by mean
waiting time, so that no destination waits longer.
"""

from collections.abc import Sequence

import numpy as np

from tidings.capacity.arrays import Array
from tidings.capacity.processing import Fitted
from tidings.capacity.replication import NetworkLoad, Site, shortest_path_trees
from tidings.capacity.service import Moments, service_moments, thinned
from tidings.capacity.waiting import GammaWaiting, waiting_moments

RHO_MIN = 1e-100  # a smaller probability of waiting counts as 0: squares of such numbers underflow


def network_waiting(
    server: Fitted,
    sites: Sequence[Site],
    links: Sequence[tuple[int, int]],
    load: NetworkLoad,
    grades: Moments,
    rate: float,
) -> GammaWaiting:
    """At this many messages a second; `load` is what `bdrp` says of the same network without `t_entry` and `t_link`,
    `grades` the moments of a message's receivers in the whole network. Refuses (E_LAB_OVERLOAD) what is too much."""
    shares = np.array([site.entry for site in sites], dtype=np.float64)
    shares /= shares.sum()
    rows = [_waiting(server, site, shares[at], load, at, grades, rate) for at, site in enumerate(sites)]
    table = np.array(rows)
    way = _longest_way(shortest_path_trees(links, len(sites)), shares, table[:, 1])
    first, variance = table[way, 1].sum(), table[way, 2].sum()
    busy = -float(np.expm1(np.log1p(-table[way, 0]).sum()))  # 1 − Π(1 − ρ), of which little would be left for tiny ρ
    if busy < RHO_MIN:
        return GammaWaiting(busy, 1.0, 1.0)
    mean, square = float(first) / busy, float(variance + first**2) / busy  # of the messages that wait
    alpha = mean**2 / (square - mean**2)
    return GammaWaiting(busy, alpha, mean / alpha)


def _waiting(
    server: Fitted, site: Site, entry: float, load: NetworkLoad, at: int, grades: Moments, rate: float
) -> tuple[float, float, float]:
    """Of one broker: ρ, mean and variance of the waiting time."""
    received, here = load.received[at], load.sent_entered[at]
    if received <= 0:
        return 0.0, 0.0, 0.0
    local = _local(site, grades)
    others = max(received - entry, 0.0)  # sent here by other brokers
    onward = max(load.sent[at] - entry * here, 0.0) / others if others > 0 else 0.0  # copies of one of those
    filtering, target = server.t_rcv + server.filtering(site.load), (1 - entry) * site.match_probability
    passing = server.t_rcv + onward * server.t_tx
    kinds = (
        (entry * (1 - load.wanted), _constant(filtering)),
        (
            entry * load.wanted,
            service_moments(
                filtering + here / (load.wanted or 1.0) * server.t_tx, server.t_tx, _given(local, load.wanted)
            ),
        ),
        (
            target,
            service_moments(filtering + onward * server.t_tx, server.t_tx, _given(local, site.match_probability)),
        ),
        (max(others - target, 0.0), _constant(passing)),
    )
    service = _mixed([(weight / received, moments) for weight, moments in kinds])
    first, second = waiting_moments(rate * received, service)
    return rate * received * float(service.first), float(first), float(second - first**2)


def _local(site: Site, grades: Moments) -> Moments:
    """Copies to clients of this broker, of any message."""
    if site.local is not None:
        return site.local
    share = site.replication / float(grades.first) if float(grades.first) > 0 else 0.0
    return _whole(thinned(grades, min(share, 1.0)))


def _given(local: Moments, probability: float) -> Moments:
    """Of a message that has the chance of local copies at all."""
    chance = probability or 1.0
    return Moments(local.first / chance, local.second / chance, local.third / chance)


def _constant(seconds: float) -> Moments:
    return Moments(seconds, seconds**2, seconds**3)


def _whole(grades: Moments) -> Moments:
    """Of whole numbers squares are no smaller than they: a fixed grade of 0.1 is a copy now and then, never a tenth."""
    second = max(float(grades.second), float(grades.first))
    return Moments(grades.first, second, max(float(grades.third), second))


def _mixed(kinds: Sequence[tuple[float, Moments]]) -> Moments:
    return Moments(
        sum(share * moments.first for share, moments in kinds),
        sum(share * moments.second for share, moments in kinds),
        sum(share * moments.third for share, moments in kinds),
    )


def _longest_way(trees: Sequence[list[int]], shares: Array, means: Array) -> list[int]:
    """The brokers on it, from some broker with publishers to any."""
    best, ends = -1.0, (0, 0)
    for root, parents in enumerate(trees):
        if shares[root] <= 0:
            continue
        sums = _sums(root, parents, means)
        last = int(np.argmax(sums))
        if sums[last] > best:
            best, ends = float(sums[last]), (root, last)
    root, broker = ends
    way = [broker]
    while broker != root:
        broker = trees[root][broker]
        way.append(broker)
    return way


def _sums(root: int, parents: list[int], means: Array) -> Array:
    sums = np.full(len(parents), -1.0)
    sums[root] = means[root]
    for broker in range(len(parents)):
        path = []
        while sums[broker] < 0:
            path.append(broker)
            broker = parents[broker]
        for below in reversed(path):
            sums[below] = sums[parents[below]] + means[below]
    return sums
