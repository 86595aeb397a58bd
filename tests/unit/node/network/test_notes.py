"""What a broker writes down of its network."""

from types import SimpleNamespace
from typing import Any, cast

from tidings.matching.encoding import Encoding
from tidings.model.event_type import AttributeType, EventType
from tidings.node.network.notes import Chain, NetworkNotes, incarnation_note, noted_incarnation, noted_interests
from tidings.routing.bdrp.interests import Change, InterestEncoding, decode_advertisement
from tidings.routing.hermes.codec import encode_types

OLD: Chain = (EventType("T", None, {"a": AttributeType.INT}),)
NEW: Chain = (EventType("P"), EventType("T", "P", {"a": AttributeType.STRING}))

ENCODING = InterestEncoding(Encoding(bits=64))


class Written(dict[str, bytes]):
    """A journal that keeps notes."""

    @property
    def journal(self) -> Any:
        return cast(Any, SimpleNamespace(change=lambda note: self.update({note.key: note.value})))


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
    notes.changed = {3, 4}
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
