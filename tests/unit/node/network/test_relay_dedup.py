"""Ids that were taken are remembered, or not taken for new, whatever is refused and whenever a broker restarts."""

from random import Random

import pytest

from tidings.model.message_id import MessageId
from tidings.node.network.relay_dedup import RelayDedup
from tidings.node.network.relay_marks import RelayMarks


def id_of(ms: int, publisher: int = 1, counter: int = 0) -> bytes:
    return bytes(MessageId(publisher, 1, ms, counter))


def test_what_a_publisher_sends_in_order_is_known_to_be_new() -> None:
    seen = RelayDedup(slots=2, slot_ids=2)
    for ms in range(100):
        assert seen.prove_new(id_of(ms))
        seen.add(id_of(ms))
    assert id_of(99) in seen
    assert id_of(0) not in seen
    assert not seen.prove_new(id_of(0))


def test_what_is_late_is_known_to_be_new_while_nothing_newer_of_its_publisher_was_forgotten() -> None:
    seen = RelayDedup(slots=2, slot_ids=2)
    for ms in range(100):
        seen.add(id_of(ms, publisher=2))
    assert seen.prove_new(id_of(50, publisher=1))
    assert not seen.prove_new(id_of(50, publisher=2))


def test_marks_are_bounded_and_the_floor_stands_for_those_given_up() -> None:
    marks = RelayMarks(sources_max=4)
    for publisher in range(1, 6):
        marks.forget([id_of(publisher * 10, publisher)])
    assert not any(marks.prove_new(id_of(publisher * 10, publisher)) for publisher in range(1, 6))
    assert marks.prove_new(id_of(51, 5))
    assert (marks.prove_new(id_of(20, 9)), marks.prove_new(id_of(21, 9))) == (False, True)  # nobody has heard of 9
    again = RelayMarks(sources_max=4)
    notes = marks.notes(range(-1, 64))
    again.recover({note.key: note.value for note in notes})
    assert again.notes(range(-1, 64)) == notes


@pytest.mark.parametrize("seed", range(60))
def test_what_was_taken_is_never_taken_for_new(seed: int) -> None:
    rng = Random(seed)
    seen, disk, taken = RelayDedup(slots=3, slot_ids=2), dict[str, bytes](), set[bytes]()
    for _ in range(200):
        ids = [id_of(rng.randrange(300), rng.randrange(1, 4)) for _ in range(rng.randint(1, 5))]
        batch = [one for one in dict.fromkeys(ids) if one not in seen]
        for one in batch:
            seen.add(one)
        notes = [*seen.notes(), *seen.notes()] if batch else []
        fate = rng.random()
        if fate < 0.3:
            for one in batch:
                seen.discard(one)
        else:
            disk |= {note.key: note.value for note in notes}
            taken.update(batch)
        if fate > 0.9:
            seen = RelayDedup(slots=3, slot_ids=2)
            seen.recover(disk)
        assert not [one for one in taken if one not in seen and seen.prove_new(one)]
