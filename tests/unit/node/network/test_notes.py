"""Notes of a broker about its network."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.delivery.store import Note
from tidings.errors import CodecError
from tidings.matching.encoding import Encoding
from tidings.model.event_type import AttributeType, EventType
from tidings.node.network.notes import (
    CHANGES_BYTES_MIN,
    Chain,
    NetworkNotes,
    incarnation_note,
    noted_incarnation,
    noted_interests,
)
from tidings.routing.bdrp.interests import Change, InterestEncoding, decode_advertisement
from tidings.routing.hermes.codec import encode_types

OLD: Chain = (EventType("T", None, {"a": AttributeType.INT}),)
NEW: Chain = (EventType("P"), EventType("T", "P", {"a": AttributeType.STRING}))

ENCODING = InterestEncoding(Encoding(bits=64))


class Written(dict[str, bytes]):
    """A journal that keeps notes."""

    def write(self, note: Note) -> None:
        self[note.key] = note.value

    @property
    def journal(self) -> Any:
        return cast(Any, SimpleNamespace(change=self.write, later=self.write))


def test_the_store_has_the_form_that_was_added_last() -> None:
    """Removed elsewhere and then added here again, it never was not of this broker."""
    notes, written = NetworkNotes(ENCODING), Written()
    stages: list[tuple[list[Chain], bytes]] = [([OLD], encode_types(OLD)), ([NEW], encode_types(NEW)), ([], b"")]
    for forms, value in stages:
        notes.note_types(written.journal, forms)
        assert written == {"type:T": value}
        written.clear()
        notes.note_types(written.journal, forms)
        assert written == {}


def test_what_was_written_is_known_in_the_next_life() -> None:
    notes, written = NetworkNotes(ENCODING), Written()
    notes.note_types(written.journal, [NEW])
    notes.interest(3, {bytes(8)}, ())
    notes.forget(4)
    notes.note_interests(written.journal, {3: {bytes(8)}})
    note = incarnation_note(7)
    kept = {**written, note.key: note.value}
    again = NetworkNotes(ENCODING)
    assert list(again.recover_types(kept)) == [NEW]
    written.clear()
    again.note_types(written.journal, [NEW])
    assert written == {}
    assert [(router, decode_advertisement(payload)) for router, payload in noted_interests(kept)] == [
        (3, (ENCODING.form, Change((bytes(8),))))
    ]
    assert (noted_incarnation(kept), noted_incarnation({})) == (7, 0)


def row(number: int) -> bytes:
    return number.to_bytes(8, "little")


def known(kept: dict[str, bytes]) -> dict[int, set[bytes]]:
    return {router: set(decode_advertisement(payload)[1].added) for router, payload in noted_interests(kept)}


class Interests:
    """What a scheme knows, with the notes beside it."""

    def __init__(self, bytes_min: int = CHANGES_BYTES_MIN) -> None:
        self.notes, self.written = NetworkNotes(ENCODING, bytes_min), Written()
        self.rows: dict[int, set[bytes]] = {}

    def change(self, router: int, rows: Iterable[int]) -> None:
        before, now = self.rows.get(router, set()), set(map(row, rows))
        self.rows[router] = now
        self.notes.interest(router, now - before, before - now)

    def forget(self, router: int) -> None:
        del self.rows[router]
        self.notes.forget(router)

    def write(self) -> None:
        self.notes.note_interests(self.written.journal, self.rows)


steps = st.lists(
    st.tuples(st.integers(1, 3), st.none() | st.frozensets(st.integers(0, 12), max_size=8), st.booleans()),
    max_size=12,
)


@given(steps, st.sampled_from((0, 20, CHANGES_BYTES_MIN)))
def test_written_at_any_time_they_are_what_was_known(
    changes: list[tuple[int, frozenset[int] | None, bool]], bytes_min: int
) -> None:
    world = Interests(bytes_min)
    for router, rows, write in changes:
        if rows is not None:
            world.change(router, rows)
        elif router in world.rows:
            world.forget(router)
        if write:
            world.write()
            assert known(world.written) == world.rows
    world.write()
    assert known(world.written) == world.rows


def test_a_batch_costs_what_changed() -> None:
    world = Interests()
    world.change(3, range(10_000))
    world.write()
    for number in range(5):
        world.written.clear()
        world.change(3, [*range(10_000), 200_000 + number])
        world.write()
        assert sum(map(len, world.written.values())) < 200


def test_changes_of_another_whole_do_not_count() -> None:
    """The journal may write a new whole in one batch, and that there are no changes of it in the next."""
    world = Interests()
    world.change(3, range(2000))
    world.write()
    world.change(3, range(1, 2000))
    world.write()
    changes = world.written["interest-changes:3"]
    world.change(3, [*range(1000), *range(3000, 9000)])
    world.write()
    assert world.written["interest-changes:3"] == b""
    assert known({**world.written, "interest-changes:3": changes}) == world.rows


def test_changes_that_cannot_be_read_are_for_the_scheme_to_report() -> None:
    world = Interests()
    world.change(3, range(20))
    world.write()
    world.change(3, range(19))
    world.write()
    broken = world.written["interest-changes:3"][:-1]
    ((router, payload),) = noted_interests({**world.written, "interest-changes:3": broken})
    assert router == 3
    with pytest.raises(CodecError):
        decode_advertisement(payload)
