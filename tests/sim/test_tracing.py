"""Tracking over simulated networks of whole brokers; `python -m tidings.testing.tracing 1 1000` for more."""

import pytest

from tidings.testing.tracing import run


@pytest.mark.parametrize("seed", [1, 2, 6, 7, 30, 34, 35, 36])
def test_nobody_who_got_a_message_is_missing_from_its_path(seed: int) -> None:
    one = run(seed)
    assert len(one.paths) > 20
    assert sum(len(path.subscribers) for path in one.paths) > 20


@pytest.mark.parametrize("policy", ["selective", "lazy"])
def test_the_same_holds_under_covering(policy: str) -> None:
    one = run(2, policy)
    assert len(one.paths) > 20
    assert sum(len(path.subscribers) for path in one.paths) > 20
