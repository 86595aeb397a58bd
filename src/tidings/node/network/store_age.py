"""Detects that this broker's store is older than what its neighbours know of it: restored from a backup, or replaced.

A *mark* in the store rises about every ten seconds in which messages are stored, and with each start. Once it is on
disk the neighbours learn it, keep it in their stores and say it when they are linked again. A store that has
come back with a smaller mark has lost what was written since: its broker says so in its log, `/health` and metrics,
and gives what waits in its mailboxes with the mark of a repetition, for it may have been given before.

    raise ──► note in the store ──► `StoreMarks` to neighbours ──► their notes ──link up──► compare

>>> age = StoreAge()
>>> age.recover({MARK_NOTE: (7).to_bytes(8, "little")})
>>> age.heard(2, StoreMarks(mine=3, yours=7)), age.heard(2, StoreMarks(mine=3, yours=9))
(False, True)
"""

from collections.abc import Mapping

from tidings.delivery.store import Note
from tidings.node.mailboxes.journal import Journal
from tidings.overlay.effects import Router
from tidings.routing.control.messages import StoreMarks

MARK_NOTE, PEER_PREFIX = "store-mark", "store-mark-of:"
RAISE_MS = 10_000.0


class StoreAge:
    def __init__(self) -> None:
        self.behind = False  # the store is older than what a neighbour knows of it
        self.said = 0  # the mark that is surely on disk in this run
        self._found = self._noted = 0
        self._peers: dict[Router, int] = {}
        self._changed: set[Router] = set()  # peers whose mark is to be noted
        self._raised_at = 0.0
        self._last_seq = 0

    def recover(self, notes: Mapping[str, bytes]) -> None:
        self._found = self._noted = _number(notes.get(MARK_NOTE, b""))
        for key, value in notes.items():
            if key.startswith(PEER_PREFIX):
                self._peers[int(key.removeprefix(PEER_PREFIX))] = _number(value)

    def marks(self, peer: Router) -> StoreMarks:
        """The marks that this peer is to know."""
        return StoreMarks(self.said, self._peers.get(peer, 0))

    def raised(self) -> Note:
        """The next mark, to be written."""
        self._noted += 1
        return _note(MARK_NOTE, self._noted)

    def tick(self, now: float, journal: Journal, last_seq: int) -> bool:
        """About once a second; `last_seq`: of what was stored. True: the neighbours are to hear a new mark."""
        for peer in self._changed:
            journal.later(_note(f"{PEER_PREFIX}{peer}", self._peers[peer]))
        self._changed.clear()
        news = self._noted != self.said and not journal.is_noting(MARK_NOTE)
        if news:
            self.said = self._noted
        if last_seq != self._last_seq and now - self._raised_at >= RAISE_MS:
            self._raised_at, self._last_seq = now, last_seq
            journal.later(self.raised())
        return news

    def heard(self, peer: Router, marks: StoreMarks) -> bool:
        """True: it shows that this store is older than what the peer knows of it, which nobody has shown before."""
        if marks.mine > self._peers.get(peer, 0):
            self._peers[peer] = marks.mine
            self._changed.add(peer)
        if marks.yours <= max(self._found, self._noted if self.behind else self.said):
            return False
        self._noted = max(self._noted, marks.yours)
        self._raised_at, self._last_seq = -RAISE_MS, -1  # a later start is not to say it again
        first, self.behind = not self.behind, True
        return first


def _note(key: str, mark: int) -> Note:
    return Note(key, mark.to_bytes(8, "little"))


def _number(value: bytes) -> int:
    return int.from_bytes(value, "little")
