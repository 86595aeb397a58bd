"""Histories: what is stored when, ranges and stragglers, rotate and retain, matching sets."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError, UsageError
from tidings.model.message_id import MessageId
from tidings.tracking.ids import as_ids, id_array, id_times
from tidings.tracking.recording.history import (
    BloomHistory,
    BloomSettings,
    FilterEncoding,
    HistoryEntry,
    HistoryKind,
    Key,
    Mode,
    efpp,
    matching_set,
    newest,
)
from tidings.tracking.recording.strategies import AsyncStrategy

KEY = Key(HistoryKind.ROUTE, 2)
SMALL = BloomSettings(capacity=10, bits=640, hashes=8, skew_ms=5, jitter_ms=3)


def ids(*times: int) -> bytes:
    return id_array(*(MessageId(7, 2, ms, counter) for counter, ms in enumerate(times))).tobytes()


batches = st.lists(
    st.tuples(st.integers(1000, 1100), st.lists(st.integers(900, 1200), min_size=1, max_size=25)), max_size=8
)


@given(batches, st.sampled_from(Mode), st.booleans(), st.integers(0, 3), st.sampled_from((0, 640 * 8)))
def test_every_id_is_in_a_filter_that_matches_its_time(
    added: list[tuple[int, list[int]]], mode: Mode, exact: bool, persist_each: int, bits_max: int
) -> None:
    settings = BloomSettings(10, 640, 8, 5, 3, mode, bits_max)
    history = AsyncStrategy(160, 5, 3).open(KEY) if exact else BloomHistory(KEY, settings)
    entries: list[HistoryEntry] = []
    for number, (now_ms, times) in enumerate(sorted(added)):
        entries += history.add(ids(*times), now_ms)
        if persist_each and number % persist_each == 0:
            entries += history.persist(now_ms)
    entries += history.close(2000)
    assert not history.dirty
    assert sum(entry.count for entry in newest(entries)) == sum(len(times) for _, times in added)
    sizes = {10 << doublings for doublings in range(settings.doublings + 1)}
    assert all(entry.count in sizes if entry.full else entry.count < max(sizes) for entry in entries)
    for _, times in added:
        for one, moment in zip(as_ids(ids(*times)), times, strict=True):
            found = matching_set(entries, moment)
            assert any(entry.opened().contains(one.tobytes())[0] for entry in found)


def test_filters_grow_until_they_last_as_long_as_times_are_unsure_and_shrink_again() -> None:
    settings = BloomSettings(10, 640, 8, skew_ms=5, bits_max=640 * 16)
    history, steady = BloomHistory(KEY, settings), BloomHistory(KEY, replace(settings, bits_max=0))
    entries, small = list[HistoryEntry](), list[HistoryEntry]()
    for now_ms in range(1000, 1200):  # 10 ids each: 11 ms of them take eight to sixteen times the room
        strayed = ids(*[now_ms - 5] * 5, *[now_ms + 5] * 5)
        entries += history.add(strayed, now_ms)
        small += steady.add(strayed, now_ms)
    sizes = [len(entry.data) // 80 for entry in entries]
    assert sizes[:4] == [1, 2, 4, 8]
    assert set(sizes[5:]) == {16}
    assert len({entry.opened().fpp() for entry in entries}) == 1 + settings.doublings
    assert max(entry.opened().fpp() for entry in entries) <= 1.1 * settings.fpp
    assert max(len(matching_set(entries, moment)) for moment in range(1050, 1150)) == 2
    assert max(len(matching_set(small, moment)) for moment in range(1050, 1150)) == 11
    stored = []
    for now_ms in (1300, 1400, 1500):  # what little comes now does not keep the large filter going
        history.add(ids(now_ms), now_ms)
        stored += history.persist(now_ms)
    assert stored[0].sequence == stored[1].sequence != stored[2].sequence
    assert [entry.encoding for entry in stored] == [FilterEncoding.BLOOM, FilterEncoding.BLOOM, FilterEncoding.IDS]


def test_r_is_the_range_and_s_what_lies_outside_of_what_the_clock_allows() -> None:
    history = BloomHistory(KEY, SMALL)
    history.add(ids(1000, 992, 1005), 1000)  # from opened − T_s − T_j to now + T_s
    history.add(ids(991, 1011, 500, 500), 1004)
    (entry,) = history.close(1005)
    assert entry.span == (992, 1005)
    assert entry.singles == (500, 991, 1011)
    assert (entry.opened_ms, entry.stored_ms, entry.count) == (1000, 1005, 7)
    assert [moment for moment in (499, 500, 991, 992, 1005, 1006, 1011) if entry.matches(moment)] == [
        *(500, 991, 992, 1005, 1011)
    ]


def test_the_publisher_s_history_knows_no_jitter() -> None:
    history = BloomHistory(Key(HistoryKind.PUBLISH, 2), SMALL)
    history.add(ids(994, 995), 1000)
    (entry,) = history.close(1000)
    assert (entry.span, entry.singles) == ((995, 995), (994,))


def test_a_filter_of_stragglers_has_no_range() -> None:
    history = BloomHistory(KEY, SMALL)
    history.add(ids(10, 20), 1000)
    assert history.matching(10) is not None
    assert history.matching(15) is None
    (entry,) = history.close(1000)
    assert (entry.span, entry.singles, entry.matches(15)) == (None, (10, 20), False)


def test_rotate_begins_a_new_filter_and_retain_goes_on() -> None:
    for mode, counts in ((Mode.ROTATE, [(0, 4), (1, 4), (2, 4)]), (Mode.RETAIN, [(0, 4), (0, 8), (0, 10), (1, 2)])):
        history = BloomHistory(KEY, BloomSettings(10, 640, 8, 5, 3, mode))
        stored = []
        for step in range(3):
            stored += history.add(ids(*range(1000, 1004)), 1000 + step)
            stored += history.persist(1000 + step)
            assert history.persist(1000 + step) == []  # nothing new
        assert [(entry.sequence, entry.count) for entry in stored] == counts
        assert [entry.full for entry in stored] == [count == 10 for _, count in counts]
    kept = newest(stored)
    assert [(entry.sequence, entry.count) for entry in kept] == [(0, 10), (1, 2)]


def test_an_empty_history_stores_nothing() -> None:
    history = BloomHistory(KEY, SMALL)
    assert history.add(b"", 5) == history.persist(6) == history.close(7) == []
    assert (history.memory_bytes, history.dirty, history.matching(5)) == (0, False, None)


@given(st.lists(st.floats(0, 1), max_size=6))
def test_efpp_is_that_of_independent_filters(fpps: list[float]) -> None:
    assert efpp(fpps) == pytest.approx(1 - np.prod([1 - fpp for fpp in fpps]), abs=1e-12)


@pytest.mark.parametrize(("capacity", "bits", "skew"), [(0, 64, 0), (1, 63, 0), (1, 64, -1)])
def test_impossible_settings(capacity: int, bits: int, skew: int) -> None:
    with pytest.raises(UsageError):
        BloomSettings(capacity, bits, 4, skew)


def test_damaged_data_is_a_codec_error() -> None:
    for encoding in FilterEncoding:
        entry = HistoryEntry(KEY, 0, (1, 2), (), 1, False, encoding, b"nonsense", 0, 0)
        with pytest.raises(CodecError):
            entry.opened()


@given(st.lists(st.integers(0, 2**48 - 1), max_size=20))
def test_times_of_ids(times: list[int]) -> None:
    assert id_times(as_ids(ids(*times))).tolist() == times
