"""A connection of calibration that speaks AMQP 1.0."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidings.lab.calibration.wires import ClientAccount, FrameCounts, LoadMessage, LoadSubscription, refused
from tidings.protocols.amqp.sasl import AMQP_HEADER, INIT, SASL_HEADER, amqp_frame, sasl_frame
from tidings.protocols.amqp.sections import MessageSection, encode
from tidings.protocols.amqp.wire.decode import decode_first
from tidings.protocols.amqp.wire.types import Described, symbol, ubyte, uint, ulong

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SOURCE, TARGET, ACCEPTED = ulong(0x28), ulong(0x29), ulong(0x24)
SELECTOR = "apache.org:selector-filter:string"
MANY = uint(0x7FFF_FFFF)
FRAME_BYTES = uint(1 << 20)
SETTLED, UNSETTLED, DURABLE = ubyte(1), ubyte(0), uint(2)
NUMBER_AT = struct.Struct(">I")
_MARK = 0x7EADBEEF  # a delivery id that is replaced


@dataclass(slots=True)
class AmqpWire:
    account: ClientAccount
    _rest: bytes = b""
    _layers: int = 2  # protocol headers to come: of SASL, of AMQP
    _received: int = 0  # messages, over all
    _durable: bool = False

    def login(self, client: str, *, publishes: str = "") -> tuple[bytes, int]:
        user, password = self.account.user, self.account.password
        how = [symbol("PLAIN"), f"\0{user}\0{password}".encode()] if user else [symbol("ANONYMOUS"), b"lab"]
        said = SASL_HEADER + sasl_frame(INIT, how) + AMQP_HEADER
        said += amqp_frame(OPEN, [client or "lab", "localhost", FRAME_BYTES])
        said += amqp_frame(BEGIN, [None, uint(0), MANY, MANY])
        if not publishes:
            return said, 1
        target = Described(TARGET, [f"topic://{publishes}"])
        link = ["out", uint(0), False, None, None, Described(SOURCE, []), target, None, None, uint(0)]
        return said + amqp_frame(ATTACH, link), 2

    def subscribe(self, number: int, plan: LoadSubscription) -> tuple[bytes, int]:
        self._durable = self._durable or bool(plan.durable)
        source: list[Any] = [
            f"topic://{plan.topic}",
            *([DURABLE, symbol("never")] if plan.durable else [None, None]),
        ]
        source += [None, None, None, None]
        if plan.selector:
            source.append({symbol("selector"): Described(symbol(SELECTOR), plan.selector)})
        settle = UNSETTLED if plan.durable else SETTLED
        name = plan.durable or f"in{number}"
        ends = [Described(SOURCE, source), Described(TARGET, [])]
        attach = amqp_frame(ATTACH, [name, uint(number), True, settle, None, *ends, None, None, None])
        flow = amqp_frame(FLOW, [uint(0), MANY, uint(0), MANY, uint(number), uint(0), MANY])
        return attach + flow, 1

    def forget(self, number: int, plan: LoadSubscription) -> tuple[bytes, int]:
        return amqp_frame(DETACH, [uint(number), True]), 1

    def publisher(self, plans: Sequence[LoadMessage]) -> Callable[[int, int], bytes]:
        frames = [_transfer(plan) for plan in plans]

        def frame(plan: int, number: int) -> bytes:
            before, after = frames[plan]
            return before + NUMBER_AT.pack(number) + after

        return frame

    def feed(self, data: bytes) -> FrameCounts:
        stream, position, found = self._rest + data if self._rest else data, 0, FrameCounts()
        while len(stream) - position >= 8:
            if self._layers and stream.startswith(b"AMQP", position):
                self._layers, position = self._layers - 1, position + 8
                continue
            size, offset, kind = struct.unpack_from(">IBB", stream, position)
            if position + size > len(stream):
                break
            if size > 8:
                self._count(found, kind, stream[position + 4 * offset : position + size])
            position += size
        self._rest = stream[position:]
        if self._durable and found.messages:
            first = self._received - found.messages
            outcome = [True, uint(first), uint(self._received - 1), True, Described(ACCEPTED, [])]
            found.reply = amqp_frame(DISPOSITION, outcome)
        return found

    def _count(self, found: FrameCounts, kind: int, body: bytes) -> None:
        """`body` begins with the descriptor of a performative: 0x00 0x53 and its code."""
        code = body[2]
        if kind:  # SASL
            if code == 0x44 and int(_fields(body)[0]):
                raise refused(body)
        elif code == TRANSFER:
            found.messages += 1
            self._received += 1
        elif code == DISPOSITION:
            _, first, last, *_ = [*_fields(body), None]
            found.confirmations += (int(first) if last is None else int(last)) - int(first) + 1
        elif code in (BEGIN, ATTACH):
            found.answers += 1
        elif code == DETACH:
            if _detached(body):
                raise refused(body)
            found.answers += 1
        elif code in (CLOSE, END):
            raise refused(body)


def _fields(body: bytes) -> list[Any]:
    """Of a performative."""
    found: Any = decode_first(body)[0]
    return list(found.value)


def _detached(body: bytes) -> bool:
    """True if it names an error."""
    fields = _fields(body)
    return len(fields) > 2 and fields[2] is not None


def _transfer(plan: LoadMessage) -> tuple[bytes, bytes]:
    """Without the delivery's number: what comes before it, and after."""
    content = encode(MessageSection.HEADER, [True]) if plan.persistent else b""
    content += encode(MessageSection.APPLICATION_PROPERTIES, dict(plan.properties))
    content += encode(MessageSection.DATA, plan.body)
    frame = amqp_frame(TRANSFER, [uint(0), uint(_MARK), b"0", uint(0), not plan.persistent])
    frame = struct.pack(">I", len(frame) + len(content)) + frame[4:] + content
    before, _, after = frame.partition(NUMBER_AT.pack(_MARK))
    return before, after
