"""The kernel's tree of boxes answers as the plain one, and stays shallow in any order of insertion."""

from collections.abc import Callable
from math import log2
from random import Random

import pytest
from hardening.contracts.reference_box_tree import Box, ReferenceBoxTree

from tidings.errors import UsageError
from tidings.kernel.box_tree import BoxTree
from tidings.model.value_set import FLOORS, Key, key_bytes

NAMES = ("a", "b", "c", "d")


def random_end(rng: Random) -> Key:
    kind = rng.choice((1, 1, 1, 2, 2, 0, 3))
    match kind:
        case 0:
            return (0, rng.random() < 0.5)
        case 1:
            return (1, rng.choice((rng.randrange(40), rng.random() * 40)))
        case 2:
            return (2, "".join(rng.choices("xy", k=rng.randrange(4))))
        case _:
            return rng.choice(FLOORS)


def random_box(rng: Random) -> Box:
    box: Box = []
    for name in rng.sample(NAMES, rng.randrange(len(NAMES))):
        low, high = sorted((key_bytes(random_end(rng)), key_bytes(random_end(rng))))
        box.append((name, None, None) if rng.random() < 0.1 else (name, low, high + b"\0" * (low == high)))
    return box


@pytest.mark.parametrize("seed", range(8))
def test_answers_are_those_of_a_scan(seed: int) -> None:
    rng, tree, plain = Random(seed), BoxTree(), ReferenceBoxTree()
    known: list[int] = []
    for number in range(1500):
        box = random_box(rng)
        for one in (tree, plain):
            one.add(number, box)
        known.append(number)
        if rng.random() < (0.8 if 500 < number < 1000 else 0.2):
            gone = known.pop(rng.randrange(len(known)))
            for one in (tree, plain):
                one.remove(gone)
        if number % 10 == 0:
            asked = [*random_box(rng), *([("unknown", b"\2", b"\3")] if rng.random() < 0.1 else [])]
            for question in ("containing", "within", "meeting"):
                assert sorted(getattr(tree, question)(asked)) == sorted(getattr(plain, question)(asked))
    assert len(tree) == len(plain) == len(known)
    for number in known:
        tree.remove(number)
    assert (len(tree), tree.containing([])) == (0, [])


ORDERS: dict[str, Callable[[Random, int], list[int]]] = {
    "ascending": lambda rng, size: list(range(size)),
    "descending": lambda rng, size: list(range(size))[::-1],
    "shuffled": lambda rng, size: rng.sample(range(size), size),
    "clustered": lambda rng, size: [
        start + step for start in rng.sample(range(0, size, 100), size // 100) for step in range(100)
    ],
    "from both ends": lambda rng, size: [i // 2 if i % 2 else size - i // 2 for i in range(size)],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [0, 40])
def test_depth_grows_with_the_logarithm_in_any_order(order: str, width: int) -> None:
    size, tree = 20_000, BoxTree()
    for id, value in enumerate(ORDERS[order](Random(1), size)):
        tree.add(id, [("acct", key_bytes((1, value)), key_bytes((1, value + width + 0.5)))])
        if id % 5000 == 4999:
            assert tree.depth <= 3 * log2(id)
    asked = [("acct", key_bytes((1, 77)), key_bytes((1, 77.5)))]
    assert len(tree.containing(asked)) == min(77, width) + 1


def test_ids_are_taken_once_and_removed_once() -> None:
    tree = BoxTree()
    tree.add(3, [])
    with pytest.raises(UsageError, match="E_BOX_ID"):
        tree.add(3, [])
    tree.remove(3)
    with pytest.raises(UsageError, match="E_BOX_ID"):
        tree.remove(3)
