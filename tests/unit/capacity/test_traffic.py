"""Receivers of a turn: the formulas against all messages drawn by chance."""

from dataclasses import replace

import numpy as np
import pytest

from tidings.capacity.traffic import TERMS, Interests, Traffic, row, seconds_of
from tidings.errors import UsageError


def drawn(interests: Interests, k: int, rng: np.random.Generator, turns: int = 40_000) -> tuple[float, float, float]:
    """Of turns of k messages: mean copies, mean receivers reached, share without receivers (but for the constant)."""
    m = int(interests.subscribers)
    if interests.grades:
        counts = rng.choice(
            len(interests.grades), size=(turns, k), p=np.array(interests.grades) / sum(interests.grades)
        )
        ranks = rng.random((turns, k, m)).argsort(axis=2)
        hits = ranks < counts[:, :, None]
    elif interests.together:
        hits = np.repeat(rng.random((turns, k, 1)) < interests.match, m, axis=2)
    else:
        hits = rng.random((turns, k, m)) < interests.match
    reached = hits.any(axis=1).sum(axis=1)
    always = interests.always
    return hits.sum() / turns + k * always, reached.mean() + always, float((reached == 0).mean())


@pytest.mark.parametrize(
    "interests",
    [
        Interests(6, 0.2),
        Interests(6, 0.2, always=1),
        Interests(8, 0.3, together=True, always=2),
        Interests(5, 0.0, grades=(2.0, 1.0, 0.0, 0.0, 3.0)),
    ],
)
@pytest.mark.parametrize("k", [1, 3])
def test_copies_and_connections_of_a_turn(interests: Interests, k: int) -> None:
    copies, reached, nobody = drawn(interests, k, np.random.default_rng(k))
    assert k * interests.mean == pytest.approx(copies, rel=0.02)
    assert float(interests.reached(np.array([float(k)]))[0]) == pytest.approx(reached, rel=0.02)
    assert interests.nobody**k == pytest.approx(nobody, abs=0.01)


@pytest.mark.parametrize(("publishers", "in_flight"), [(1, 1), (1, 50), (7, 7), (7, 70), (5, 30)])
def test_reads_are_the_connections_that_messages_come_over(publishers: int, in_flight: int) -> None:
    rng, traffic = np.random.default_rng(1), Traffic(publishers=publishers, in_flight=in_flight)
    for k in (1, 4, 30):
        if k <= in_flight:
            turns = [rng.permutation(in_flight)[:k] % publishers for _ in range(4000)]
            distinct = np.mean([len(set(one.tolist())) for one in turns])
            assert float(traffic.reads(np.array([float(k)]))[0]) == pytest.approx(distinct, rel=0.02)
    assert float(traffic.reads(np.array([1e12]))[0]) == publishers


def test_writes_follow_each_read() -> None:
    rng, interests = np.random.default_rng(2), Interests(6, 0.3, always=1)
    traffic, k = Traffic(interests=interests, publishers=4, in_flight=4), np.array([4.0])
    one_by_one = np.mean([1 + (rng.random(6) < 0.3).sum() for _ in range(20_000)])
    assert float(traffic.writes(k)[0]) == pytest.approx(4 * one_by_one, rel=0.02)
    together = replace(traffic, publishers=1)
    assert float(together.writes(k)[0]) == pytest.approx(float(interests.reached(k)[0]))


def test_a_row_is_what_a_turn_takes_per_message() -> None:
    traffic = Traffic("stomp", True, 500, 4, 120, 3, Interests(10, 0.3, always=1), 4, 60)
    values = np.linspace(1e-6, 5e-6, len(TERMS))
    seconds = float(seconds_of(traffic, values.tolist(), np.array([12.0]))[0])
    assert float(row(traffic, 12.0) @ values) == pytest.approx(seconds / 12)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="2 subscribers"):
        Interests(2, 0.1, grades=(1, 1, 1, 1))
    with pytest.raises(UsageError, match="at least one message"):
        Interests(2, 0.1, grades=(0, 0))
    for wrong in ({"body": -1.0}, {"publishers": 0}, {"in_flight": 0.5}):
        with pytest.raises(UsageError):
            Traffic(**wrong)
