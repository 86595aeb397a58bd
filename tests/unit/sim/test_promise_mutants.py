"""What keeps order and once is taken out, one by one: the simulation notices; docs/networks.md has the first seeds."""

import pytest
from hardening.simulate.planting import Mutant, first_noticed
from hardening.simulate.promise_mutants import PROMISE_MUTANTS
from hardening.simulate.run import run

QUICK = 20  # seeds in which each mutant is noticed


@pytest.mark.parametrize("mutant", PROMISE_MUTANTS, ids=lambda one: one.name)
def test_seeded_defects_are_noticed(mutant: Mutant) -> None:
    notice = first_noticed(mutant, range(mutant.seed, mutant.seed + QUICK))
    assert notice is not None
    assert notice.checker != "internal error"


@pytest.mark.parametrize("first", [1, 11])
def test_brokers_whose_disk_is_replaced_or_restored_keep_what_is_left_of_the_promises(first: int) -> None:
    outcomes = [run(seed, world="disks") for seed in range(first, first + 10)]
    assert sum(one.deliveries for one in outcomes) > 1000
