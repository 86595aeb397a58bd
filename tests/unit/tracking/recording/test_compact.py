"""Compaction: nothing is lost, no filter overfull, matching sets no larger."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.model.message_id import MessageId
from tidings.tracking.ids import id_array
from tidings.tracking.recording.compact import compact
from tidings.tracking.recording.history import (
    BloomHistory,
    BloomSettings,
    HistoryEntry,
    HistoryKind,
    Key,
    Mode,
    matching_set,
    newest,
)
from tidings.tracking.recording.strategies import AsyncStrategy, RunStrategy

CAPACITY = 10
steps = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8), st.booleans()), max_size=20)


def record(
    made: list[tuple[int, int, bool]], mode: Mode, *, exact: bool, restarts: int
) -> tuple[list[HistoryEntry], list[bytes]]:
    settings = BloomSettings(CAPACITY, 640, 8, 6, 3, mode)
    entries, ids, now, counter = [], [], 1000, 0
    for incarnation in range(restarts + 1):
        key = Key(HistoryKind.ROUTE, 2)
        strategy = AsyncStrategy(16 * CAPACITY, 6, 3)
        history = strategy.open(key, incarnation) if exact else BloomHistory(key, settings, incarnation)
        for gap, size, persist in made:
            now += gap
            batch = []
            for _ in range(size):
                counter += 1
                batch.append(bytes(MessageId(7, 2, now + counter % 13 - 6, counter)))
            ids += batch
            entries += history.add(b"".join(batch), now)
            entries += history.persist(now) if persist else []
        entries += history.close(now)
    return entries, ids


@given(steps, st.sampled_from(Mode), st.booleans(), st.integers(0, 2))
def test_the_same_ids_in_fewer_filters(
    made: list[tuple[int, int, bool]], mode: Mode, exact: bool, restarts: int
) -> None:
    entries, ids = record(made, mode, exact=exact, restarts=restarts)
    merged = compact(entries, CAPACITY)
    assert len(merged) <= len(newest(entries))
    assert sum(entry.count for entry in merged) == len(ids)
    assert all(entry.count <= CAPACITY for entry in merged)
    assert compact(merged, CAPACITY) == merged
    moments = range(980, max((MessageId.from_bytes(one).ms for one in ids), default=980) + 20)
    largest = max(len(matching_set(entries, moment)) for moment in moments)
    assert all(len(matching_set(merged, moment)) <= largest for moment in moments)
    for one in ids:
        found = matching_set(merged, MessageId.from_bytes(one).ms)
        assert any(entry.opened().contains(one)[0] for entry in found)


def test_filters_of_other_shapes_stay_apart() -> None:
    key, entries = Key(HistoryKind.PUBLISH, 1), []
    for bits, incarnation in ((640, 1), (1280, 2), (1280, 3)):
        history = BloomHistory(key, BloomSettings(CAPACITY, bits, 8, mode=Mode.ROTATE), incarnation)
        history.add(id_array(MessageId(7, 1, 1000 + incarnation)), 1000)
        entries += history.close(1000)
    assert [(entry.count, entry.span) for entry in compact(entries, CAPACITY)] == [(1, (1001, 1001)), (2, (1002, 1003))]


def filled(key: Key, bits: int, capacity: int, counts: list[int], hashes: int = 8) -> list[HistoryEntry]:
    """Filters of so many ids each, one after the other in time."""
    settings, made, now = BloomSettings(capacity, bits, hashes, mode=Mode.ROTATE), [], 1000
    for incarnation, size in enumerate(counts):
        history = BloomHistory(key, settings, incarnation)
        ids = id_array(*(MessageId(7, 1, now + i) for i in range(size)))
        made += [*history.add(ids, now), *history.close(now)]
        now += 1000
    return made


def test_a_filter_takes_as_many_ids_as_full_ones_of_its_size() -> None:
    """Those of a busy history are larger, which gives the small ones of a quiet one no more room."""
    busy, quiet = Key(HistoryKind.PUBLISH, 1), Key(HistoryKind.DELIVER, 1, "quiet")
    large, small = filled(busy, 10_240, 160, [160, 70, 80]), filled(quiet, 640, 10, [10, 10, 3, 7, 4])
    merged = compact([*large, *small])
    assert [entry.count for entry in merged if entry.key == busy] == [160, 150]
    assert [entry.count for entry in merged if entry.key == quiet] == [10, 10, 10, 4]
    worst = max(entry.opened().fpp() for entry in (*large, *small))
    assert max(entry.opened().fpp() for entry in merged) <= worst * 1.001  # m itself matters a little


def test_what_a_filter_takes_is_known_for_the_usual_number_of_hashes_only() -> None:
    """If none is full; of others somebody must say it."""
    key = Key(HistoryKind.ROUTE, 2)
    assert [entry.count for entry in compact(filled(key, 6400, 500, [200, 40, 40], hashes=16))] == [240, 40]
    other = filled(key, 640, 10, [3, 4])
    assert [entry.count for entry in compact(other)] == [3, 4]
    assert [entry.count for entry in compact(other, 10)] == [7]


@given(steps, st.integers(0, 2))
def test_run_lists_of_a_process_become_one(made: list[tuple[int, int, bool]], restarts: int) -> None:
    entries, ids, now, counter = [], [], 1000, 0
    keys = Key(HistoryKind.ROUTE, 2), Key(HistoryKind.DELIVER, 2, "audit")
    for incarnation in range(restarts + 1):
        histories = [RunStrategy(6, 3, CAPACITY).open(key, incarnation) for key in keys]
        for gap, size, persist in made:
            now += gap
            batch = [bytes(MessageId(7, 2, now + number % 13 - 6, counter + number)) for number in range(size)]
            counter += size
            ids += batch
            for history in histories:
                entries += history.add(b"".join(batch), now)
                entries += history.persist(now) if persist else []
        for history in histories:
            entries += history.close(now)
    merged = compact(entries)
    assert len(merged) <= len(keys) * (restarts + 1)
    assert len({entry.data for entry in merged}) <= restarts + 1  # both histories took the same
    assert sum(entry.count for entry in merged) == len(keys) * len(ids)
    assert compact(merged) == merged
    stored = {(one.incarnation, one.key): one.stored_ms for one in entries}
    assert {(one.incarnation, one.key): one.stored_ms for one in merged} == stored
    for key in keys:
        for one in ids:
            moment = MessageId.from_bytes(one).ms
            own = [entry for entry in matching_set(merged, moment) if entry.key == key]
            assert any(entry.opened().contains(one)[0] for entry in own)
