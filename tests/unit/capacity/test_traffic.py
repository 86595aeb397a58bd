"""Receivers of a turn: the formulas against all messages drawn by chance."""

from dataclasses import replace

import numpy as np
import pytest

import tidings.capacity.traffic as traffic_module
from tidings.broker.connections import output_flush
from tidings.broker.tuning import read_moderation
from tidings.capacity.traffic import FLUSH_BYTES, READ_BYTES, TERMS, Interests, Traffic, row, seconds_of
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
    assert float(traffic.reads(np.array([100.0]))[0]) == pytest.approx(publishers)


def test_a_read_is_no_larger_than_its_buffer() -> None:
    traffic = Traffic(body=16_000 - 70, in_flight=100)
    assert float(traffic.reads(np.array([40.0]))[0]) == pytest.approx(40 * 16_000 / READ_BYTES)
    assert float(traffic.read_size(np.array([40.0]))[0]) == pytest.approx(READ_BYTES / 16_000)


def test_sizes_at_which_the_broker_gathers_output_are_those_of_the_broker() -> None:
    assert traffic_module.SMALL_READ_BYTES == read_moderation.SMALL_READ_BYTES
    assert traffic_module.FLUSH_BYTES == output_flush.FLUSH_BYTES


def test_output_of_large_reads_is_gathered_until_too_much_waits() -> None:
    interests, turn = Interests(10, 1.0), np.array([40.0])
    small, large, huge = (
        Traffic(interests=interests, body=body, publishers=4, in_flight=40) for body in (0, 2000, 9000)
    )
    assert float(small.writes(turn)[0]) == pytest.approx(4 * 10, rel=0.1)
    assert float(large.writes(turn)[0]) == pytest.approx(10, rel=0.01)
    assert float(huge.writes(turn)[0]) == pytest.approx(10 * 40 * 10 * huge.size / FLUSH_BYTES, rel=0.01)


def test_subscribers_of_persistent_messages_get_those_of_a_commit_at_once_and_answer() -> None:
    traffic = Traffic(persistent=True, interests=Interests(3, 1.0), publishers=5, in_flight=50)
    k = np.array([traffic.turn_size(1.0)])
    assert float(k[0]) == 25.5
    assert float(traffic.writes(k)[0]) == 3
    factors = dict(zip(TERMS, row(traffic, float(k[0])), strict=True))
    assert factors["answer"] == pytest.approx(3 / 25.5)
    assert factors["receipt"] == pytest.approx(5 / 25.5, rel=0.02)


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
