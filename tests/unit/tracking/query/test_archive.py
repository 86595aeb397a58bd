"""The archive in memory keeps the contract."""

import random

from hardening.support.tracking import World, check_archive
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.model.message_id import MessageId
from tidings.tracking.query.archive import FilterIndex, MemoryArchive
from tidings.tracking.recording.history import BloomHistory, BloomSettings, HistoryEntry, HistoryKind, Key, Mode
from tidings.tracking.recording.recorder import StoreEntries, TrackingSettings
from tidings.tracking.recording.strategies import BloomStrategy


def entries(seed: int, mode: Mode) -> list[tuple[int, HistoryEntry]]:
    bloom = BloomSettings(8, 320, 6, 10, 6, mode)
    world = World(random.Random(seed), TrackingSettings(BloomStrategy(bloom), persist_ms=20), bloom, brokers=3)
    world.run(25, again=0.1, end=0.05)
    for broker, recorder in world.recorders.items():
        stored = recorder.close(world.clock(broker))
        world.archive.store(broker, [effect.entry for effect in stored if isinstance(effect, StoreEntries)])
    return world.archive.entries()


def memory_archive(stored: list[tuple[int, HistoryEntry]]) -> MemoryArchive:
    archive = MemoryArchive()
    for broker, entry in stored:
        archive.store(broker, [entry])
    return archive


def test_a_filter_that_is_stored_while_it_grows_is_found_once() -> None:
    history = BloomHistory(Key(HistoryKind.ROUTE, 2), BloomSettings(5000, skew_ms=10**6))
    index = FilterIndex[int]()
    for number in range(3000):
        history.add(bytes(MessageId(7, 2, 1000 + number)), 1000 + number)
        (entry,) = history.persist(1000 + number)
        index.add(number, (0, entry.sequence), entry.count, entry.full, entry.span, entry.singles)
    assert index.at(1000) == [2999]
    index.add(-1, (0, 0), 17, False, (0, 10**6), ())  # an old copy that comes late
    assert index.at(1000) == [2999]


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from(Mode))
def test_it_finds_what_the_definition_says(seed: int, mode: Mode) -> None:
    stored = entries(seed, mode)
    assert stored
    check_archive(memory_archive, stored)
    last = memory_archive(stored).stored_ms(1)
    assert all(last[e.incarnation] >= e.stored_ms for broker, e in stored if broker == 1)
