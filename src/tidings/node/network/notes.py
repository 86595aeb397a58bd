"""Notes in the store that let a broker know its network after a restart, before it has heard from any other.

The destinations of interests (what is in transit may be for them), the event types that were added here, and the
incarnation: that of the next run is greater, and greater than any other that used this broker's number.

Interests are written with the first batch that leaves after they changed, so a message that is confirmed and the
interests that decided where it goes are on disk together; while no batch leaves, about once a second. A change is
written beside the whole, as all changes since that: a batch costs what changed, not what is known. The whole is
written again when the changes are more than a quarter of it. Changes begin with the checksum of the whole that they
belong to: a journal that has fallen behind may write the two in different batches. Both name the encoding that made
the rows: after a restart with another one they count as asking for everything (routing/bdrp/scheme.py).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from tidings.delivery.store import Note
from tidings.errors import CodecError
from tidings.model.event_type import EventType
from tidings.node.mailboxes.journal import Journal
from tidings.overlay.effects import Router
from tidings.routing.bdrp.interests import Change, InterestEncoding, encode_advertisement, with_changes
from tidings.routing.hermes.codec import decode_types, encode_types

INTEREST_NOTE, CHANGES_NOTE, TYPE_NOTE, INCARNATION_NOTE = "interest", "interest-changes", "type", "incarnation"
CHECKSUM_BYTES = 4
CHANGES_BYTES_MIN = 4096  # below this, changes are not worth writing the whole again
Chain = tuple[EventType, ...]  # a type after its ancestors


@dataclass(slots=True)
class _NotedInterests:
    """The interests of a router as the store has them: the whole, and the changes since."""

    whole_bytes: int
    checksum: bytes
    added: set[bytes] = field(default_factory=set)
    removed: set[bytes] = field(default_factory=set)

    def change(self, added: Collection[bytes], removed: Collection[bytes]) -> None:
        for row in removed:
            if row in self.added:
                self.added.remove(row)
            else:
                self.removed.add(row)
        for row in added:
            if row in self.removed:
                self.removed.remove(row)
            else:
                self.added.add(row)


class NetworkNotes:
    def __init__(self, encoding: InterestEncoding, changes_bytes_min: int = CHANGES_BYTES_MIN) -> None:
        self._changed: set[Router] = set()  # whose interests are not as they were last written down
        self._noted: dict[Router, _NotedInterests] = {}
        self._form, self._row_bytes, self._changes_bytes_min = encoding.form, encoding.row_bytes, changes_bytes_min
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

    def interest(self, router: Router, added: Collection[bytes], removed: Collection[bytes]) -> None:
        """The interests of a router changed by these rows; it may be a router that was not known."""
        self._changed.add(router)
        if (noted := self._noted.get(router)) is not None:
            noted.change(added, removed)

    def forget(self, router: Router) -> None:
        """The router is not known any more."""
        self._changed.add(router)
        self._noted.pop(router, None)

    def note_interests(self, journal: Journal, predicates: Mapping[Router, set[bytes]]) -> None:
        """Write down whose interests changed, with the next batch that leaves."""
        changed, self._changed = self._changed, set()
        for router in changed:
            rows, noted = predicates.get(router), self._noted.get(router)
            if rows is not None and noted is not None:
                payload = self._payload(noted.added, noted.removed)
                if len(payload) <= max(self._changes_bytes_min, noted.whole_bytes // 4):
                    journal.later(Note(f"{CHANGES_NOTE}:{router}", noted.checksum + payload))
                    continue
            whole = b""
            if rows is not None:
                whole = self._payload(rows)
                self._noted[router] = _NotedInterests(len(whole), _checksum(whole))
            journal.later(Note(f"{INTEREST_NOTE}:{router}", whole))
            journal.later(Note(f"{CHANGES_NOTE}:{router}", b""))

    def _payload(self, added: Collection[bytes], removed: Collection[bytes] = ()) -> bytes:
        return encode_advertisement(Change(tuple(added), tuple(removed)), self._form, self._row_bytes)


def noted_interests(notes: Mapping[str, bytes]) -> Iterator[tuple[Router, bytes]]:
    """The router and the payload by which it would announce what is noted of it. A note that cannot be read is
    returned as it is, to be reported by the scheme."""
    changes = dict(_named(CHANGES_NOTE, notes))
    for router, whole in _named(INTEREST_NOTE, notes):
        payload, change = whole, changes.get(router, b"")
        if change[:CHECKSUM_BYTES] == _checksum(whole):
            try:
                payload = with_changes(whole, change[CHECKSUM_BYTES:])
            except CodecError:
                payload = change
        yield int(router), payload


def _checksum(whole: bytes) -> bytes:
    return crc32(whole).to_bytes(CHECKSUM_BYTES, "little")


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
