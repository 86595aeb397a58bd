from random import Random

import pytest

from tidings.overlay.topology.generate import waxman
from tidings.routing.covering.spanning import spanning_tree


@pytest.mark.parametrize("seed", range(10))
def test_all_brokers_find_the_same_tree(seed: int) -> None:
    rng = Random(seed)
    links = [(int(edge.a), int(edge.b), rng.randrange(1, 5)) for edge in waxman(12, rng).edges()]
    trees = []
    for router in range(1, 13):
        rng.shuffle(links)
        trees.append(spanning_tree(router, [rng.choice(((a, b, c), (b, a, c))) for a, b, c in links]))
    assert len({tree.epoch for tree in trees}) == 1
    edges = trees[0].edges
    assert len(edges) == 11
    reached = {1}
    for _ in edges:
        reached |= {end for edge in edges if reached & set(edge) for end in edge}
    assert reached == set(range(1, 13))  # so the 11 edges are a tree
    for router, tree in enumerate(trees, 1):
        assert set(tree.neighbours) == {a + b - router for a, b in edges if router in (a, b)}


def test_parts_have_trees_of_their_own() -> None:
    left, right = (spanning_tree(router, [(1, 2, 1), (3, 4, 1)]) for router in (1, 4))
    assert (left.neighbours, right.neighbours) == ((2,), (3,))
    assert left.epoch != right.epoch
    assert spanning_tree(9, [(1, 2, 1)]).neighbours == ()
