"""Persistent copies that come by links: stored and acknowledged, or kept until the store takes them.

A store may refuse them, for a full disk most of all. That is no fault of the link, by which other messages go on to
flow; so it stays, and what was refused waits here, with what comes behind it, for the sender's order is kept. About
once a second the first one is tried, and the others once that is stored. The sender goes on to answer for what is not
acknowledged: its window bounds what waits here, and a link that is lost takes all of it along.

    arrived ──► store ──► acknowledged
       │          │ ▲
       │   refused▼ │again
       └───────► held       (what arrives while something is held, or tried again)
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tidings.errors import StoreError, TidingsError
from tidings.node.completions import Copy, TakeRelay
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.overlay.effects import Router
from tidings.routing.effects import Report


@dataclass(slots=True, eq=False)
class _Link:
    """One life of a link: what was under way when it was lost is nothing to the next one, whatever its number."""

    life: int
    trying: int = 0  # copies whose fate is not known yet
    tried: int = 0  # ever
    refused: list[tuple[int, Copy]] = field(default_factory=list)  # when it was tried, what
    held: list[Copy] = field(default_factory=list)
    resting: bool = False  # until the next tick


class RelayInbox:
    """`broken`: a copy is one that no store can keep. `waits`: the copies of a link wait from now on, because of this
    error, or (None) no longer."""

    def __init__(
        self,
        store_and_forward: StoreAndForward,
        broken: Callable[[int, TidingsError], None],
        waits: Callable[[int, StoreError | None], None],
    ) -> None:
        self._store_and_forward, self._broken, self._waits = store_and_forward, broken, waits
        self._links: dict[int, _Link] = {}  # by the plane's number
        self._careful: dict[int, _Link] = {}  # those of which something was refused, until all of it is stored
        self._acks: dict[int, list[int]] = {}  # tags
        self._due = False  # it is time to try what was refused
        self._lives = 0  # of links, so far

    def relayed(self, now_ms: int, number: int, copy: Copy) -> None:
        link = self._links.get(number)
        if link is None:
            self._lives += 1
            link = self._links[number] = _Link(self._lives)
        if number in self._careful:
            link.held.append(copy)
        else:
            self._store(now_ms, number, link, copy)

    def take_acks(self) -> dict[int, list[int]]:
        """By the plane's numbers of links: tags of what was stored since this was last asked."""
        acks, self._acks = self._acks, {}
        return acks

    def forget(self, number: int) -> None:
        """The link is lost: what was not acknowledged will be sent again."""
        for table in (self._links, self._careful, self._acks):
            table.pop(number, None)

    def tick(self) -> None:
        """About once a second; `settle` follows."""
        self._due = True

    def settle(self, now_ms: int) -> None:
        """Try what was refused, if it is time: one copy, and when there was room for it all the others."""
        due, self._due = self._due, False
        for number, link in list(self._careful.items()):
            if not link.trying:
                self._try_again(now_ms, number, link, due)

    def _try_again(self, now_ms: int, number: int, link: _Link, due: bool) -> None:
        if link.refused:
            link.held[:0] = [copy for _, copy in sorted(link.refused)]
            link.refused, link.resting = [], True
        if not link.held:
            del self._careful[number]
            self._waits(number, None)
        elif due or not link.resting:
            count = 1 if link.resting else len(link.held)
            tried, link.held, link.resting = link.held[:count], link.held[count:], False
            for copy in tried:
                self._store(now_ms, number, link, copy)

    def _store(self, now_ms: int, number: int, link: _Link, copy: Copy) -> None:
        link.tried += 1
        link.trying += 1
        hops, _, numbers, expires_ms, message = copy
        completion = TakeRelay(number, link.life, link.tried, copy)
        self._store_and_forward.relayed(now_ms, hops, numbers, expires_ms, message, completion, link.life)

    def complete(self, relay: TakeRelay, error: TidingsError | None) -> bool:
        """The copy is stored, or (`error`) was refused; True: so must be those behind it that have not left for the
        store."""
        number, life, order, copy = relay
        link = self._links.get(number)
        if link is None or link.life != life:
            return isinstance(error, StoreError)  # the sender sends all of it again, in order
        link.trying -= 1
        if error is None:
            self._acks.setdefault(number, []).append(copy.tag)
            return False
        if not isinstance(error, StoreError):
            self._broken(number, error)
            return False
        link.refused.append((order, copy))
        if number not in self._careful:
            self._careful[number] = link
            self._waits(number, error)
        return True


def waiting_report(peer: Router, error: StoreError | None) -> Report:
    if error is None:
        return Report("STORED", f"persistent messages of router {peer} are stored again")
    return Report(error.code, f"persistent messages of router {peer} have to wait: {error.reason}")
