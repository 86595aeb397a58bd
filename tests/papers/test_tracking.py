"""Jun and Astley, Low-Overhead Message Tracking for Distributed Messaging: every number we rely on."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tidings.kernel.bloom import BloomFilter, false_positive_probability
from tidings.model.message_id import MessageId
from tidings.tracking.ids import id_array
from tidings.tracking.plan.assistant import fpp_allowed
from tidings.tracking.plan.matching_set import fill_ms, matching_set_max
from tidings.tracking.query.path import PathSearch
from tidings.tracking.recording.clock_skew import SkewWatch
from tidings.tracking.recording.history import BloomHistory, BloomSettings, HistoryEntry, HistoryKind, Key, Mode, efpp
from tidings.tracking.recording.strategies import AsyncStrategy
from tidings.tracking.trace_answer import Statement, TraceAnswer, TraceVerdict

# Table 2: n, m, k and the accuracy they stand for; fpp and efpp to the digits that formulas (1) and (2) give.
CONFIGURATIONS = [
    (2521, 65536, 16, "3.97e-06", "7.93e-06", 0.99999),
    (5461, 65536, 8, "3.14e-03", "6.27e-03", 0.99),
    (7281, 65536, 8, "1.45e-02", "2.87e-02", 0.95),
    (38836, 1048576, 12, "4.56e-06", "9.11e-06", 0.99999),
    (87381, 1048576, 6, "3.71e-03", "7.41e-03", 0.99),
    (131072, 1048576, 6, "2.16e-02", "4.27e-02", 0.95),
]
configurations = pytest.mark.parametrize(("n", "m", "k", "fpp", "with_two", "accuracy"), CONFIGURATIONS)


def message_ids(seed: int, n: int, start_ms: int) -> NDArray[np.uint8]:
    """Ids as 200 publishers of one broker make them: alike in most bytes, not random."""
    rng = np.random.default_rng(seed)
    words = np.empty((n, 2), dtype=">u8")
    words[:, 0] = rng.integers(1, 201, n, dtype=np.uint64) << np.uint64(32) | np.uint64(1)
    words[:, 1] = (np.uint64(start_ms) + np.arange(n, dtype=np.uint64) // np.uint64(5)) << np.uint64(16)
    words[:, 1] |= np.arange(n, dtype=np.uint64) % np.uint64(5)
    return words.view(np.uint8).reshape(-1, 16)


@configurations
def test_4_1_eq_1_and_2_accuracy_to_the_printed_digits(
    n: int, m: int, k: int, fpp: str, with_two: str, accuracy: float
) -> None:
    settings = BloomSettings(n, m, k)
    assert f"{settings.fpp:.2e}" == fpp
    assert f"{efpp([settings.fpp] * 2):.2e}" == with_two
    assert 1 - efpp([settings.fpp] * 2) >= accuracy


@configurations
def test_4_1_measured_on_a_million_queries(n: int, m: int, k: int, fpp: str, with_two: str, accuracy: float) -> None:
    queries, filters, found = 250_000, 8, 0
    for seed in range(filters):
        held = BloomFilter(m, k)
        held.add(message_ids(seed, n, 10**12))
        found += int(held.contains(message_ids(seed + 100, queries, 2 * 10**12)).sum())
    mean = queries * filters * held.fpp()
    # Fills differ between filters too: by the delta method that adds k·σ(fill)/fill of the rate.
    fill = held.fill()
    between = mean * k * np.sqrt(fill * (1 - fill) / m) / fill / np.sqrt(filters)
    assert abs(found - mean) <= 4 * np.hypot(np.sqrt(mean), between)


@configurations
def test_4_1_two_filters_of_a_history_measured(
    n: int, m: int, k: int, fpp: str, with_two: str, accuracy: float
) -> None:
    """The matching set of a history, asked as a query asks it: efpp, not fpp."""
    history = BloomHistory(Key(HistoryKind.PUBLISH, 1), BloomSettings(n, m, k, skew_ms=10**6))
    entries = history.add(message_ids(1, 2 * n, 10**12), now_ms=10**12)
    assert [entry.full for entry in entries] == [True, True]
    asked = message_ids(2, 1_000_000, 2 * 10**12)
    one, other = (entry.opened() for entry in entries)
    found = int((one.contains(asked) | other.contains(asked)).sum())
    mean = len(asked) * efpp([one.fpp(), other.fpp()])
    fill = -np.expm1(-k * n / m)
    between = mean * k * np.sqrt(fill * (1 - fill) / m) / fill / np.sqrt(2)
    assert abs(found - mean) <= 4 * np.hypot(np.sqrt(mean), between)


def test_3_1_add_updates_the_range() -> None:
    history = BloomHistory(Key(HistoryKind.PUBLISH, 1), BloomSettings())
    for ms in (1000, 990, 1010, 1005):
        history.add(id_array(MessageId(7, 1, ms)), now_ms=1000)
    (entry,) = history.close(1000)
    assert entry.span == (990, 1010)


def test_3_2_skew_adjustment() -> None:
    watch = SkewWatch(tolerance_ms=250)
    assert watch.connect(client_ms=400, now_ms=1000).delta_ms == 600
    assert watch.observe(corrected_ms=1750, now_ms=2000) is None
    late = watch.observe(corrected_ms=1749, now_ms=2000)
    assert late is not None
    assert late.delta_ms == 600 + 251  # t_b − t


def test_3_3_only_brokers_on_the_route_expand_the_search() -> None:
    search = PathSearch(MessageId(7, 1, 1000))
    assert [ask.broker for ask in search.start()] == [1]
    origin = TraceAnswer(1, TraceVerdict.HELD, 1e-5, (2, 3), entered=True)
    assert [ask.broker for ask in search.answered(origin)] == [2, 3]
    assert search.answered(TraceAnswer(2, TraceVerdict.ABSENT, 0.0, (1, 4))) == []
    assert search.answered(TraceAnswer(3, TraceVerdict.HELD, 1e-5, (1,), None, (Statement("s", 1e-5),))) == []
    assert [hop.broker for hop in search.report().hops] == [1, 3]


def test_4_2_theorem_1_two_filters_at_most() -> None:
    full_ms = fill_ms(2521, 5000)
    assert full_ms == pytest.approx(504.2)
    assert matching_set_max(252, 0, full_ms) == 2
    assert matching_set_max(253, 0, full_ms) == 3


def test_4_2_corollary_2_jitter_counts_once() -> None:
    assert matching_set_max(200, 104, 504.2) == 2
    assert matching_set_max(200, 105, 504.2) == 3


def test_4_3_retained_filters_equal_the_union_of_rotated_ones() -> None:
    ids = message_ids(1, 900, 10**12)
    stored: dict[Mode, list[HistoryEntry]] = {}
    for mode in Mode:
        history = BloomHistory(Key(HistoryKind.ROUTE, 1), BloomSettings(900, 65536, 16, skew_ms=10**6, mode=mode))
        stored[mode] = []
        for start in range(0, 900, 300):
            stored[mode] += history.add(ids[start : start + 300], 10**12)
            stored[mode] += history.persist(10**12)
    assert [entry.count for entry in stored[Mode.ROTATE]] == [300, 300, 300]
    assert [(entry.count, entry.sequence) for entry in stored[Mode.RETAIN]] == [(300, 0), (600, 0), (900, 0)]
    union = BloomFilter(65536, 16)
    for entry in stored[Mode.ROTATE]:
        union.unite(BloomFilter.from_bytes(entry.data))
    assert union.to_bytes() == stored[Mode.RETAIN][-1].data


def test_4_3_retransmissions_mark_s_not_r() -> None:
    history = BloomHistory(Key(HistoryKind.ROUTE, 1), BloomSettings(skew_ms=250, jitter_ms=50))
    history.add(id_array(MessageId(7, 1, 100_000), MessageId(7, 1, 5_000)), now_ms=100_000)
    (entry,) = history.close(100_000)
    assert (entry.span, entry.singles) == ((100_000, 100_000), (5_000,))


def test_4_3_unnecessary_searches() -> None:
    """D'·efpp of them, counted: five neighbours that did not see the message, each claims it with efpp = 0.05."""
    rng, traces, led_astray = np.random.default_rng(1), 3000, 0
    for _ in range(traces):
        search = PathSearch(MessageId(7, 1, 1000))
        search.start()
        for ask in search.answered(TraceAnswer(1, TraceVerdict.HELD, 0.05, (2, 3, 4, 5, 6), entered=True)):
            verdict = TraceVerdict.HELD if rng.random() < 0.05 else TraceVerdict.ABSENT
            led_astray += len(search.answered(TraceAnswer(ask.broker, verdict, 0.05, (1, 10 + ask.broker))))
    assert led_astray / traces == pytest.approx(0.25, abs=4 * np.sqrt(5 * 0.05 * 0.95 / traces))


