"""Notes in the store of what a broker knows of its network, for the time between a restart and the first link.

Interests of other routers, with the form of the encoding that made them (messages in transit may be for them); the
event types that were added here; and the incarnation, which must grow with each start.
"""

from collections.abc import Collection, Iterator, Mapping

from tidings.delivery.store import Note
from tidings.model.event_type import EventType
from tidings.node.mailboxes.journal import Journal
from tidings.overlay.effects import Router
from tidings.routing.bdrp.interests import Change, InterestEncoding, encode_advertisement
from tidings.routing.hermes.codec import decode_types, encode_types

INTEREST_NOTE, TYPE_NOTE, INCARNATION_NOTE = "interest", "type", "incarnation"
Chain = tuple[EventType, ...]  # a type after its ancestors


class NetworkNotes:
    def __init__(self, encoding: InterestEncoding) -> None:
        self.changed: set[Router] = set()  # whose interests differ from their note
        self._form, self._row_bytes = encoding.form, encoding.row_bytes
        self._types: dict[str, Chain] = {}  # by name, as written down

    def recover_types(self, notes: Mapping[str, bytes]) -> Collection[Chain]:
        self._types = {name: decode_types(payload) for name, payload in _named(TYPE_NOTE, notes)}
        return self._types.values()

    def note_types(self, journal: Journal, owned: Collection[Chain]) -> None:
        """Write down which types were added here."""
        types = {chain[-1].name: chain for chain in owned}
        for name, chain in types.items():
            if self._types.get(name) != chain:  # perhaps another form of it, if it was removed elsewhere
                journal.change(Note(f"{TYPE_NOTE}:{name}", encode_types(chain)))
        for name in self._types.keys() - types.keys():
            journal.change(Note(f"{TYPE_NOTE}:{name}", b""))
        self._types = types

    def note_interests(self, journal: Journal, predicates: Mapping[Router, set[bytes]]) -> None:
        changed, self.changed = self.changed, set()
        for router in changed:
            rows = predicates.get(router)
            payload = b""
            if rows is not None:
                payload = encode_advertisement(Change(tuple(rows)), self._form, self._row_bytes)
            journal.change(Note(f"{INTEREST_NOTE}:{router}", payload))


def noted_interests(notes: Mapping[str, bytes]) -> Iterator[tuple[Router, bytes]]:
    """As routers tell them: whose, what."""
    return ((int(router), payload) for router, payload in _named(INTEREST_NOTE, notes))


def noted_incarnation(notes: Mapping[str, bytes]) -> int:
    return int.from_bytes(notes.get(INCARNATION_NOTE, b""), "little")


def incarnation_note(incarnation: int) -> Note:
    return Note(INCARNATION_NOTE, incarnation.to_bytes(8, "little"))


def _named(kind: str, notes: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Those of a kind, by the rest of their key; what is empty was taken back."""
    for key, payload in notes.items():
        name, _, rest = key.partition(":")
        if name == kind and payload:
            yield rest, payload
