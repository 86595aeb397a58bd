"""Transactions that happen once, however often they are tried: a commit has a key and a rising number.

The last number of each key is stored in the same batch as the transaction. A commit whose number is not above it was
done before, and nothing happens. A digest can be stored with the number: it stands for what was committed, so that a
client whose commit was done before can check that it was the same. Keys have *slots*, a fixed number of notes in the
store; when all are taken a new key takes the slot of the key that has been quiet for longest, so used keys need no
deletion. It is taken from the user with the most keys, or from the user that commits if that one has its share (SLOTS
by the number of users with keys): no user can make the commits of another forgotten by using many keys.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tidings.delivery.store import Note
from tidings.errors import UsageError

SLOTS = 10_000
PREFIX = "once/"
KEY_MAX = 512  # characters, of the user's name and the user's own key
DIGEST_MAX = 128  # characters


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The number that was committed last under a key, with its digest."""

    number: int = -1
    digest: str = ""


NEVER = LastCommit()


def owner_of(key: str) -> str:
    """The user, whose name comes first (`OpenTransactions.commit`)."""
    return key.partition("/")[0]


class IdempotentCommit:
    def __init__(self) -> None:
        self._slots: dict[str, tuple[int, LastCommit]] = {}  # by key, with the slot
        self._keys: dict[str, dict[str, None]] = {}  # of each user, the longest quiet first
        self._under_way: set[str] = set()

    def recover(self, notes: Mapping[str, bytes]) -> None:
        found = []
        for name, value in notes.items():
            if name.startswith(PREFIX):
                key, number, order, digest = json.loads(value)
                found.append((order, key, int(name[len(PREFIX) :]), number, digest))
        for _, key, slot, number, digest in sorted(found):
            self._put(key, slot, LastCommit(number, digest))

    def done(self, key: str, number: int) -> bool:
        """True if this was committed before; an error while it is being committed."""
        if len(key) > KEY_MAX:
            raise UsageError("E_COMMIT_KEY", f"a key has at most {KEY_MAX} characters")
        if key in self._under_way:
            raise UsageError("E_COMMIT_BUSY", f"a transaction with the key {key!r} is being committed")
        return number <= self.last(key).number

    def begin(self, key: str, number: int, order: int, digest: str = "") -> Note:
        """The record that goes with the transaction; `order` rises from one to the next."""
        self._under_way.add(key)
        if key in self._slots:
            slot = self._take(key)
        elif len(self._slots) < SLOTS:
            slot = len(self._slots)
        else:
            slot = self._take(self._given_up_for(owner_of(key)))
        self._put(key, slot, LastCommit(number, digest))
        return Note(f"{PREFIX}{slot}", json.dumps([key, number, order, digest]).encode())

    def finished(self, key: str) -> None:
        self._under_way.discard(key)

    def failed(self, key: str, before: LastCommit) -> None:
        """It was not written: the commit before it holds."""
        self._under_way.discard(key)
        if key in self._slots:
            slot, _ = self._slots[key]
            self._slots[key] = (slot, before)

    def last(self, key: str) -> LastCommit:
        """The last commit of a key; NEVER if there is none."""
        return self._slots[key][1] if key in self._slots else NEVER

    def _put(self, key: str, slot: int, last: LastCommit) -> None:
        self._slots[key] = (slot, last)
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
