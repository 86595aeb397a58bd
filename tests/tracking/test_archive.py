"""The archive in memory keeps the contract."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.testing.tracking import World, check_archive
from tidings.tracking.archive import MemoryArchive
from tidings.tracking.history import BloomSettings, Entry, Mode
from tidings.tracking.record import Settings, Store
from tidings.tracking.strategies import BloomStrategy


def entries(seed: int, mode: Mode) -> list[tuple[int, Entry]]:
    bloom = BloomSettings(8, 320, 6, 10, 6, mode)
    world = World(random.Random(seed), Settings(BloomStrategy(bloom), persist_ms=20), bloom, brokers=3)
    world.run(25, again=0.1, end=0.05)
    for broker, recorder in world.recorders.items():
        stored = recorder.close(world.clock(broker))
        world.archive.store(broker, [effect.entry for effect in stored if isinstance(effect, Store)])
    return world.archive.entries()


def memory_archive(stored: list[tuple[int, Entry]]) -> MemoryArchive:
    archive = MemoryArchive()
    for broker, entry in stored:
        archive.store(broker, [entry])
    return archive


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from(Mode))
def test_it_finds_what_the_definition_says(seed: int, mode: Mode) -> None:
    stored = entries(seed, mode)
    assert stored
    check_archive(memory_archive, stored)
    last = memory_archive(stored).stored_ms(1)
    assert all(last[e.incarnation] >= e.stored_ms for broker, e in stored if broker == 1)
