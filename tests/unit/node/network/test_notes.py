"""Notes of a broker about its network."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tidings.delivery.store import Note
from tidings.model.event_type import AttributeType, EventType
from tidings.node.network.notes import (
    Chain,
    NetworkNotes,
    incarnation_note,
    noted_incarnation,
    noted_interests,
)
from tidings.routing.hermes.codec import encode_types

OLD: Chain = (EventType("T", None, {"a": AttributeType.INT}),)
NEW: Chain = (EventType("P"), EventType("T", "P", {"a": AttributeType.STRING}))


class Written(dict[str, bytes]):
    """A journal that keeps notes."""

    def write(self, note: Note) -> None:
        self[note.key] = note.value

    @property
    def journal(self) -> Any:
        return cast(Any, SimpleNamespace(change=self.write, later=self.write))


def test_the_store_has_the_form_that_was_added_last() -> None:
    """Removed elsewhere and then added here again, it never was not of this broker."""
    notes, written = NetworkNotes(), Written()
    stages: list[tuple[list[Chain], bytes]] = [([OLD], encode_types(OLD)), ([NEW], encode_types(NEW)), ([], b"")]
    for forms, value in stages:
        notes.note_types(written.journal, forms)
        assert written == {"type:T": value}
        written.clear()
        notes.note_types(written.journal, forms)
        assert written == {}


def test_what_was_written_is_known_in_the_next_life() -> None:
    notes, written = NetworkNotes(), Written()
    notes.note_types(written.journal, [NEW])
    notes.interest(3)
    notes.interest(4)
    notes.note_interests(written.journal, lambda router: {0: [b"rows"]} if router == 3 else {})
    note = incarnation_note(7)
    kept = {**written, note.key: note.value}
    again = NetworkNotes()
    assert list(again.recover_types(kept)) == [NEW]
    written.clear()
    again.note_types(written.journal, [NEW])
    assert written == {}
    assert list(noted_interests(kept)) == [(3, 0, [b"rows"])]
    assert (noted_incarnation(kept), noted_incarnation({})) == (7, 0)


def known(kept: Mapping[str, bytes]) -> dict[int, dict[int, list[bytes]]]:
    found: dict[int, dict[int, list[bytes]]] = {}
    for router, part, payloads in noted_interests(kept):
        found.setdefault(router, {})[part] = payloads
    return found


class Interests:
    """What routers have advertised, with the notes beside it."""

    def __init__(self) -> None:
        self.notes, self.written = NetworkNotes(), Written()
        self.parts: dict[int, dict[int, list[bytes]]] = {}

    def hear(self, router: int, part: int, payload: bytes, *, full: bool) -> None:
        parts = self.parts.setdefault(router, {})
        if full or part not in parts:
            parts[part] = [payload]
        else:
            parts[part].append(payload)
        self.notes.interest(router)

    def drop(self, router: int, part: int) -> None:
        self.parts[router].pop(part, None)
        if not self.parts[router]:
            del self.parts[router]
        self.notes.interest(router)

    def write(self) -> None:
        self.notes.note_interests(self.written.journal, lambda router: self.parts.get(router, {}))


payloads = st.binary(min_size=1, max_size=6)
steps = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 2), st.none() | st.tuples(payloads, st.booleans()), st.booleans()),
    max_size=20,
)


@given(steps)
def test_written_at_any_time_they_are_what_was_known(
    changes: list[tuple[int, int, tuple[bytes, bool] | None, bool]],
) -> None:
    world = Interests()
    for router, part, heard, write in changes:
        if heard is not None:
            world.hear(router, part, heard[0], full=heard[1])
        elif router in world.parts:
            world.drop(router, part)
        if write:
            world.write()
            assert known(world.written) == world.parts
    world.write()
    assert known(world.written) == world.parts


def test_a_batch_costs_what_changed() -> None:
    world = Interests()
    world.hear(3, 0, bytes(100_000), full=True)
    world.hear(3, 1, bytes(100_000), full=True)
    world.write()
    for number in range(5):
        world.written.clear()
        world.hear(3, 1, b"a change", full=False)
        world.write()
        assert sum(map(len, world.written.values())) < 10 * (number + 2)


def test_changes_of_another_whole_do_not_count() -> None:
    """The journal may write a new whole in one batch, and that there are no changes of it in the next."""
    world = Interests()
    world.hear(3, 0, b"whole", full=True)
    world.hear(3, 0, b"change", full=False)
    world.write()
    changes = world.written["interest-changes:3"]
    world.hear(3, 0, b"another", full=True)
    world.write()
    assert world.written["interest-changes:3"] == b""
    assert known({**world.written, "interest-changes:3": changes}) == world.parts


def test_changes_that_cannot_be_read_are_for_the_scheme_to_report() -> None:
    world = Interests()
    world.hear(3, 0, b"whole", full=True)
    world.hear(3, 0, b"change", full=False)
    world.write()
    broken = world.written["interest-changes:3"][:-1]
    [(router, part, read)] = noted_interests({**world.written, "interest-changes:3": broken})
    assert (router, part, read) == (3, 0, [b"whole", broken])
