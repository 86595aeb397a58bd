"""Reads what a store kept of an earlier process, a page at a time and in order.

A page is complete when all its messages were brought, or given up because they are damaged: only then it is returned,
so what the store brings in another order, or later, keeps its place. Whatever is newer has to wait for the last page.

>>> backlog = StoredBacklog(page_max=2)
>>> backlog.recover([3, 5, 8])
>>> backlog.wanted(), backlog.brought({5: b"five"}), backlog.wanted()
([3, 5], [], [3])
>>> backlog.brought({3: b"three", 9: b"not of this backlog"}), len(backlog)
([(3, b'three'), (5, b'five')], 1)
>>> backlog.wanted(), backlog.lost({8}), backlog.brought({}), len(backlog)
([8], [8], [], 0)
"""

from array import array
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet


class StoredBacklog:
    def __init__(self, page_max: int) -> None:
        self._page_max = page_max
        self._seqs = array("Q")
        self._next = 0  # place of the first one behind the page
        self._page: dict[int, bytes | None] = {}  # None: not brought yet

    def __len__(self) -> int:
        """The number of messages not returned yet."""
        return len(self._page) + len(self._seqs) - self._next

    def __contains__(self, seq: int) -> bool:
        """True if this message is to be loaded from the store."""
        return seq in self._page

    def recover(self, seqs: Iterable[int]) -> None:
        """These wait in the store; they rise."""
        self._seqs = array("Q", seqs)
        self._turn_page()

    def wanted(self) -> list[int]:
        """Messages to be loaded next."""
        return [seq for seq, message in self._page.items() if message is None]

    def brought(self, messages: Mapping[int, bytes]) -> list[tuple[int, bytes]]:
        """The store has these, and perhaps others. Returns the page, in order, once it is complete."""
        for seq in self._page.keys() & messages.keys():
            self._page[seq] = messages[seq]
        page = [(seq, message) for seq, message in self._page.items() if message is not None]
        if len(page) < len(self._page):
            return []
        self._turn_page()
        return page

    def lost(self, seqs: AbstractSet[int]) -> list[int]:
        """The store can never bring these. Returns those that were awaited; `brought` follows."""
        lost = [seq for seq in self._page if seq in seqs]
        for seq in lost:
            del self._page[seq]
        return lost

    def _turn_page(self) -> None:
        following = self._seqs[self._next : self._next + self._page_max]
        self._page = dict.fromkeys(following)
        self._next += len(following)
        if self._next == len(self._seqs):
            self._seqs, self._next = array("Q"), 0
