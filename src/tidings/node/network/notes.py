"""Notes in the store that let a broker know its network after a restart, before it has heard from any other.

The destinations of interests (what is in transit may be for them), the event types that were added here, and the
incarnation: that of the next run is greater, and greater than any other that used this broker's number.

Interests are written with the first batch that leaves after they changed, so a message that is confirmed and the
interests that decided where it goes are on disk together; while no batch leaves, about once a second. They are written
as they were advertised: of each part the whole, and beside it the differences since, so that a batch costs what
changed, not what is known. Differences begin with the checksum of the whole that they belong to: a journal that has
fallen behind may write the two in different batches. All name the encoding that made the rows: after a restart with
another one they count as asking for everything (routing/bdrp/scheme.py).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

from tidings.delivery.store import Note
from tidings.errors import CodecError
from tidings.model.event_type import EventType
from tidings.model.reader import Reader, varint
from tidings.node.mailboxes.journal import Journal
from tidings.overlay.effects import Router
from tidings.routing.bdrp.parts import topic_of
from tidings.routing.effects import Deliver
from tidings.routing.hermes.codec import decode_types, encode_types

INTEREST_NOTE, CHANGES_NOTE, TYPE_NOTE, INCARNATION_NOTE = "interest", "interest-changes", "type", "incarnation"
CHECKSUM_BYTES = 4
Chain = tuple[EventType, ...]  # a type after its ancestors


class _NotedPart(NamedTuple):
    """A part of a router's interests as the store has it."""

    whole: bytes
    differences: int


class NetworkNotes:
    def __init__(self) -> None:
        self._changed: set[Router] = set()  # whose interests are not as they were last written down
        self._noted: dict[Router, dict[int, _NotedPart]] = {}
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

    def interest(self, router: Router) -> None:
        """The interests of a router changed; it may be one that was not known, or is not any more."""
        self._changed.add(router)

    def note_interests(self, journal: Journal, payloads: Callable[[Router], Mapping[int, Sequence[bytes]]]) -> None:
        """Write down whose interests changed, with the next batch that leaves. `payloads`: what a router advertised."""
        changed, self._changed = self._changed, set()
        for router in changed:
            parts, noted = payloads(router), self._noted.setdefault(router, {})
            for part in noted.keys() - parts.keys():
                del noted[part]
                journal.later(Note(_key(INTEREST_NOTE, router, part), b""))
                journal.later(Note(_key(CHANGES_NOTE, router, part), b""))
            for part, (whole, *since) in parts.items():
                before = noted.get(part)
                if before is None or before.whole is not whole:
                    journal.later(Note(_key(INTEREST_NOTE, router, part), whole))
                elif before.differences == len(since):
                    continue
                noted[part] = _NotedPart(whole, len(since))
                journal.later(Note(_key(CHANGES_NOTE, router, part), _differences(whole, since)))
            if not noted:
                del self._noted[router]


def _key(kind: str, router: Router, part: int) -> str:
    return f"{kind}:{router}:{part}" if part else f"{kind}:{router}"


def _differences(whole: bytes, since: Sequence[bytes]) -> bytes:
    return b"".join((_checksum(whole), *(varint(len(one)) + one for one in since))) if since else b""


def noted_items(notes: Mapping[str, bytes]) -> Iterator[Deliver]:
    """The advertisements of routers as the flood brought them, and then that none of them is heard of for now."""
    noted = list(noted_interests(notes))
    for router, part, payloads in noted:
        for number, payload in enumerate(payloads):
            yield Deliver(topic_of(part), router, number == 0, payload)
    for router in {router for router, _, _ in noted}:
        yield Deliver(topic_of(0), router, True, None)


def noted_interests(notes: Mapping[str, bytes]) -> Iterator[tuple[Router, int, list[bytes]]]:
    """Routers and parts with what they advertised, the whole first. What cannot be read is returned as it is, to be
    reported by the scheme."""
    differences = dict(_named(CHANGES_NOTE, notes))
    for name, whole in _named(INTEREST_NOTE, notes):
        router, _, part = name.partition(":")
        since, payloads = differences.get(name, b""), [whole]
        if since[:CHECKSUM_BYTES] == _checksum(whole):
            reader = Reader(since, CHECKSUM_BYTES)
            try:
                while reader.position < reader.end:
                    payloads.append(reader.counted(len(since)))
            except CodecError:
                payloads.append(since)
        yield int(router), int(part or 0), payloads


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
