"""The homes of queues and subscriptions: which broker keeps each, as the brokers say of themselves by the flood.

A broker that uses a queue or subscription of the network that has no home claims it. Two may do so at the same moment,
or in a partition: then the one with the lower id is the home, and the other, as soon as it hears of it, withdraws its
claim and passes on what it holds. What others claim is kept in the store: a home that is away stays the home.

>>> homes = QueueHomes(router=5)
>>> homes.claim("queue:a"), homes.home("queue:a")
(b'\\x01\\x07queue:a', 5)
>>> homes.heard(3, full=True, payload=b'\\x01\\x07queue:a'); homes.home("queue:a"), homes.take_changed()
(3, ['queue:a'])
>>> homes.withdraw("queue:a"), homes.home("queue:a"), homes.home("queue:b")
(b'\\x00\\x07queue:a', 3, None)
"""

from collections.abc import Mapping
from contextlib import suppress

from tidings.delivery.store import Note
from tidings.errors import TidingsError
from tidings.model.destination import Destination
from tidings.model.reader import Reader, put_varint
from tidings.node.clients.subscription_plan import may_be_of_network
from tidings.overlay.effects import Router
from tidings.routing.effects import Deliver

CLAIMED_NOTE, KNOWN_NOTE = "queue-home", "queue-homes"


class QueueHomes:
    def __init__(self, router: Router) -> None:
        self.claimed: set[str] = set()
        self._router = router
        self._known: dict[Router, set[str]] = {}
        self._claimants: dict[str, set[Router]] = {}
        self._changed: dict[str, None] = {}  # names whose claimants changed
        self._unnoted: set[Router] = set()

    def home(self, name: str) -> Router | None:
        claimants = self._claimants.get(name, ())
        best = min(claimants, default=None)
        if name in self.claimed and (best is None or self._router < best):
            return self._router
        return best

    def claim(self, name: str) -> bytes:
        """The queue is kept here; returns the difference to be flooded."""
        self.claimed.add(name)
        return _entry(True, name)

    def withdraw(self, name: str) -> bytes:
        self.claimed.discard(name)
        return _entry(False, name)

    def whole(self) -> bytes:
        """All that is kept here."""
        return b"".join(_entry(True, name) for name in sorted(self.claimed))

    def learn(self, item: Deliver) -> None:
        """The flood has brought what a broker says of itself. Of one that is away nothing changes."""
        if item.payload is not None:
            with suppress(TidingsError):  # no broker of this version says this
                self.heard(item.origin, full=item.full, payload=item.payload)

    def heard(self, router: Router, *, full: bool, payload: bytes) -> None:
        """A broker says which queues it keeps, or what changed."""
        entries = _entries(payload)
        before = self._known.get(router, set())
        after = set() if full else set(before)
        for kept, name in entries:
            (after.add if kept else after.discard)(name)
        self._replace(router, before, after)

    def forget(self, router: Router) -> None:
        """The broker will not come back."""
        self._replace(router, self._known.get(router, set()), set())

    def _replace(self, router: Router, before: set[str], after: set[str]) -> None:
        for name in before - after:
            self._claimants[name].discard(router)
            if not self._claimants[name]:
                del self._claimants[name]
        for name in after - before:
            self._claimants.setdefault(name, set()).add(router)
        if before != after:
            self._changed.update(dict.fromkeys(sorted(before ^ after)))
            self._unnoted.add(router)
        self._known[router] = after

    def take_changed(self) -> list[str]:
        changed, self._changed = list(self._changed), {}
        return changed

    # --- the store ------------------------------------------------------------------------------------------------

    def recover(self, notes: Mapping[str, bytes]) -> None:
        for key, value in notes.items():
            kind, _, rest = key.partition(":")
            if kind == CLAIMED_NOTE and value:
                self.claimed.add(rest)
            elif kind == KNOWN_NOTE and value:
                self.heard(int(rest), full=True, payload=value)
        self._unnoted.clear()

    def note(self, name: str) -> Note:
        """The record of a claim as it is now."""
        return Note(f"{CLAIMED_NOTE}:{name}", b"1" if name in self.claimed else b"")

    def take_notes(self) -> list[Note]:
        """The records of what others changed."""
        routers, self._unnoted = sorted(self._unnoted), set()
        return [
            Note(f"{KNOWN_NOTE}:{router}", b"".join(_entry(True, name) for name in sorted(self._known[router])))
            for router in routers
        ]


def _entry(kept: bool, name: str) -> bytes:
    out = bytearray((kept,))
    encoded = name.encode()
    put_varint(out, len(encoded))
    return bytes(out) + encoded


def _entries(payload: bytes) -> list[tuple[bool, str]]:
    reader = Reader(payload, family="CONTROL")
    entries = []
    while reader.position < reader.end:
        kept = reader.varint(1) == 1
        name = reader.text(reader.varint(), "a queue's name")
        if not may_be_of_network(name):
            Destination.parse(name)  # an error unless it is one
        entries.append((kept, name))
    return entries
