"""Messages that a subscriber did not get although they were for it: histories beside those of what it got.

The peer of such a history is the subscriber's name with the cause behind a separator that names do not have.

>>> loss_peer("audit", LossCause.EXPIRED)
'audit\\x1fexpired'
"""

from dataclasses import dataclass
from enum import Enum

SEPARATOR = "\x1f"


class LossCause(Enum):
    """In the order of the kernel's numbers."""

    DROPPED = "dropped"
    EXPIRED = "expired"
    BURIED = "buried"


@dataclass(frozen=True, slots=True)
class TraceReason:
    """A broker's statement on why a subscriber did or did not get a message. `code` is for programs."""

    code: str
    detail: str = ""


LOSS_DETAILS = {
    LossCause.DROPPED: "dropped by the policy of its subscription or queue: it took messages too slowly",
    LossCause.EXPIRED: "expired while it waited",
    LossCause.BURIED: "sent to a dead-letter queue",
}


def loss_peer(subscriber: str, cause: LossCause) -> str:
    return f"{subscriber}{SEPARATOR}{cause.value}"


def split_peer(peer: str) -> tuple[str, LossCause | None]:
    """The subscriber, and the cause if the peer is of its losses."""
    name, separator, cause = peer.partition(SEPARATOR)
    return (name, LossCause(cause)) if separator and cause in _VALUES else (peer, None)


_VALUES = {cause.value for cause in LossCause}
