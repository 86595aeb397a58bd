"""Transactions that happen once, however often they are tried: whoever commits gives a key and a rising number.

The last number of each key is stored in the same batch as the transaction. A commit whose number is not above it was
done before, and nothing happens. Keys have *slots*, a fixed number of notes in the store; when all are taken a new key
takes the one that has been quiet for longest, so keys that are used up need no clearing away. It is taken from the
user with the most keys, or from the requesting user if that one has its share (SLOTS by the number of users with keys):
nobody makes another's commits forgotten by using many keys.
"""

import json
from collections.abc import Mapping

from tidings.delivery.store import Note
from tidings.errors import UsageError

SLOTS = 10_000
PREFIX = "once/"
KEY_MAX = 512  # characters, of the user's name and the user's own key


def owner_of(key: str) -> str:
    """The user, whose name comes first (`Transactions.commit`)."""
    return key.partition("/")[0]


class IdempotentCommit:
    def __init__(self) -> None:
        self._slots: dict[str, tuple[int, int]] = {}  # key -> slot, number
        self._keys: dict[str, dict[str, None]] = {}  # of each user, the longest quiet first
        self._under_way: set[str] = set()

    def recover(self, notes: Mapping[str, bytes]) -> None:
        found = []
        for name, value in notes.items():
            if name.startswith(PREFIX):
                key, number, order = json.loads(value)
                found.append((order, key, int(name[len(PREFIX) :]), number))
        for _, key, slot, number in sorted(found):
            self._put(key, slot, number)

    def done(self, key: str, number: int) -> bool:
        """True if this was committed before; an error while it is being committed."""
        if len(key) > KEY_MAX:
            raise UsageError("E_COMMIT_KEY", f"a key has at most {KEY_MAX} characters")
        if key in self._under_way:
            raise UsageError("E_COMMIT_BUSY", f"a transaction with the key {key!r} is being committed")
        return key in self._slots and number <= self._slots[key][1]

    def begin(self, key: str, number: int, order: int) -> Note:
        """The record that goes with the transaction; `order` rises from one to the next."""
        self._under_way.add(key)
        if key in self._slots:
            slot = self._take(key)
        elif len(self._slots) < SLOTS:
            slot = len(self._slots)
        else:
            slot = self._take(self._given_up_for(owner_of(key)))
        self._put(key, slot, number)
        return Note(f"{PREFIX}{slot}", json.dumps([key, number, order]).encode())

    def finished(self, key: str) -> None:
        self._under_way.discard(key)

    def failed(self, key: str, before: int) -> None:
        """It was not written: the number before it holds."""
        self._under_way.discard(key)
        if key in self._slots:
            slot, _ = self._slots[key]
            self._slots[key] = (slot, before)

    def number(self, key: str) -> int:
        """The last number of a key; -1: none."""
        return self._slots[key][1] if key in self._slots else -1

    def _put(self, key: str, slot: int, number: int) -> None:
        self._slots[key] = (slot, number)
        self._keys.setdefault(owner_of(key), {})[key] = None

    def _take(self, key: str) -> int:
        """Forget the key; returns its slot."""
        keys = self._keys[owner_of(key)]
        del keys[key]
        if not keys:
            del self._keys[owner_of(key)]
        return self._slots.pop(key)[0]

    def _given_up_for(self, owner: str) -> str:
        """The key whose slot a new one of this user takes."""
        own = self._keys.get(owner, {})
        if len(own) * len(self._keys) < SLOTS:
            own = max(self._keys.values(), key=len)
        return next(iter(own))
