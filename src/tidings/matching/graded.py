"""Graded categories: ranges, prefixes, suffixes and substrings said more precisely than "the attribute exists".

Numbers. The doubles in their order are cut into *cells*: a cell of L bits holds all numbers that agree in the first L
bits of (sign, exponent, mantissa), L from 12 (a power of two to the next) to 20 (1/256 of that; every int up to 512
has its own). A number carries the nine cells it lies in, and its *marks*: for a set of powers of two, whether it is
above or below. An interval is then three things at most: cells up to the next power of two, one piece between two
marks, cells again.

      37 .. 100  =  [37,38) [38,40) [40,48) [48,64) [64,96) [96,100) [100,100.25)
      > 37       =  [37,38) [38,40) [40,48) [48,64)   ≥ 64
      3 .. 70    =  [3,4)   between 4 and 64          [64,68) ...

Where that is more than `pieces_max` pieces, larger cells at the ends make it a superset with fewer.

Text carries its first and last 1 to 8 bytes and all its runs of two and three bytes; a topic also its leading levels.
A pattern asks for those that follow from its literal parts.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidings.matching.categories import (
    EQUALS,
    NOTHING,
    UNSPOKEN,
    Alternative,
    Category,
    Demand,
    PlainGrade,
    equals,
    exists,
    plainly,
)
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import TOPIC_ATTRIBUTE
from tidings.model.like import Pattern
from tidings.model.values import Kind, Value, as_kind

CELL, MARK, BEGINS, ENDS, GRAM, LEVELS = range(EQUALS + 1, EQUALS + 7)
UP, UP_BELOW, DOWN, DOWN_BELOW, POSITIVE, NEGATIVE = range(6)
POWERS = (*range(21), 24, 28, 32, 40, 48, 56, 63)
BITS_MIN, BITS_MAX = 12, 20
EDGE_BYTES_MAX, LEVELS_MAX, GRAMS_MAX = 8, 8, 8
EXACT = 2.0**53  # below it no int is rounded

_ZERO = 1 << BITS_MAX - 1  # the cell of 0, the first of the upper half
_END = (1 << BITS_MAX) - 1


def ordered_key(number: float) -> int:
    """A number's place in the order of all doubles.

    >>> ordered_key(-1.5) < ordered_key(-1) < ordered_key(-0.0) == ordered_key(0) < ordered_key(5e-324)
    True
    """
    [bits] = struct.unpack("<Q", struct.pack("<d", float(number) + 0.0))
    return int(~bits & 2**64 - 1 if bits >> 63 else bits | 1 << 63)


def _cell(name: str, number: int, bits: int) -> Category:
    return name, bytes((CELL, bits)) + number.to_bytes(4, "little")


def _mark(name: str, side: int, power: int = 0) -> Category:
    return name, bytes((MARK, side, power))


def _finest(number: float) -> int:
    return ordered_key(number) >> 64 - BITS_MAX


@dataclass(frozen=True, slots=True)
class GradedGrade:
    pieces_max: int = 4

    def carried(self, name: str, value: Value) -> list[Category]:
        categories = PlainGrade().carried(name, value)
        if not categories:
            return categories
        if isinstance(value, str):
            categories += _text_carries(name, value.encode())
        if (number := as_kind(value, Kind.NUMBER)) is not None:
            assert isinstance(number, int | float)
            categories += _number_carries(name, float(number))
        return categories

    def asked(self, constraints: Sequence[Constraint]) -> list[Demand]:
        demands, ranges = [], dict[str, list[Constraint]]()
        for constraint in constraints:
            if _is_range(constraint):
                ranges.setdefault(constraint.name, []).append(constraint)
            elif not constraint.negated and constraint.op in _TEXT and constraint.name not in UNSPOKEN:
                categories = tuple(dict.fromkeys(_TEXT[constraint.op](constraint.name, str(constraint.value))))
                demands.append(Demand(((categories,), NOTHING)))
            else:
                demands.append(plainly(constraint))
        return demands + [self._range(name, ranged) for name, ranged in ranges.items()]

    def _range(self, name: str, constraints: list[Constraint]) -> Demand:
        """All comparisons with numbers of one attribute together: an interval."""
        low, high = 0, _END
        for constraint in constraints:
            assert isinstance(constraint.value, int | float)
            bound = float(constraint.value)
            step = int(constraint.op in (Op.LT, Op.GT) and abs(bound) < EXACT)
            if constraint.op in (Op.GT, Op.GE):
                low = max(low, min(ordered_key(bound) + step >> 64 - BITS_MAX, _END))
            else:
                high = min(high, max(ordered_key(bound) - step >> 64 - BITS_MAX, 0))
        anything = ((exists(name, Kind.NUMBER),),)
        if low > high:  # nothing satisfies it
            return Demand((anything, NOTHING))
        levels = [tuple(cover(name, low, high, pieces)) for pieces in (self.pieces_max, 2)]
        return Demand((*dict.fromkeys(levels), anything, NOTHING))


def _is_range(constraint: Constraint) -> bool:
    return (
        constraint.op in (Op.LT, Op.LE, Op.GT, Op.GE)
        and not constraint.negated
        and constraint.name not in UNSPOKEN
        and not isinstance(constraint.value, bool)
        and isinstance(constraint.value, int | float)
    )


def _number_carries(name: str, number: float) -> Iterator[Category]:
    key = ordered_key(number)
    for bits in range(BITS_MIN, BITS_MAX + 1):
        yield _cell(name, key >> 64 - bits, bits)
    yield _mark(name, NEGATIVE if number < 0 else POSITIVE)
    above, below = (DOWN, DOWN_BELOW) if number < 0 else (UP, UP_BELOW)
    for power in POWERS:
        yield _mark(name, above if abs(number) >= 2.0**power else below, power)


def cover(name: str, low: int, high: int, pieces_max: int) -> list[Alternative]:
    """Alternatives that together hold of every number whose finest cell is from low to high."""
    halves = [(max(low, start), min(high, end)) for start, end in ((0, _ZERO - 1), (_ZERO, _END))]
    halves = [(a, b) for a, b in halves if a <= b]
    whole = [(a, b) for a, b in halves if (a, b) in ((0, _ZERO - 1), (_ZERO, _END))]
    parts = len(halves) - len(whole)
    pieces: list[Alternative] = []
    for a, b in halves:
        if (a, b) in whole:
            pieces.append((_mark(name, NEGATIVE if a == 0 else POSITIVE),))
        else:
            pieces += _cover_half(name, a, b, max(1, (pieces_max - len(whole)) // parts))
    return pieces


def _cover_half(name: str, low: int, high: int, pieces_max: int) -> list[Alternative]:
    """The same for numbers of one sign. The lower half is the upper one in a mirror."""
    negative = high < _ZERO
    a, b = (_END - high, _END - low) if negative else (low, high)
    for bits in range(BITS_MAX, BITS_MIN - 1, -1):
        pieces = _pieces(name, a, b, bits, negative)
        if len(pieces) <= pieces_max:
            return pieces
    return [_between(name, *_marks_around(a, b), negative)]


_STARTS = tuple(_finest(2.0**power) for power in POWERS)  # the first cell of each power of two


def _marks_around(a: int, b: int) -> tuple[int | None, int | None]:
    """Indices of the nearest powers of two at or below a, and above b; None: there is none."""
    below = [i for i, start in enumerate(_STARTS) if start <= a]
    above = [i for i, start in enumerate(_STARTS) if start > b]
    return (below[-1] if below else None), (above[0] if above else None)


def _between(name: str, lower: int | None, upper: int | None, negative: bool) -> Alternative:
    marks = []
    if lower is not None:
        marks.append(_mark(name, DOWN if negative else UP, POWERS[lower]))
    if upper is not None:
        marks.append(_mark(name, DOWN_BELOW if negative else UP_BELOW, POWERS[upper]))
    return tuple(marks) or (_mark(name, NEGATIVE if negative else POSITIVE),)


def _pieces(name: str, a: int, b: int, bits: int, negative: bool) -> list[Alternative]:
    """Cells, a piece between marks, cells; no cell finer than `bits`."""
    shift = BITS_MAX - bits
    a, b = a >> shift << shift, (b >> shift) + 1 << shift  # b is now the first cell behind
    inside = [i for i, start in enumerate(_STARTS) if a <= start <= b]
    first = None if a == _ZERO else inside[0] if inside else -1
    last = None if b == _END + 1 else inside[-1] if inside else -1
    if first == -1 or last == -1 or (first is not None and first == last):
        if first is None or last is None:  # open at one side, and no mark inside
            return [_between(name, *_marks_around(a, b - 1), negative)]
        return _cells(name, a, b, negative)
    head = [] if first is None else _cells(name, a, _STARTS[first], negative)
    tail = [] if last is None else _cells(name, _STARTS[last], b, negative)
    return [*head, _between(name, first, last, negative), *tail]


def _cells(name: str, a: int, b: int, negative: bool) -> list[Alternative]:
    """The fewest cells that make up a to b, b not included."""
    cells: list[Alternative] = []
    while a < b:
        size = min(a & -a or 1 << BITS_MAX, 1 << BITS_MAX - BITS_MIN)
        while a + size > b:
            size >>= 1
        bits = BITS_MAX - size.bit_length() + 1
        start = _END + 1 - a - size if negative else a
        cells.append((_cell(name, start >> BITS_MAX - bits, bits),))
        a += size
    return cells


def _text_carries(name: str, text: bytes) -> Iterator[Category]:
    for size in range(1, min(EDGE_BYTES_MAX, len(text)) + 1):
        yield name, bytes((BEGINS, size)) + text[:size]
        yield name, bytes((ENDS, size)) + text[-size:]
    for size in (2, 3):
        for start in range(len(text) - size + 1):
            yield name, bytes((GRAM, size)) + text[start : start + size]
    if name == TOPIC_ATTRIBUTE:
        dots = [i for i, byte in enumerate(text) if byte == ord(".")][:LEVELS_MAX]
        for count, dot in enumerate(dots, 1):
            yield name, bytes((LEVELS, count)) + text[: dot + 1]


def _begins(name: str, prefix: bytes) -> list[Category]:
    size = min(len(prefix), EDGE_BYTES_MAX)
    edge = [(name, bytes((BEGINS, size)) + prefix[:size])] if size else []
    return edge + (_holds(name, prefix[size - 2 :]) if len(prefix) > size else [])


def _ends(name: str, suffix: bytes) -> list[Category]:
    size = min(len(suffix), EDGE_BYTES_MAX)
    edge = [(name, bytes((ENDS, size)) + suffix[-size:])] if size else []
    return edge + (_holds(name, suffix[: 2 - size]) if len(suffix) > size else [])


def _holds(name: str, part: bytes) -> list[Category]:
    if len(part) < 2:
        return []
    size = min(len(part), 3)
    starts = range(len(part) - size + 1)[:GRAMS_MAX]
    return [(name, bytes((GRAM, size)) + part[start : start + size]) for start in starts]


def _or_exists(name: str, categories: list[Category]) -> list[Category]:
    return categories or [exists(name, Kind.STRING)]


def _prefix_asks(name: str, operand: str) -> list[Category]:
    return _or_exists(name, _begins(name, operand.encode()))


def _suffix_asks(name: str, operand: str) -> list[Category]:
    return _or_exists(name, _ends(name, operand.encode()))


def _contains_asks(name: str, operand: str) -> list[Category]:
    return _or_exists(name, _holds(name, operand.encode()))


def _like_asks(name: str, operand: str) -> list[Category]:
    pattern = Pattern.parse(operand)
    if pattern.literals is not None and len(pattern.literals) == 1:
        return [equals(name, pattern.literals[0])]
    return _or_exists(name, _fragments_ask(name, _fragments(pattern)))


def _fragments(pattern: Pattern) -> list[str]:
    """Literal texts in order; the first begins the value and the last ends it, either may be empty."""
    fragments = [""]
    for number, run in enumerate(pattern.runs):
        if number:
            fragments.append("")
        for one in run:
            if one is None:
                fragments.append("")
            else:
                fragments[-1] += one
    return fragments


def _fragments_ask(name: str, fragments: list[str]) -> list[Category]:
    first, *middle, last = (fragment.encode() for fragment in fragments)
    categories = _begins(name, first) + _ends(name, last)
    for fragment in middle:
        categories += _holds(name, fragment)
    return categories


def _topic_asks(name: str, operand: str) -> list[Category]:
    levels = operand.split(".")
    if "*" not in levels and levels[-1] != ">":
        return [equals(name, operand)]
    fragments = [""]
    for number, level in enumerate(levels):
        fragments[-1] += "." if number else ""
        if level == "*" or (level == ">" and number == len(levels) - 1):
            fragments.append("")
        else:
            fragments[-1] += level
    head = fragments[0].encode()
    if name == TOPIC_ATTRIBUTE and head and head.count(b".") <= LEVELS_MAX:
        whole = [(name, bytes((LEVELS, head.count(b"."))) + head)]
        return whole + _fragments_ask(name, ["", *fragments[1:]])
    return _or_exists(name, _fragments_ask(name, fragments))


_TEXT = {
    Op.PREFIX: _prefix_asks,
    Op.SUFFIX: _suffix_asks,
    Op.CONTAINS: _contains_asks,
    Op.LIKE: _like_asks,
    Op.TOPIC: _topic_asks,
}
