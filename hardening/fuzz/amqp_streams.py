"""Valid AMQP streams, frame by frame, from which the fuzzing of AMQP starts."""

import struct
from typing import Any
from uuid import UUID

from tidings.protocols.amqp.sasl import AMQP_HEADER, INIT, RESPONSE, SASL_HEADER, amqp_frame, sasl_frame
from tidings.protocols.amqp.sections import MessageSection, encode
from tidings.protocols.amqp.wire.types import (
    Array,
    Described,
    TypeCode,
    array,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SOURCE, TARGET, COORDINATOR = (ulong(code) for code in (0x28, 0x29, 0x30))
RECEIVED, ACCEPTED, REJECTED, RELEASED, MODIFIED = (ulong(code) for code in range(0x23, 0x28))
DECLARE, DISCHARGE, TRANSACTIONAL, ERROR = (ulong(code) for code in (0x31, 0x32, 0x34, 0x1D))
WHOLE = uint(0xFFFF)
ACCEPT = Described(ACCEPTED, [])
LOG_IN = (SASL_HEADER, sasl_frame(INIT, [symbol("ANONYMOUS"), b"x"]), AMQP_HEADER)

HEADER = encode(MessageSection.HEADER, [True, ubyte(7), uint(5000), None, uint(1)])
PROPERTIES = encode(MessageSection.PROPERTIES, ["id", None, "queue://a", "s", "queue://r"])
MESSAGE = PROPERTIES + encode(MessageSection.APPLICATION_PROPERTIES, {"n": 3, "u": uint(7)})
MESSAGE += encode(MessageSection.VALUE, {"a": [1, None]})


def on(channel: int, frame: bytes) -> bytes:
    """The frame on another channel."""
    return frame[:6] + struct.pack(">H", channel) + frame[8:]


def transfer(fields: list[Any], payload: bytes) -> bytes:
    frame = amqp_frame(TRANSFER, fields)
    return struct.pack(">I", len(frame) + len(payload)) + frame[4:] + payload


def flow(handle: int, credit: int, *, drain: bool = False) -> bytes:
    return amqp_frame(FLOW, [uint(0), WHOLE, uint(1), WHOLE, uint(handle), uint(0), uint(credit), None, drain])


def attach(name: str, handle: int, *, receives: bool, source: list[Any], target: Any, settle: Any = None) -> bytes:
    described = [Described(SOURCE, source), target]
    return amqp_frame(ATTACH, [name, uint(handle), receives, settle, None, *described, None, None, uint(0)])


def settled(first: int, last: int | None, state: Any, *, receives: bool = True, done: bool = True) -> bytes:
    return amqp_frame(DISPOSITION, [receives, uint(first), None if last is None else uint(last), done, state])


def begin() -> bytes:
    return amqp_frame(BEGIN, [None, uint(0), WHOLE, WHOLE])


def opened() -> list[bytes]:
    return [*LOG_IN, amqp_frame(OPEN, ["fuzz", "host", uint(65536)]), begin()]


def conversation() -> list[bytes]:
    """A little of everything."""
    selector = {symbol("s"): Described(symbol("apache.org:selector-filter:string"), "n > 2")}
    return [
        *opened(),
        attach("out", 0, receives=False, source=[], target=Described(TARGET, ["a"])),
        attach("in", 1, receives=True, source=["a", None, None, None, None, None, None, selector], target=None),
        attach("kept", 2, receives=True, source=["topic://t.>", uint(2), symbol("never")], target=None),
        attach("reply", 3, receives=True, source=[None, None, None, None, True], target=None),
        attach("tx", 4, receives=False, source=[], target=Described(COORDINATOR, [])),
        flow(1, 10),
        flow(2, 5),
        transfer([uint(0), uint(0), b"0", uint(0), False], MESSAGE),
        transfer([uint(0), uint(1), b"1", uint(0), True], MESSAGE),
        transfer([uint(0), uint(2), b"2", uint(0), False, True], MESSAGE[:20]),
        transfer([uint(0), uint(2), None, None, None, False], MESSAGE[20:]),
        transfer([uint(4), uint(3), b"3", uint(0), False], encode(MessageSection.VALUE, Described(DECLARE, []))),
        transfer([uint(0), uint(4), b"4", uint(0), False, None, None, _in_transaction()], MESSAGE),
        settled(0, 1, ACCEPT),
        flow(1, 100, drain=True),
        amqp_frame(DETACH, [uint(2), False]),
        amqp_frame(DETACH, [uint(1), True]),
        amqp_frame(END, []),
        amqp_frame(CLOSE, []),
    ]


def _in_transaction() -> Described:
    return Described(TRANSACTIONAL, [b"\x00\x01", ACCEPT])


def values() -> list[bytes]:
    """Messages of all sections and all types."""
    many: list[Any] = [
        True,
        ubyte(1),
        byte(-1),
        ushort(2),
        short(-2),
        uint(3),
        int32(-3),
        ulong(1 << 40),
        -4,
        char("ä"),
    ]
    many += [float32(0.5), 0.25, decimal32(1), decimal64(2), decimal128(b"x" * 16), timestamp(9), UUID(int=5), b"b"]
    arrays: list[Any] = [
        array(TypeCode.INT, int32(1), int32(2)),
        Array(TypeCode.STRING, ("x", "y" * 300), symbol("d"), described=True),
        array(TypeCode.LIST),
    ]
    nested: Any = [[{"k": Described(symbol("x:y"), [Described(ulong(9), {"m": arrays})])}]]
    kept = encode(MessageSection.DELIVERY_ANNOTATIONS, {symbol("d"): 1}) + encode(
        MessageSection.MESSAGE_ANNOTATIONS, {symbol("m"): many}
    )
    footer = encode(MessageSection.FOOTER, {symbol("f"): "x" * 300})
    sequences = encode(MessageSection.SEQUENCE, many) + encode(MessageSection.SEQUENCE, nested)
    return [
        *opened(),
        attach("out", 0, receives=False, source=[], target=Described(TARGET, [None])),
        transfer([uint(0), uint(0), b"0", uint(0), False], HEADER + kept + MESSAGE + footer),
        transfer([uint(0), uint(1), b"1", uint(0), False], PROPERTIES + sequences),
        transfer([uint(0), uint(2), b"2", uint(0), False], PROPERTIES + encode(MessageSection.DATA, b"x" * 300)),
        amqp_frame(CLOSE, [Described(ERROR, [symbol("amqp:internal-error"), "why", {symbol("k"): 1}])]),
    ]


def outcomes() -> list[bytes]:
    """A consumer that decides in every way, and one that looks only."""
    modified = Described(MODIFIED, [True, True, {symbol("x-opt-k"): 1}])
    refused = Described(REJECTED, [Described(ERROR, [symbol("a:b"), "no", {symbol("k"): "v"}])])
    browse = ["queue://a", None, None, None, None, None, symbol("copy"), None, modified, array(TypeCode.SYMBOL)]
    states = (refused, Described(RELEASED, []), modified, Described(RECEIVED, [uint(1), ulong(2)]), _in_transaction())
    return [
        *opened(),
        attach("in", 0, receives=True, source=["a"], target=Described(TARGET, ["here"])),
        attach("look", 1, receives=True, source=browse, target=Described(TARGET, [])),
        attach("quick", 2, receives=True, source=["topic://a"], target=None, settle=ubyte(1)),
        flow(0, 9),
        flow(1, 3),
        flow(2, 2),
        *(settled(number, None, state) for number, state in enumerate(states)),
        settled(0, 9, None),
        settled(2, 4, ACCEPT, done=False),
        flow(0, 0),
        amqp_frame(FLOW, [None, WHOLE, uint(0), WHOLE]),
        amqp_frame(DETACH, [uint(0), True, Described(ERROR, [symbol("amqp:link:stolen"), "why"])]),
    ]


def sessions() -> list[bytes]:
    """Several sessions, links that end and come again, a message that is given up, a transaction to its end."""
    properties = {symbol("product"): "fuzz", symbol("n"): 1}
    many = ["fuzz", "host", uint(512), ushort(9), uint(9000), None, None, [symbol("X")], symbol("Y"), properties]
    discharge = encode(MessageSection.VALUE, Described(DISCHARGE, [b"\x00\x01", False]))
    out = attach("out", 0, receives=False, source=[], target=Described(TARGET, [None, None, None, None, True]))
    return [
        *LOG_IN,
        amqp_frame(OPEN, many),
        begin(),
        on(1, begin()),
        out,
        on(1, out),
        transfer([uint(0), uint(0), b"0", uint(0), False, True], b"half"),
        transfer([uint(0), uint(0), None, None, None, False, None, None, None, True], b""),
        on(1, transfer([uint(0), uint(0), b"0", uint(0), False, True], MESSAGE[:9])),
        on(1, amqp_frame(END, [Described(ERROR, [symbol("a:b"), "no"])])),
        on(1, begin()),
        amqp_frame(DETACH, [uint(0), True]),
        attach("tx", 0, receives=False, source=[], target=Described(COORDINATOR, [symbol("amqp:local-transactions")])),
        transfer([uint(0), uint(1), b"1", uint(0), False], encode(MessageSection.VALUE, Described(DECLARE, [None]))),
        transfer([uint(0), uint(2), b"2", uint(0), False], discharge),
        b"\0\0\0\x08\x02\0\0\0",  # a sign of life
        settled(0, None, None, receives=False),
        amqp_frame(END, []),
        amqp_frame(CLOSE, []),
    ]


def abrupt() -> list[bytes]:
    """Sessions that end while much is under way, and the connection with the last."""
    out = attach("out", 0, receives=False, source=[], target=Described(TARGET, ["a"]))
    reads = attach("in", 1, receives=True, source=["a"], target=None)
    sent = transfer([uint(0), uint(0), b"0", uint(0), False], MESSAGE)
    begun = [begin(), out, reads, flow(1, 5), sent]
    return [
        *opened(),
        *begun[1:],
        amqp_frame(END, []),
        *begun,
        amqp_frame(DETACH, [uint(1), True]),
        amqp_frame(CLOSE, []),
    ]


def plain() -> list[bytes]:
    """A login in two steps by an unknown user."""
    asked, answered = sasl_frame(INIT, [symbol("PLAIN")]), sasl_frame(RESPONSE, [b"\0user\0password"])
    return [SASL_HEADER, asked, answered, AMQP_HEADER, amqp_frame(OPEN, ["fuzz"]), amqp_frame(CLOSE, [])]


def conversations() -> dict[str, list[bytes]]:
    said = {"everything": conversation(), "values": values(), "outcomes": outcomes()}
    return said | {"sessions": sessions(), "abrupt": abrupt(), "plain": plain()}
