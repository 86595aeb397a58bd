"""Message bytes by sequence number, kept while some mailbox needs them.

A message that waits in several mailboxes is kept once. One that the store has too may leave memory and is fetched
again when a consumer is ready for it, so nothing is kept about it meanwhile: absent means "the store has it". One
that is only here must stay. Hence two figures: `bytes`, what is in memory now, and `pinned_bytes`, what cannot leave.

>>> cache = MessageCache(bytes_max=10)
>>> cache.add(1, b"12345678", holders=1, stored=True)
>>> cache.add(2, b"12345678", holders=1, stored=False)
>>> cache.shrink(), cache.get(1), cache.get(2).message
(8, None, b'12345678')
"""

from dataclasses import dataclass

from tidings.model.codec import ID


@dataclass(slots=True)
class CachedMessage:
    message: bytes
    expires_ms: int  # 0: never
    holders: int  # mailboxes that still need it
    stored: bool


class MessageCache:
    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.pinned_bytes = 0
        self._pinned: dict[int, CachedMessage] = {}
        self._stored: dict[int, CachedMessage] = {}

    def __len__(self) -> int:
        return len(self._pinned) + len(self._stored)

    def get(self, seq: int) -> CachedMessage | None:
        return self._stored.get(seq) or self._pinned.get(seq)

    def find(self, id: bytes) -> dict[int, bytes]:
        """The messages with this id that are in memory, by sequence number. This looks at all of them."""
        both = (self._stored, self._pinned)
        return {seq: held.message for kept in both for seq, held in kept.items() if held.message[ID] == id}

    def add(self, seq: int, message: bytes, *, holders: int, stored: bool, expires_ms: int = 0) -> None:
        assert self.get(seq) is None
        (self._stored if stored else self._pinned)[seq] = CachedMessage(message, expires_ms, holders, stored)
        self.bytes += len(message)
        if not stored:
            self.pinned_bytes += len(message)

    def release(self, seq: int) -> None:
        """One mailbox is done with it; with the last one it is forgotten."""
        held = self.get(seq)
        if held is not None:
            held.holders -= 1
            if held.holders == 0:
                self._drop(seq, held)

    def shrink(self) -> int:
        """Let stored messages go until the limit holds, the newest first: they are needed last."""
        before = self.bytes
        while self.bytes > self.bytes_max and self._stored:
            seq = next(reversed(self._stored))
            self._drop(seq, self._stored[seq])
        return before - self.bytes

    def _drop(self, seq: int, held: CachedMessage) -> None:
        self.bytes -= len(held.message)
        if held.stored:
            del self._stored[seq]
        else:
            del self._pinned[seq]
            self.pinned_bytes -= len(held.message)
