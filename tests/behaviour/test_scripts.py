"""Random client scripts at the simulated broker and at the real one: a sample; `make differential` runs many."""

from collections import Counter

import pytest
from hardening.differential.author import write_script
from hardening.differential.compare import compare, run
from hardening.differential.script import Restart, Send, Tick

SEEDS = range(1, 61)
REGRESSIONS = (922,)  # a trace and a large message in one write: the simulator's archive once answered at once


@pytest.mark.parametrize("first", SEEDS[::10])
def test_both_answer_alike(first: int) -> None:
    for seed in range(first, first + 10):
        run(seed)


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_once_differed(seed: int) -> None:
    run(seed)


def test_scripts_do_what_clients_do() -> None:
    """Were most requests refused, or nothing delivered, agreement would mean little."""
    seen = sum((run(seed) for seed in SEEDS[:20]), Counter[str]())
    assert seen["deliver"] > 150
    assert seen["accepted"] > 300
    assert seen["error"] + seen["refused"] < seen["ok"] / 2
    steps = [step for seed in SEEDS for step in write_script(seed).steps]
    assert {type(step) for step in steps} == {Send, Tick, Restart}
    assert any(step.leaves for step in steps if isinstance(step, Send))


def test_a_seed_is_a_script() -> None:
    assert write_script(7) == write_script(7) != write_script(8)


def test_a_difference_is_told() -> None:
    with pytest.raises(AssertionError, match=r"step 3, client 0: simulated \('ok',\), real None"):
        compare(3, {0: [("open",), ("ok",)]}, {0: [("open",)]})
