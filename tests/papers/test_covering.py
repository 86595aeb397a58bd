"""Properties and algorithms of the paper on selective pruning, by its sections."""

from random import Random

import pytest
from hardening.machines.covering import check_borders, random_filter

from tidings.errors import UsageError
from tidings.kernel.codec import decode_message, encode_message
from tidings.model.constraint import Constraint, Op
from tidings.model.covering import covers, intersects
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.overlay.topology.generate import line, random_tree
from tidings.overlay.topology.graph import Graph, shortest_path
from tidings.routing.covering import POLICIES
from tidings.routing.covering.messages import (
    AdvertisementId,
    CoveringAdvertise,
    CoveringHandOver,
    CoveringPublication,
    CoveringSubscribe,
    CoveringUnsubscribe,
    FilterId,
    Prune,
)
from tidings.routing.covering.selective import Selective, SelectiveOptions
from tidings.sim.covering import CoveringNetwork

SEEDS = range(25)


def x_range(low: int, high: int) -> Predicate:
    return Predicate.of(Constraint("x", Op.GE, low), Constraint("x", Op.LE, high))


def publication(advertisement: AdvertisementId, x: int, name: str = "a") -> CoveringPublication:
    message = encode_message(Message(Destination("t"), {"x": x, "class": name}))
    return CoveringPublication(advertisement, 0, 0, message)


class Town:
    """A random tree with advertisements and subscriptions at random brokers."""

    def __init__(self, seed: int, policy: str, subscriptions: int = 0) -> None:
        rng = Random(seed)
        self.rng = rng
        self.graph = random_tree(rng.randint(3, 20), rng)
        self.handed: list[CoveringHandOver] = []
        self.network = CoveringNetwork(self.graph, POLICIES[policy], on_hand=lambda _, hand: self.handed.append(hand))
        self.network.calendar.run()
        self.routers = list(self.network.brokers)
        self.advertisements: dict[AdvertisementId, Predicate] = {}
        self.subscriptions: dict[FilterId, Predicate] = {}
        for number in range(rng.randint(1, 6)):
            id = AdvertisementId(rng.choice(self.routers), number)
            self.advertisements[id] = random_filter(rng)
            self.tell(id.router, CoveringAdvertise(id, self.advertisements[id]))
        for _ in range(subscriptions):
            self.subscribe(rng.choice(self.routers), random_filter(rng))

    def tell(
        self, router: int, message: CoveringAdvertise | CoveringSubscribe | CoveringUnsubscribe | CoveringPublication
    ) -> None:
        self.network.tell(router, message)
        self.network.calendar.run()

    def subscribe(self, router: int, filter: Predicate) -> FilterId:
        id = FilterId(router, len(self.subscriptions))
        self.subscriptions[id] = filter
        self.tell(router, CoveringSubscribe(id, filter))
        return id

    def reached(self, id: FilterId) -> set[int]:
        """The brokers that have the subscription in their tables."""
        return {router for router, one in self.network.brokers.items() if id in one.machine.table.entries}

    def path(self, a: int, b: int) -> set[int]:
        return {int(node) for node in shortest_path(self.graph, a, b)}


@pytest.mark.parametrize("seed", SEEDS)
def test_3a_property_1_without_covering_propagation_is_the_tree_to_the_publishers(seed: int) -> None:
    town = Town(seed, "none", subscriptions=8)
    for id, filter in town.subscriptions.items():
        paths = [
            town.path(id.router, adv.router)
            for adv, offered in town.advertisements.items()
            if intersects(offered, filter)
        ]
        assert town.reached(id) == {id.router}.union(*paths)


@pytest.mark.parametrize("policy", ["active", "lazy", "packing", "selective"])
@pytest.mark.parametrize("seed", SEEDS)
def test_3a_property_2_with_covering_propagation_is_part_of_the_path_between_the_subscribers(
    seed: int, policy: str
) -> None:
    town = Town(seed, policy)
    wide = random_filter(town.rng)
    root = town.subscribe(town.rng.choice(town.routers), wide)
    tree = {root.router}.union(
        *(
            town.path(root.router, adv.router)
            for adv, offered in town.advertisements.items()
            if intersects(offered, wide)
        )
    )
    assert town.reached(root) == tree
    for _ in range(10):
        narrow = random_filter(town.rng)
        if not covers(wide, narrow):
            continue
        other = town.subscribe(town.rng.choice(town.routers), narrow)
        between = town.path(other.router, root.router)
        reached = town.reached(other)
        assert reached <= between
        assert town.reached(root) == tree
        length = max(len(town.path(other.router, at)) for at in reached)
        assert length == len(reached), "a path has no gaps"


