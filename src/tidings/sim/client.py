"""A client of a simulated broker: it speaks native frames, as real ones do.

What it sends is read by its broker in pieces, as the forwarding plane takes them; what it is sent it parses. A client
that does not read (`reads`) fills its broker's output, as a slow consumer's socket would.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.errors import TidingsError
from tidings.node.requests import Failed
from tidings.protocols.native.frames import (
    FrameSplitter,
    FrameType,
    RawFrame,
    decode_delivery,
    decode_fields,
    decode_receipts,
    unsigned,
)
from tidings.protocols.native.frames import field as field_of
from tidings.tracking.query.path import Path
from tidings.tracking.query.path_json import from_json

FRAME_BYTES_MAX = 64 << 20
# Frames that tell a client nothing that checkers look at.
_SILENT = {FrameType.PING, FrameType.PONG, FrameType.RETAINED}


def nothing(receipt: int) -> None:
    """Looks at receipts as they come."""


class SimulatedDelivery(NamedTuple):
    subscription: int
    attempt: int
    tag: int
    message: bytes
    at: float  # when it came, by the calendar


@dataclass(slots=True, eq=False)
class SimClient:
    """A client of one broker; gone when the broker crashes."""

    number: int
    life: int = 0  # which of the broker's lives it is a client of
    deliveries: list[SimulatedDelivery] = field(default_factory=list)
    receipts: set[int] = field(default_factory=set)  # of accepted publications
    done: set[int] = field(default_factory=set)  # receipts of requests that were carried out
    failures: list[Failed] = field(default_factory=list)  # requests and publications that were refused
    paths: list[Path] = field(default_factory=list)  # of messages that were traced
    dropped: Counter[tuple[int, str]] = field(default_factory=Counter)  # messages, by subscription and reason
    gone_at: float | None = None  # when its connection ended, by the calendar
    ended: str = ""  # the code with which the broker ended the connection
    reads: bool = True
    outgoing: bytes = b""  # not read by the broker yet
    held: bool = False  # the broker reads nothing from it now
    paused: bool = False  # the same, by admission control
    answers: Counter[int] = field(default_factory=Counter)  # how often each receipt number was answered, in any way
    delta_ms: int = 0  # what it has to add to its clock
    corrections: list[tuple[int, int]] = field(default_factory=list)  # numbers and deltas that it has not confirmed
    heard: Callable[[int], None] = nothing  # called with each accepted publication
    _splitter: FrameSplitter = field(default_factory=lambda: FrameSplitter(FRAME_BYTES_MAX))

    def receive(self, data: bytes, now: float) -> None:
        for frame in self._splitter.feed(data):
            if frame.type == FrameType.DELIVER:
                self.deliveries.append(SimulatedDelivery(*decode_delivery(frame.payload), now))
            elif frame.type == FrameType.RECEIPTS:
                self._accepted(decode_receipts(frame.payload))
            elif frame.type not in _SILENT:
                self._answered(frame)

    @property
    def heard_out(self) -> bool:
        """The broker has handled all that it sent."""
        return not (self.outgoing or self.held)

    @property
    def may_be_read(self) -> bool:
        return bool(self.outgoing) and not (self.held or self.paused)

    def _accepted(self, receipts: Iterable[int]) -> None:
        for receipt in receipts:
            self.receipts.add(receipt)
            self.answers[receipt] += 1
            self.heard(receipt)

    def _answered(self, frame: RawFrame) -> None:
        fields = decode_fields(frame.payload)
        if frame.type == FrameType.WELCOME:
            self.delta_ms = field_of(fields, "delta_ms", int)
            return
        if frame.type == FrameType.CLOCK:
            self.corrections.append((unsigned(fields, "number"), field_of(fields, "delta_ms", int)))
            return
        self.answers[unsigned(fields, "receipt")] += 1
        code, reason = field_of(fields, "code", str), field_of(fields, "reason", str)
        match FrameType(frame.type):
            case FrameType.OK:
                self.done.add(unsigned(fields, "receipt"))
                if "path" in fields:
                    self.paths.append(from_json(field_of(fields, "path", str)))
            case FrameType.ERROR | FrameType.REFUSED:
                self.failures.append(Failed(unsigned(fields, "receipt"), TidingsError(code, reason)))
                if field_of(fields, "fatal", bool):
                    self.ended = code
            case FrameType.DROPPED:
                self.dropped[unsigned(fields, "subscription"), reason] += unsigned(fields, "count", 63)
            case FrameType.CLOSE:
                self.ended = code
            case unexpected:
                raise AssertionError(f"a broker sent {unexpected.name}")