def test_5_1_fpp_for_two_filters_at_five_nines() -> None:
    assert fpp_allowed(1e-5, 2) == pytest.approx(5e-6, rel=1e-4)
    assert false_positive_probability(65536, 16, 65536 // 26) <= 5e-6


def test_5_3_the_exact_log_forces_the_disk_eight_times_a_second() -> None:
    log = AsyncStrategy(buffer_bytes=10_000).open(Key(HistoryKind.PUBLISH, 1))
    forced = log.add(message_ids(1, 5000, 10**12), now_ms=10**12)
    assert len(forced) == 8
    assert {entry.count for entry in forced} == {625}
    bloom = BloomHistory(Key(HistoryKind.PUBLISH, 1), BloomSettings(skew_ms=10**6))
    assert len(bloom.add(message_ids(1, 5000, 10**12), now_ms=10**12)) == 1


@pytest.mark.parametrize(("n", "k", "expected"), [(2521, 16, 3.25), (5461, 8, 1.5), (7281, 8, 1.125)])
def test_5_3_bytes_a_message_of_full_filters(n: int, k: int, expected: float) -> None:
    history = BloomHistory(Key(HistoryKind.PUBLISH, 1), BloomSettings(n, 65536, k, skew_ms=10**6))
    entries = history.add(message_ids(1, 4 * n, 10**12), now_ms=10**12)
    stored = sum(len(entry.data) for entry in entries)
    assert stored / sum(entry.count for entry in entries) == pytest.approx(expected, rel=5e-3)  # 24 bytes of header