@pytest.mark.parametrize("seed", SEEDS)
def test_3c_property_3_similarity_never_decreases_towards_the_publisher(seed: int) -> None:
    """φ at a broker: of what matches S, the share that matches something else known there that is not S."""
    town = Town(seed, "active", subscriptions=25)
    told = range(13)
    for root, wide in town.subscriptions.items():
        if any(covers(other, wide) for id, other in town.subscriptions.items() if id != root):
            continue
        for adv, offered in town.advertisements.items():
            points = [(x, name) for x in told for name in "ab" if offered.matches({"x": x, "class": name})]
            through = [(x, name) for x, name in points if wide.matches({"x": x, "class": name})]
            if not through:
                continue
            before = 0.0
            for router in shortest_path(town.graph, root.router, adv.router):
                entries = town.network.brokers[int(router)].machine.table.entries
                others = [entry.filter for id, entry in entries.items() if id != root]
                # Those that S quenched on the way here are its NRS too: they are why S is here.
                quenched = [
                    filter
                    for id, filter in town.subscriptions.items()
                    if id != root and int(router) in town.path(id.router, adv.router) and covers(wide, filter)
                ]
                kept = [
                    (x, name)
                    for x, name in through
                    if any(one.matches({"x": x, "class": name}) for one in (*others, *quenched))
                ]
                similarity = len(kept) / len(through)
                assert similarity >= before
                before = similarity


def test_4a_distance_and_count_as_in_figure_4() -> None:
    """A ─ B ─ C ─ D ─ E: alone at B, two at C, then alone again; the subscriber at E is two hops from the other."""
    graph = line(5)
    graph.add(3, 6)
    handed: list[tuple[int, CoveringHandOver]] = []
    network = CoveringNetwork(graph, Selective, on_hand=lambda router, hand: handed.append((router, hand)))
    network.calendar.run()
    offered = AdvertisementId(1, 1)
    network.tell(1, CoveringAdvertise(offered, x_range(0, 9)))
    network.calendar.run()
    network.tell(5, CoveringSubscribe(FilterId(5, 1), x_range(0, 9)))
    network.tell(6, CoveringSubscribe(FilterId(6, 1), x_range(0, 4)))
    network.calendar.run()
    for x in (2, 7):
        network.tell(1, publication(offered, x))
        network.calendar.run()
    found = [(router, hand.publication.distance, hand.publication.count) for router, hand in handed]
    assert sorted(found) == [(5, 2, 1), (5, 4, 0), (6, 1, 1)]
    policy = network.brokers[5].machine.policy
    assert isinstance(policy, Selective)
    assert policy.window.prune_hops(FilterId(5, 1), 0.5) == {offered: 3}


def pruned_line(phi: float = 0.5, count_small: int = 0, depth: float = 3.0) -> tuple[CoveringNetwork, AdvertisementId]:
    """A publisher at 1, S at 6, what S covers at 7 next to 5: S alone reaches from 5 on to the publisher."""
    graph = line(6)
    graph.add(5, 7)
    options = SelectiveOptions(phi=phi, count_small=count_small, bucket_depth=depth)
    network = CoveringNetwork(graph, lambda: Selective(options))
    network.calendar.run()
    offered = AdvertisementId(1, 1)
    network.tell(1, CoveringAdvertise(offered, x_range(0, 99)))
    network.calendar.run()
    network.tell(6, CoveringSubscribe(FilterId(6, 1), x_range(0, 99)))
    network.calendar.run()
    for number in range(8):
        network.tell(7, CoveringSubscribe(FilterId(7, number), x_range(10 * number, 10 * number + 9)))
    network.calendar.run()
    for x in range(100):
        network.tell(1, publication(offered, x))
    network.calendar.run()
    return network, offered


def have(network: CoveringNetwork, id: FilterId) -> list[int]:
    return [router for router, one in network.brokers.items() if id in one.machine.table.entries]


def test_4b_algorithm_1_prunes_up_to_the_critical_broker_and_preserves_beyond() -> None:
    network, offered = pruned_line()
    root = FilterId(6, 1)
    assert have(network, root) == [1, 2, 3, 4, 5, 6]
    policy = network.brokers[6].machine.policy
    assert isinstance(policy, Selective)
    assert policy.window.prune_hops(root, 0.5) == {offered: 2}  # at 5, one hop away, eight in ten met another
    network.tell(6, CoveringUnsubscribe(root))
    network.calendar.run()
    assert have(network, root) == [1, 2, 3]
    assert list(network.brokers[4].machine.borders[3].preserved) == [root]
    assert have(network, FilterId(7, 3)) == [4, 5, 7]
    check_borders(network)


