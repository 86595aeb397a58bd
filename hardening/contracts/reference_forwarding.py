"""Forwarding in plain Python: what the kernel does with a message between brokers, to read and to test it by.

⟨D, m⟩ is a message and the routers it still has to reach. The router where a message enters matches it against the
interests of all others, once, which gives D. From then on each router only takes itself out of D and divides the rest
by next hop. Where D has more than `broadcast_above` routers, the message is broadcast instead: everyone takes it from
the neighbour that lies on the way to its origin, and passes it to all others.

>>> plane = ReferenceForwarding(1, broadcast_above=0)
>>> plane.neighbours = {2, 3}
>>> plane.next_hops = {2: 2, 3: 3, 4: 2}
>>> {neighbour: copy.routers for neighbour, copy in plane.enter(b"m", [2, 3, 4, 9]).items()}
{2: (2, 4), 3: (3,)}
>>> plane.no_route
1
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidings.errors import CodecError
from tidings.model.reader import Reader, put_varint
from tidings.routing.effects import Router

BROADCAST, BIT_SET, TAGGED, REPEATED, EVENT, BY_TYPE, BY_FILTER, RISING = 1, 2, 4, 8, 16, 32, 64, 128
ROUTERS_MAX = 1 << 16
ID = slice(4, 20)


@dataclass(frozen=True, slots=True)
class EventPlace:
    """The place of an event in the network: the tree of a type (tidings.routing.hermes), and for whom it goes there."""

    type: str
    by_type: bool = True
    by_filter: bool = True
    rising: bool = False


@dataclass(frozen=True, slots=True)
class Forward:
    """The payload of a FORWARD frame (docs/wire.md, "Forwarded messages")."""

    hops: int  # how many more links it may cross
    message: bytes
    routers: tuple[Router, ...] = ()  # ascending
    origin: Router | None = None  # of a broadcast; of a copy with a tag: the router that numbered it
    tag: int | None = None  # an acknowledgement is wanted
    epoch: int = 0  # with a tag, as what follows: of the origin
    numbers: tuple[int, ...] = ()  # one for each router
    repeated: bool = False  # its publisher may have sent it before
    event: EventPlace | None = None  # it travels by the tree of a type, not to routers


class ReferenceForwarding:
    """One router's forwarding step. `neighbours` are those with a live link."""

    def __init__(self, router: Router, *, hops_max: int = 32, broadcast_above: int = 0) -> None:
        self.router = router
        self.hops_max, self.broadcast_above = hops_max, broadcast_above
        self.neighbours: set[Router] = set()
        self.next_hops: dict[Router, Router] = {}
        self.no_route = self.no_hops = self.duplicates = self.wrong_path = 0
        self._seen: set[bytes] = set()

    def enter(self, message: bytes, routers: Iterable[Router]) -> dict[Router, Forward]:
        """Copies by neighbour for a message that enters the network here."""
        wanted = sorted(set(routers) - {self.router})
        if self.broadcast_above and len(wanted) > self.broadcast_above:
            copy = Forward(self.hops_max - 1, message, origin=self.router)
            return dict.fromkeys(self.neighbours, copy)
        return self._divide(message, wanted, self.hops_max - 1)

    def arrive(self, neighbour: Router, copy: Forward) -> tuple[bool, dict[Router, Forward]]:
        """Returns whether a copy is to be delivered here, and the copies to pass on."""
        if copy.origin is not None and copy.tag is None:
            return self._arrive_broadcast(neighbour, copy, copy.origin)
        rest = [router for router in copy.routers if router != self.router]
        here = len(rest) < len(copy.routers)
        if rest and copy.hops == 0:
            self.no_hops += len(rest)
            return here, {}
        return here, self._divide(copy.message, rest, copy.hops - 1)

    def _arrive_broadcast(self, neighbour: Router, copy: Forward, origin: Router) -> tuple[bool, dict[Router, Forward]]:
        if origin == self.router or copy.message[ID] in self._seen:
            self.duplicates += 1
            return False, {}
        if self.next_hops.get(origin) != neighbour:
            self.wrong_path += 1
            return False, {}
        self._seen.add(copy.message[ID])
        if copy.hops == 0:
            self.no_hops += 1
            return True, {}
        return True, dict.fromkeys(self.neighbours - {neighbour}, replace(copy, hops=copy.hops - 1))

    def _divide(self, message: bytes, routers: list[Router], hops: int) -> dict[Router, Forward]:
        parts: dict[Router, list[Router]] = {}
        for router in routers:
            hop = self.next_hops.get(router)
            if hop is None or hop not in self.neighbours:
                self.no_route += 1
            else:
                parts.setdefault(hop, []).append(router)
        return {hop: Forward(hops, message, tuple(part)) for hop, part in parts.items()}


