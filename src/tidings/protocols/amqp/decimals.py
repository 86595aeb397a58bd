"""Decimal numbers of AMQP (IEEE 754-2008, the binary encoding) as text.

Python has no such types: a value of theirs is its bits.

>>> decimal_text(decimal64(0x31A0_0000_0000_000F)), decimal_text(decimal32(0x7800_0000))
('1.5', 'Infinity')
"""

from decimal import Decimal

from tidings.protocols.amqp.wire.types import decimal32, decimal64, decimal128

_EXPONENT_BITS = {32: 8, 64: 10, 128: 14}
_DIGITS = {32: 7, 64: 16, 128: 34}


def decimal_text(value: decimal32 | decimal64 | decimal128) -> str:
    if isinstance(value, decimal128):
        bits, width = int.from_bytes(value, "big"), 128
    else:
        bits, width = int(value), 32 if isinstance(value, decimal32) else 64
    negative, rest = bits >> (width - 1) & 1, bits & (1 << (width - 1)) - 1
    top = rest >> (width - 6)  # the five bits behind the sign tell what it is
    if top == 0b11111:
        return "NaN"
    if top == 0b11110:
        return "-Infinity" if negative else "Infinity"
    exponent_bits, digits = _EXPONENT_BITS[width], _DIGITS[width]
    low = width - 1 - exponent_bits  # bits of the coefficient behind an exponent that comes first
    coefficient = rest & (1 << low) - 1
    if top >> 3 == 0b11:  # a large coefficient: it begins with 100, and the exponent two bits later
        low -= 2
        coefficient = 0b100 << low | rest & (1 << low) - 1
    exponent = (rest >> low & (1 << exponent_bits) - 1) - _bias(exponent_bits, digits)
    if coefficient >= 10**digits:
        coefficient = 0  # as the standard reads it
    return str(Decimal((negative, tuple(map(int, str(coefficient))), exponent)))


def _bias(exponent_bits: int, digits: int) -> int:
    return 3 * (1 << (exponent_bits - 3)) + digits - 2
