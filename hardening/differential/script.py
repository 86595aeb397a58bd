"""Scripts of a few clients as native wire frames: what they send, when they leave, when the clock ticks.

A script is data and says nothing of the broker it is for. Tags are the broker's to choose, so a frame that names some
says which deliveries it means (`Chosen`); `encode` fills in the tags that came with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidings.node.requests import Move, Purge
from tidings.protocols.native.frames import FrameType, encode_ack
from tidings.protocols.native.request_encoding import encode_request


@dataclass(frozen=True, slots=True)
class Chosen:
    """A frame about deliveries of a subscription: `picks` of them, counted from the last one back."""

    kind: FrameType  # ACK, PURGE, MOVE
    subscription: int
    picks: tuple[int, ...]
    flags: int = 0
    session: int = 0
    queue: str = ""
    target: str = ""
    receipt: int = 0

    def encode(self, tags: Sequence[int]) -> bytes:
        """`tags` of the deliveries so far. What was never delivered has a tag that nothing has."""
        chosen = tuple(tags[-1 - pick % len(tags)] if tags else 1000 + pick for pick in self.picks)
        if self.kind is FrameType.ACK:
            return encode_ack(self.subscription, chosen, self.flags, session=self.session)
        if self.kind is FrameType.PURGE:
            return encode_request(Purge(self.receipt, self.queue, chosen))
        return encode_request(Move(self.receipt, self.queue, self.target, chosen))


@dataclass(frozen=True, slots=True)
class Send:
    """Frames in one write; then the client may leave at once, perhaps in the middle of a frame."""

    client: int
    frames: tuple[bytes | Chosen, ...]
    leaves: bool = False
    syncs: bool = True  # afterwards, as do all others
    hello: bytes = b""  # if it must connect: instead of its login


@dataclass(frozen=True, slots=True)
class Tick:
    """A second passes for the broker."""


@dataclass(frozen=True, slots=True)
class Restart:
    """All clients leave, and the broker's process ends and begins again."""


Step: TypeAlias = Send | Tick | Restart


@dataclass(frozen=True, slots=True)
class Script:
    seed: int
    client_ids: tuple[str, ...]
    steps: tuple[Step, ...]
    pipelines: bool = False  # clients do not wait for the answer to their login
