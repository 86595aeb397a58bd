"""Numbers of persistent copies: 1, 2, 3 and so on for each pair of the broker where a message enters and one it is for.

The entry broker, the *origin*, numbers a message for each router when it takes responsibility for it. The numbers stay
with the copies, in stores and on links, whatever way they take, so the router they are for recognises a repetition
however late it comes (`received_numbers`). They begin at 1 again with each run of the origin: its *epoch*, which is
part of the number. So nothing has to be written to go on counting, and an origin whose store was restored from a
backup gives no number twice: what it sends again from there has its old numbers and is recognised.

>>> numbering = CopyNumbering(origin=7)
>>> numbering.begin(1 << 16)
>>> numbering.take([2, 3], repeated=False).by_router, numbering.take([3], repeated=False).by_router
({2: 1, 3: 1}, {3: 2})
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tidings.errors import CodecError
from tidings.model.reader import Reader, put_varint
from tidings.overlay.effects import Router

ITEM_VERSION = 2
HEADER_BYTES = 4  # of a stored item: version, flags, the message's priority (as in a message), 0
REPEATED_FLAG = 1
EPOCH_RANDOM_BITS = 16


class CopyNumber(NamedTuple):
    """Names one copy for one router."""

    origin: Router
    epoch: int
    number: int  # from 1


class CopyNumbers(NamedTuple):
    """Those of one message. `repeated`: its publisher may have sent it before."""

    origin: Router
    epoch: int
    repeated: bool
    by_router: Mapping[Router, int]  # 0: not numbered

    def at(self, router: Router) -> CopyNumber | None:
        number = self.by_router.get(router, 0)
        return CopyNumber(self.origin, self.epoch, number) if number else None

    def without(self, router: Router) -> "CopyNumbers":
        rest = {other: number for other, number in self.by_router.items() if other != router}
        return self._replace(by_router=rest)


@dataclass(slots=True, eq=False)
class TransitItem:
    """A message in transit, and the routers that it still has to reach."""

    seq: int
    id: bytes
    message: bytes | None  # None: only the store has it
    size: int
    expires_ms: int
    hops: int
    numbers: CopyNumbers
    todo: set[Router]
    outstanding: int = 0  # copies that are not acknowledged


@dataclass(slots=True)
class TransitLink:
    """Copies that were sent by a link and not acknowledged."""

    bytes: int = 0
    copies: dict[int, tuple[TransitItem, tuple[Router, ...]]] = field(default_factory=dict)  # by tag


class CopyNumbering:
    """The origin's side."""

    def __init__(self, origin: Router) -> None:
        self.epoch = 0
        self._origin = origin
        self._last: dict[Router, int] = {}

    def begin(self, epoch: int) -> None:
        self.epoch = epoch
        self._last.clear()

    def take(self, routers: Iterable[Router], *, repeated: bool) -> CopyNumbers:
        last = self._last
        for router in (taken := {router: last.get(router, 0) + 1 for router in routers}):
            last[router] = taken[router]
        return CopyNumbers(self._origin, self.epoch, repeated, taken)


def new_epoch(incarnation: int, rng: Random) -> int:
    """Later than those of earlier runs, and random in its last bits: two runs that both start from the same backup,
    with a wrong clock, do not share it."""
    return (incarnation << EPOCH_RANDOM_BITS | rng.getrandbits(EPOCH_RANDOM_BITS)) % 2**64


def encode_item(message: bytes, numbers: CopyNumbers) -> bytes:
    """A message on its way as the store keeps it; its priority stands where a message has it, for the store."""
    out = bytearray((ITEM_VERSION, REPEATED_FLAG if numbers.repeated else 0, message[2], 0))
    put_varint(out, numbers.origin)
    put_varint(out, numbers.epoch)
    put_varint(out, len(numbers.by_router))
    for router in sorted(numbers.by_router):
        put_varint(out, router)
        put_varint(out, numbers.by_router[router])
    return bytes(out) + message


def decode_item(blob: bytes) -> tuple[bytes, CopyNumbers]:
    """
    >>> decode_item(encode_item(b"1234 and more", CopyNumbers(9, 1, False, {7: 2, 3: 5})))
    (b'1234 and more', CopyNumbers(origin=9, epoch=1, repeated=False, by_router={3: 5, 7: 2}))
    """
    if blob[:1] != bytes((ITEM_VERSION,)):
        raise CodecError("E_TRANSIT_VERSION", "stored item has an unknown version", position=0)
    reader = Reader(blob, family="CONTROL")
    reader.position = HEADER_BYTES
    origin, epoch = reader.varint(2**32 - 1), reader.varint(2**64 - 1)
    numbers = {reader.varint(2**32 - 1): reader.varint(2**64 - 1) for _ in range(reader.count())}
    return blob[reader.position :], CopyNumbers(origin, epoch, bool(blob[1] & REPEATED_FLAG), numbers)
