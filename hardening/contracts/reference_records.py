"""Sinks and connections of the plain forwarder."""

from collections import deque
from dataclasses import dataclass, field

WAITING_BYTES = 64  # what one message costs in a backlog besides its frame


@dataclass(eq=False)
class ReferenceSink:
    connection: "ReferenceConnection | None"  # None: a mailbox
    subscription: int = 0
    credit: int | None = None  # None: unlimited
    policy: str = "push-back"
    bytes_max: int = 0
    no_local: bool = False
    backlog: "deque[tuple[bytes, int]]" = field(default_factory=deque)
    moved_ms: int = 0
    stalled: bool = False
    leaving: bool = False
    waiters: "list[ReferenceConnection]" = field(default_factory=list)
    delivered: int = 0
    dropped: int = 0
    untold: dict[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(len(frame) + WAITING_BYTES for frame, _ in self.backlog)

    @property
    def full(self) -> bool:
        return self.bytes > self.bytes_max

    @property
    def starving(self) -> bool:
        return bool(self.backlog) and self.credit == 0 and not self.stalled


@dataclass(eq=False)
class ReferenceConnection:
    number: int
    frame_bytes_max: int
    logged_in: bool = False
    checks: bool = False
    broken: bool = False
    waiting: bool = False
    held: bool = False
    choked: bool = False
    blocked: bool = False
    writable: bool = True
    wants_room: bool = False
    tail: bytes = b""
    seen: int = 0  # bytes of the tail that were looked through for credit
    seen_all: bool = False  # as far as one may look
    unread_notices: int = 0
    output: bytes = b""
    receipts: list[int] = field(default_factory=list)
    transacted: set[int] = field(default_factory=set)
    allowed: set[str] = field(default_factory=set)
    reasons: list[object] = field(default_factory=list)  # sinks that push it back