def test_4b_where_no_congestion_is_to_be_expected_nothing_is_preserved() -> None:
    network, _ = pruned_line(count_small=1)
    network.tell(6, CoveringUnsubscribe(FilterId(6, 1)))
    network.calendar.run()
    assert have(network, FilterId(6, 1)) == []
    assert have(network, FilterId(7, 3)) == [1, 2, 3, 4, 5, 7]
    check_borders(network)


def test_4b_hops_are_counted_for_each_advertisement() -> None:
    """Algorithm 1, lines 4 to 8: only tuples of advertisements from that neighbour, one hop less each."""
    network, offered = pruned_line()
    machine = network.brokers[5].machine
    other = AdvertisementId(3, 1)
    prunes = (Prune(offered, 1), Prune(other, 5))
    effects = machine.step(0.0, 6, CoveringUnsubscribe(FilterId(6, 1), prunes))
    last = effects[-1]
    assert not isinstance(last, CoveringHandOver)
    assert (last.neighbour, last.message) == (
        4,
        CoveringUnsubscribe(FilterId(6, 1), (Prune(offered, 0),)),
    )


def test_a_preserved_subscription_goes_when_what_it_covers_has_gone() -> None:
    network, _ = pruned_line()
    network.tell(6, CoveringUnsubscribe(FilterId(6, 1)))
    for number in range(8):
        network.calendar.run()
        assert have(network, FilterId(6, 1)) == [1, 2, 3]
        network.tell(7, CoveringUnsubscribe(FilterId(7, number)))
    network.calendar.run()
    assert have(network, FilterId(6, 1)) == []
    assert all(not len(one.machine.table) for one in network.brokers.values())


def test_false_positives_are_bounded_and_corrected_hop_by_hop() -> None:
    """Traffic turns to what nobody wants any more: the preserved subscription retreats to the publisher."""
    phi, depth = 0.5, 3.0
    network, offered = pruned_line(phi, depth=depth)
    root = FilterId(6, 1)
    network.tell(6, CoveringUnsubscribe(root))
    network.calendar.run()
    left = []
    for number in range(40):
        network.tell(1, publication(offered, 90 + number % 10))  # only S wanted these
        network.calendar.run()
        left.append(have(network, root))
        check_borders(network)
    stages = list(dict.fromkeys(map(tuple, left)))
    assert stages == [(1, 2, 3), (1, 2), (1,), ()]
    for router in (2, 3, 4):
        vain = network.brokers[router].machine.publications_in_vain
        assert 0 < vain <= (1 - phi) * vain + depth + 1
    assert have(network, FilterId(7, 3)) == [1, 2, 3, 4, 5, 7]


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_missed_while_a_root_is_replaced(policy: str) -> None:
    """New roots travel before the unsubscription: publications close together find no gap at any hop."""
    handed: list[int] = []
    graph = Graph()
    for node in range(1, 6):
        graph.add(node, node + 1, latency_ms=10)
    network = CoveringNetwork(
        graph,
        POLICIES[policy],
        jitter=Random(7),
        on_hand=lambda router, hand: handed.append(int(decode_message(hand.publication.message).properties["x"])),
    )
    network.calendar.run()
    offered, root = AdvertisementId(1, 1), FilterId(6, 1)
    network.tell(1, CoveringAdvertise(offered, x_range(0, 1000)))
    network.calendar.run()
    network.tell(6, CoveringSubscribe(root, x_range(0, 1000)))
    network.calendar.run()
    for number in range(5):
        network.tell(6, CoveringSubscribe(FilterId(6, 2 + number), x_range(200 * number, 200 * number + 199)))
    network.calendar.run()
    start = network.calendar.now
    network.calendar.at(start + 50, network.tell, 6, CoveringUnsubscribe(root))
    for number in range(1000):
        network.calendar.at(start + number * 0.3, network.tell, 1, publication(offered, number))
    network.calendar.run()
    once = [x for x in range(1000) if handed.count(x) >= 1]
    assert once == list(range(1000))
    check_borders(network)


def test_publications_must_be_advertised() -> None:
    network, offered = pruned_line()
    for id, x in ((offered, 100), (AdvertisementId(1, 9), 5)):
        with pytest.raises(UsageError, match="E_COVERING_UNADVERTISED"):
            network.tell(1, publication(id, x))
    with pytest.raises(UsageError, match="E_COVERING_ID"):
        network.tell(1, CoveringUnsubscribe(FilterId(1, 1)))
    with pytest.raises(UsageError, match="E_COVERING_ID"):
        network.tell(6, CoveringSubscribe(FilterId(6, 1), x_range(0, 1)))
