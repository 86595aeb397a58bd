"""MQTT clients, delayed messages, groups and last values in a network with faults; planted defects are noticed."""

import pytest
from hardening.simulate.mqtt_mutants import MQTT_MUTANTS
from hardening.simulate.planting import Mutant, first_noticed
from hardening.simulate.run import run

QUICK = 10  # seeds in which each mutant is noticed


@pytest.mark.parametrize("first", [1, 6])
def test_sessions_delays_groups_and_last_values_keep_their_promises(first: int) -> None:
    outcomes = [run(seed, world="mqtt") for seed in range(first, first + 5)]
    assert sum(one.deliveries for one in outcomes) > 1000


@pytest.mark.parametrize("mutant", MQTT_MUTANTS, ids=lambda one: one.name)
def test_seeded_defects_are_noticed(mutant: Mutant) -> None:
    notice = first_noticed(mutant, range(mutant.seed, mutant.seed + QUICK))
    assert notice is not None
    assert notice.checker != "internal error"