def encode_forward(copy: Forward) -> bytes:
    if copy.event is not None:
        return _encode_event(copy, copy.event)
    body = bytearray()
    flags = 0 if copy.tag is None else TAGGED | (REPEATED if copy.repeated else 0)
    if copy.origin is not None and copy.tag is None:
        flags |= BROADCAST
    else:
        as_list, as_bits = _encode_list(copy.routers), _encode_bits(copy.routers)
        flags |= BIT_SET if as_bits is not None and len(as_bits) < len(as_list) else 0
        body += as_bits if flags & BIT_SET and as_bits is not None else as_list
    head = bytearray((copy.hops, flags))
    if copy.tag is not None:
        put_varint(head, copy.tag)
    if flags & (TAGGED | BROADCAST):
        put_varint(head, copy.origin or 0)
    if copy.tag is not None:
        head += copy.epoch.to_bytes(8, "little")
        for number in copy.numbers:
            put_varint(body, number)
    head += body
    return len(head).to_bytes(4, "little") + bytes(head) + copy.message


def _encode_event(copy: Forward, event: EventPlace) -> bytes:
    flags = EVENT | BY_TYPE * event.by_type | BY_FILTER * event.by_filter | RISING * event.rising
    head, name = bytearray((copy.hops, flags)), event.type.encode()
    put_varint(head, len(name))
    head += name
    return len(head).to_bytes(4, "little") + bytes(head) + copy.message


def _encode_list(routers: tuple[Router, ...]) -> bytes:
    out = bytearray()
    put_varint(out, len(routers))
    for before, router in zip((0, *routers), routers, strict=False):
        put_varint(out, router - before)
    return bytes(out)


def _encode_bits(routers: tuple[Router, ...]) -> bytes | None:
    if not routers or (size := (routers[-1] - routers[0]) // 8 + 1) > ROUTERS_MAX // 8:
        return None
    out = bytearray()
    put_varint(out, routers[0])
    put_varint(out, size)
    return bytes(out) + sum(1 << router - routers[0] for router in routers).to_bytes(size, "little")


def decode_forward(payload: bytes) -> Forward:
    """The inverse of `encode_forward`. The kernel's decoder is the one that meets strangers."""
    size = int.from_bytes(payload[:4], "little")
    if len(payload) < 4 + size:
        raise CodecError("E_CODEC_TRUNCATED", "the data ends too early", position=len(payload))
    reader, message = Reader(payload[4 : 4 + size], family="CONTROL"), payload[4 + size :]
    hops, flags = reader.byte(), reader.byte()
    if flags & EVENT:
        name = reader.counted(1024).decode()
        place = EventPlace(name, bool(flags & BY_TYPE), bool(flags & BY_FILTER), bool(flags & RISING))
        return Forward(hops, message, event=place)
    tag = reader.varint(2**64 - 1) if flags & TAGGED else None
    origin = reader.varint(2**32 - 1) if flags & (TAGGED | BROADCAST) else None
    if flags & BROADCAST:
        return Forward(hops, message, (), origin)
    epoch = int.from_bytes(reader.take(8, "an epoch"), "little") if flags & TAGGED else 0
    routers: list[int] = []
    if flags & BIT_SET:
        first, bits = reader.varint(2**32 - 1), int.from_bytes(reader.counted(ROUTERS_MAX // 8), "little")
        routers = [first + i for i in range(bits.bit_length()) if bits >> i & 1]
    else:
        for _ in range(reader.count()):
            routers.append((routers[-1] if routers else 0) + reader.varint(2**32 - 1))
    numbers = tuple(reader.varint(2**64 - 1) for _ in routers) if flags & TAGGED else ()
    return Forward(hops, message, tuple(routers), origin, tag, epoch, numbers, bool(flags & REPEATED))
