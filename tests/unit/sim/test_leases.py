"""Two processes of one broker with one lease: what each promise takes is taken out, and the simulation notices."""

import pytest
from hardening.simulate.leases.mutants import LEASE_MUTANTS
from hardening.simulate.planting import Mutant, first_noticed
from hardening.simulate.run import run

QUICK = 20  # seeds in which each mutant is noticed


@pytest.mark.parametrize("mutant", LEASE_MUTANTS, ids=lambda one: one.name)
def test_seeded_defects_are_noticed(mutant: Mutant) -> None:
    notice = first_noticed(mutant, range(mutant.seed, mutant.seed + QUICK))
    assert notice is not None
    assert notice.checker != "internal error"


@pytest.mark.parametrize("first", [1, 31])
def test_one_of_two_processes_serves_and_nothing_confirmed_is_lost(first: int) -> None:
    outcomes = [run(seed, world="leases") for seed in range(first, first + 10)]
    assert sum(one.deliveries for one in outcomes) > 500
    assert sum(one.transactions for one in outcomes) > 20, "it was taken over"


@pytest.mark.parametrize("seed", [105, 206, 333])
def test_what_was_wrong_once_stays_right(seed: int) -> None:
    """Transactions that were refused, and whose acknowledgements counted all the same."""
    assert run(seed, world="leases").deliveries > 10
