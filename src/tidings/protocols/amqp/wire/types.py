"""AMQP's types that Python has none of its own for (specification, part 1).

All other values are Python's: None, bool, float (double), int (long), str, bytes, UUID, list, dict.

>>> ulong(7), symbol("amqp:accepted:list"), Described(ulong(0x24), [])
(ulong(7), symbol('amqp:accepted:list'), Described(descriptor=ulong(36), value=[]))
"""

from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

AmqpValue: TypeAlias = Any  # the union is recursive, and which types are allowed differs from field to field


class TypeCode(IntEnum):
    """Constructors, the widest of each type, as arrays are written."""

    NULL = 0x40
    BOOLEAN = 0x56
    UBYTE = 0x50
    BYTE = 0x51
    USHORT = 0x60
    SHORT = 0x61
    UINT = 0x70
    INT = 0x71
    FLOAT = 0x72
    CHAR = 0x73
    DECIMAL32 = 0x74
    ULONG = 0x80
    LONG = 0x81
    DOUBLE = 0x82
    TIMESTAMP = 0x83
    DECIMAL64 = 0x84
    DECIMAL128 = 0x94
    UUID = 0x98
    BINARY = 0xB0
    STRING = 0xB1
    SYMBOL = 0xB3
    LIST = 0xD0
    MAP = 0xD1
    ARRAY = 0xF0


class _Number(int):
    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"


class ubyte(_Number): ...  # noqa: N801 - the specification's names


class byte(_Number): ...  # noqa: N801


class ushort(_Number): ...  # noqa: N801


class short(_Number): ...  # noqa: N801


class uint(_Number): ...  # noqa: N801


class int32(_Number): ...  # noqa: N801


class ulong(_Number): ...  # noqa: N801


class timestamp(_Number):  # noqa: N801
    """Milliseconds since 1970."""


class decimal32(_Number):  # noqa: N801
    """Its bits; see `tidings.protocols.amqp.decimals`."""


class decimal64(_Number):  # noqa: N801
    """Its bits."""


class decimal128(bytes):  # noqa: N801
    """Its bits."""


class float32(float):  # noqa: N801
    ...


class char(str):  # noqa: N801
    """One character."""

    __slots__ = ()


class symbol(str):  # noqa: N801
    """A name, in ASCII."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"symbol({super().__repr__()})"


class Described(NamedTuple):
    descriptor: AmqpValue
    value: AmqpValue


class Array(NamedTuple):
    """Values of one type. `descriptor`: of each of them, if `described`."""

    code: TypeCode
    elements: tuple[AmqpValue, ...]
    descriptor: AmqpValue = None
    described: bool = False


class Pairs(list[tuple[AmqpValue, AmqpValue]]):
    """A map whose names Python cannot hash."""


def array(code: TypeCode, *elements: AmqpValue) -> Array:
    return Array(code, elements)


def symbols(*names: str) -> Array:
    return Array(TypeCode.SYMBOL, tuple(map(symbol, names)))
