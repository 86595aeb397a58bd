import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.capacity import thesis
from tidings.capacity.processing import Fitted, Load
from tidings.capacity.replication import Site, bdrp, broker_match_probability, publisher_side, shortest_path_trees
from tidings.errors import UsageError

SERVER = thesis.ACTIVEMQ_PROPERTY
SQUARE = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]  # four sites and one diagonal


def test_one_broker_is_the_single_server() -> None:
    load = bdrp(SERVER, [Site(100, 0.3, 7.0)], [])
    assert load.work[0] == pytest.approx(SERVER.processing_time(Load(100, 7.0)))
    assert load.capacity(0.9) == pytest.approx(SERVER.capacity(Load(100, 7.0), 0.9))
    assert (load.receives, load.link_copies, load.targets) == (1, 0, 0)


def test_two_brokers_by_hand() -> None:
    server = Fitted.of("base", t_rcv=1, t_fltr=2, t_tx=10)
    load = bdrp(server, [Site(3, 0.5, 1.0, entry=1), Site(5, 0.25, 2.0, entry=0)], [(0, 1)], t_entry=100, t_link=1000)
    # Broker 0: receive, encoded match, its 3 filters, a copy over the link in a quarter of all cases, one client.
    assert load.work[0] == pytest.approx(1 + 100 + 3 * 2 + 0.25 * 1000 + 1 * 10)
    # Broker 1: in a quarter of all cases receive and match its 5 filters; two clients on average.
    assert load.work[1] == pytest.approx(0.25 * (1 + 5 * 2) + 2 * 10)
    assert load.bottleneck == 0
    assert load.utilisations(0.001) == pytest.approx((0.367, 0.02275))


def test_a_line_passes_messages_through_brokers_that_do_not_match() -> None:
    server = Fitted.of("base", t_rcv=1, t_fltr=2, t_tx=10)
    sites = [Site(0, 0.0, 0.0, 1), Site(7, 0.0, 0.0, 0), Site(0, 1.0, 1.0, 0)]
    load = bdrp(server, sites, [(0, 1), (1, 2)])
    assert load.work == pytest.approx((1 + 10, 1 + 10, 1 + 10))  # the one in the middle filters nothing
    assert (load.receives, load.link_copies, load.targets) == pytest.approx((3, 2, 1))


def test_broker_replication_of_the_scale_out_scenario() -> None:
    # 80 clients on 8 brokers, 4.2 clients match a message: 3.3 brokers do.
    q = broker_match_probability(10, 4.2 / 80)
    assert 8 * q == pytest.approx(3.3, abs=0.05)
    assert broker_match_probability(0, 1.0) == 0
    assert broker_match_probability(3, 1.0) == 1


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[Site], list[tuple[int, int]]]:
    count = draw(st.integers(1, 5))
    share = st.floats(0, 1)
    sites = [
        Site(draw(st.integers(0, 100)), draw(share), draw(st.floats(0, 5)), draw(st.floats(0.1, 1)))
        for _ in range(count)
    ]
    tree = [(draw(st.integers(0, i - 1)), i) for i in range(1, count)]
    more = [pair for pair in itertools.combinations(range(count), 2) if draw(st.booleans())]
    return sites, tree + more


def by_enumeration(sites: list[Site], links: list[tuple[int, int]], t_entry: float, t_link: float) -> list[float]:
    """Every entry and every set of matching brokers, each message followed along its paths."""
    count = len(sites)
    trees = shortest_path_trees(links, count)
    total = sum(site.entry for site in sites)
    work = [site.replication * SERVER.t_tx for site in sites]
    for entry, matched in itertools.product(range(count), itertools.product((False, True), repeat=count)):
        chance = sites[entry].entry / total
        for site, match in zip(sites, matched, strict=True):
            chance *= site.match_probability if match else 1 - site.match_probability
        hops = set()
        for target in (i for i in range(count) if matched[i] and i != entry):
            while target != entry:
                hops.add((trees[entry][target], target))
                target = trees[entry][target]
        for i, site in enumerate(sites):
            filtering = SERVER.filtering(Load(site.filters))
            if i == entry:
                work[i] += chance * (SERVER.t_rcv + t_entry + filtering)
            elif matched[i]:
                work[i] += chance * filtering
        for sender, receiver in hops:
            work[sender] += chance * t_link
            work[receiver] += chance * SERVER.t_rcv
    return work


@given(networks(), st.floats(0, 1e-4), st.floats(0, 1e-4))
def test_bdrp_work_against_enumeration(
    network: tuple[list[Site], list[tuple[int, int]]], t_entry: float, t_link: float
) -> None:
    sites, links = network
    load = bdrp(SERVER, sites, links, t_entry, t_link)
    assert np.array(load.work) == pytest.approx(np.array(by_enumeration(sites, links, t_entry, t_link)))
    assert load.receives == pytest.approx(1 + load.link_copies)
    assert load.link_copies >= load.targets - 1e-9
    busiest = max(load.utilisations(load.capacity(0.9)))
    assert busiest == pytest.approx(0.9)


def test_more_brokers_carry_more_when_interests_are_selective() -> None:
    capacities = []
    for brokers, links in ((1, []), (2, [(0, 1)]), (4, SQUARE)):
        q = broker_match_probability(80 // brokers, 4.2 / 80)
        sites = [Site(1600 / brokers, q, 4.2 / brokers) for _ in range(brokers)]
        capacities.append(bdrp(SERVER, sites, links).capacity(0.9))
    assert capacities == sorted(capacities)
    assert capacities[2] > 1.5 * capacities[0]


def test_publisher_side_grows_with_publishers() -> None:
    one, ten = (publisher_side(SERVER, n, 50, 10, 1) for n in (1, 10))
    assert ten == pytest.approx(10 * one)


def test_trees_are_shortest_paths() -> None:
    trees = shortest_path_trees(SQUARE, 4)
    assert trees[1] == [1, 1, 1, 0]
    assert trees[3] == [3, 0, 3, 3]


def test_impossible_networks_are_refused() -> None:
    site = Site(1, 0.5, 1)
    for call in (
        lambda: bdrp(SERVER, [], []),
        lambda: bdrp(SERVER, [site, site], []),
        lambda: bdrp(SERVER, [site, site], [(0, 2)]),
        lambda: bdrp(SERVER, [site, site], [(0, 0)]),
        lambda: bdrp(SERVER, [Site(1, 0.5, 1, entry=0)], []),
        lambda: bdrp(SERVER, [site], [], t_entry=-1),
        lambda: Site(1, 1.5, 1),
        lambda: publisher_side(SERVER, 0, 1, 1, 1),
    ):
        with pytest.raises(UsageError):
            call()
