"""Copies that were taken are recognised by their number, whatever was refused, forgotten or restarted."""

from random import Random

import pytest

from tidings.node.network.copy_numbers import CopyNumber
from tidings.node.network.received_numbers import HOUR_MS, ReceivedNumbers, Recognition

WEEK_MS = 7 * 24 * HOUR_MS


def restarted(disk: dict[str, bytes]) -> ReceivedNumbers:
    numbers = ReceivedNumbers()
    numbers.recover(disk)
    return numbers


@pytest.mark.parametrize("seed", range(40))
def test_what_was_taken_is_recognised_and_nothing_else(seed: int) -> None:
    rng = Random(seed)
    numbers, disk, taken = ReceivedNumbers(), dict[str, bytes](), set[CopyNumber]()
    for _ in range(150):
        copies = {CopyNumber(rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 40)) for _ in range(3)} - taken
        for copy in copies:
            numbers.add(copy, 0)
        notes, fate = numbers.notes(), rng.random()
        if fate < 0.3:
            for copy in copies:
                numbers.discard(copy)
        else:
            disk |= {note.key: note.value for note in notes}
            taken |= copies
        if fate > 0.8:
            numbers = restarted(disk)
        for copy in taken | copies:
            assert numbers.judge(copy) is (Recognition.TAKEN if copy in taken else Recognition.NEW)


def test_an_epoch_that_is_over_and_silent_is_forgotten_and_uncertain() -> None:
    numbers = ReceivedNumbers()
    first, second, third = (CopyNumber(7, epoch, 1) for epoch in (10, 20, 30))
    numbers.add(first, 0)
    numbers.add(second, WEEK_MS)
    numbers.add(third, 0)
    disk = {note.key: note.value for note in numbers.notes()}
    assert numbers.forget_silent(2 * WEEK_MS, 2 * WEEK_MS) == []
    notes = numbers.forget_silent(2 * WEEK_MS + 2 * HOUR_MS, 2 * WEEK_MS)
    disk |= {note.key: note.value for note in notes}
    for one in (numbers, restarted(disk)):
        assert len(one) == 2
        assert [one.judge(copy) for copy in (first, second, third)] == [
            Recognition.UNCERTAIN, Recognition.TAKEN, Recognition.TAKEN
        ]  # fmt: skip
        assert one.judge(CopyNumber(7, 30, 2)) is Recognition.NEW
        assert one.judge(CopyNumber(8, 10, 1)) is Recognition.NEW


def test_the_notes_place_of_a_forgotten_epoch_is_used_again() -> None:
    numbers = ReceivedNumbers()
    for epoch in range(1, 50):
        numbers.add(CopyNumber(7, epoch, 1), epoch * 4 * WEEK_MS)
        numbers.notes()
        numbers.forget_silent(epoch * 4 * WEEK_MS, 2 * WEEK_MS)
    numbers.add(CopyNumber(7, 50, 1), 0)
    assert [note.key for note in numbers.notes()] == ["copies:1"]
    assert len(numbers) == 2
