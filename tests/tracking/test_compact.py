"""Compaction: nothing is lost, no filter overfull, matching sets no larger."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.model.message_id import MessageId
from tidings.tracking.compact import compact
from tidings.tracking.history import BloomHistory, BloomSettings, Entry, Key, Kind, Mode, matching_set, newest
from tidings.tracking.ids import id_array
from tidings.tracking.strategies import AsyncStrategy

CAPACITY = 10
steps = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8), st.booleans()), max_size=20)


def record(
    made: list[tuple[int, int, bool]], mode: Mode, *, exact: bool, restarts: int
) -> tuple[list[Entry], list[bytes]]:
    settings = BloomSettings(CAPACITY, 640, 8, 6, 3, mode)
    entries, ids, now, counter = [], [], 1000, 0
    for incarnation in range(restarts + 1):
        key = Key(Kind.ROUTE, 2)
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
    key, entries = Key(Kind.PUBLISH, 1), []
    for bits, incarnation in ((640, 1), (1280, 2), (1280, 3)):
        history = BloomHistory(key, BloomSettings(CAPACITY, bits, 8, mode=Mode.ROTATE), incarnation)
        history.add(id_array(MessageId(7, 1, 1000 + incarnation)), 1000)
        entries += history.close(1000)
    assert [(entry.count, entry.span) for entry in compact(entries, CAPACITY)] == [(1, (1001, 1001)), (2, (1002, 1003))]
