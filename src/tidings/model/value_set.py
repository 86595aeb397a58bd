"""Sets of values as rows of cuts: exact union, intersection, inclusion.

All an attribute can be, missing included, lies on one line:

    missing | False True | -inf … numbers … inf | "" … strings … | b"" … bytes … | end
    (-1,)     (0, False)   (1, -inf)              (2, "")          (3, b"")        (4,)

A *key* is a place on that line: (kind, value). Every value has a next one (a number's is the least 64-bit int or float
above it, a string's is itself and U+0000), so every set the operators =, <>, <, <=, >, >=, IN, prefix and their
negations can describe is a union of half-open intervals, and that is a flat sorted tuple of keys: in, out, in, out.
There is one such tuple for each set. Open and closed ends, gaps between representable numbers, infinities and
"any other kind" need no cases of their own.

>>> over_20 = cuts(Constraint("price", Op.GT, 20))
>>> over_20
((1, 20.000000000000004), (2, ''))
>>> subset(over_20, cuts(Constraint("price", Op.GE, 20))), overlap(over_20, cuts(Constraint("price", Op.LE, 20)))
(True, False)
>>> cuts(Constraint("name", Op.PREFIX, "ab"))
((2, 'ab'), (2, 'ac'))
"""

import math
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from tidings.model.constraint import Constraint, Op
from tidings.model.values import INT_MAX, INT_MIN, Kind, Value

Key: TypeAlias = tuple[Any, ...]
Cuts: TypeAlias = tuple[Key, ...]

MISSING_KEY: Key = (-1,)
FLOORS: tuple[Key, ...] = ((0, False), (1, -math.inf), (2, ""), (3, b""), (4,))  # where each kind begins, and the end

NOTHING: Cuts = ()
ALL: Cuts = (MISSING_KEY, FLOORS[-1])
PRESENT: Cuts = (FLOORS[0], FLOORS[-1])
MISSING: Cuts = (MISSING_KEY, FLOORS[0])
STRINGS: Cuts = (FLOORS[Kind.STRING], FLOORS[Kind.BYTES])
CODE_POINT_MAX = 0x10FFFF


def number_after(number: float) -> float | None:
    """The least value above: an int in 64 bits or a float, whichever is nearer; None above infinity."""
    if number == math.inf:
        return None
    nearest = float(number)
    real = nearest if nearest > number else math.nextafter(nearest, math.inf)
    if not INT_MIN <= number < INT_MAX:
        return real  # INT_MIN itself is a float
    whole = math.floor(number) + 1
    return min(real, whole)


def number_before(number: float) -> float | None:
    """The greatest value below; None below minus infinity."""
    after = number_after(-number)  # -INT_MIN is no int64, but a float
    return None if after is None else -after


def key_of(value: Value) -> Key:
    match value:
        case bool():
            return (0, value)
        case str():
            return (2, value)
        case bytes():
            return (3, value)
        case _:
            return (1, value)


def key_after(key: Key) -> Key:
    """The key of the next value; where its kind ends, the beginning of the next kind."""
    kind, value = key
    following: Value | None
    match kind:
        case Kind.BOOL:
            following = None if value else True
        case Kind.NUMBER:
            following = number_after(value)
        case Kind.STRING:
            following = value + "\0"
        case _:
            following = value + b"\0"
    return FLOORS[kind + 1] if following is None else (kind, following)


def prefix_end(prefix: str) -> Key:
    """The first key above all strings that begin with this."""
    stem = prefix.rstrip(chr(CODE_POINT_MAX))
    if not stem:
        return FLOORS[Kind.BYTES]
    point = ord(stem[-1]) + 1
    return (2, stem[:-1] + chr(0xE000 if point == 0xD800 else point))  # surrogates stand in no string


def key_bytes(key: Key) -> bytes:
    """A key as bytes, in the same order. Where a kind begins is one byte.

    >>> keys = [MISSING_KEY, *FLOORS, (1, 2**53), (1, 2**53 + 1), (1, -0.5), (1, 3), (2, "ab"), (3, b"x"), (0, True)]
    >>> sorted(keys) == sorted(keys, key=key_bytes)
    True
    """
    kind = key[0]
    head = bytes((kind + 1,))
    match kind:
        case Kind.BOOL:
            return head + b"\1" if key[1] else head
        case Kind.NUMBER:
            return head if key[1] == -math.inf else head + _number_bytes(key[1])
        case Kind.STRING:
            return head + bytes(key[1].encode())
        case Kind.BYTES:
            return head + bytes(key[1])
        case _:
            return head


def _number_bytes(number: float) -> bytes:
    """A float in the order of all floats, then the distance to it of an int that it cannot hold."""
    nearest = float(number) + 0.0
    bits: int = struct.unpack(">Q", struct.pack(">d", nearest))[0]
    bits = ~bits & 2**64 - 1 if bits >> 63 else bits | 1 << 63
    apart: int = number - int(nearest) if isinstance(number, int) else 0
    return bits.to_bytes(8, "big") + (0x8000 + apart).to_bytes(2, "big")


def points(keys: Iterable[Key]) -> Cuts:
    """The set of just these values; keys in ascending order."""
    flat: list[Key] = []
    for key in keys:
        if flat and flat[-1] == key:
            flat[-1] = key_after(key)
        else:
            flat += (key, key_after(key))
    return tuple(flat)


def cuts(constraint: Constraint) -> Cuts:
    """The values for which a constraint holds; not for SUFFIX, CONTAINS, LIKE and TOPIC."""
    plain = _plain_cuts(constraint)
    return intersection(complement(plain), PRESENT) if constraint.negated else plain


def _plain_cuts(constraint: Constraint) -> Cuts:
    operand: Any = constraint.value
    match constraint.op:
        case Op.EXISTS:
            return PRESENT
        case Op.MISSING:
            return MISSING
        case Op.IN:
            return points(map(key_of, operand))
        case Op.PREFIX:
            return (key_of(operand), prefix_end(operand))
    key = key_of(operand)
    low, high = FLOORS[key[0]], FLOORS[key[0] + 1]
    match constraint.op:
        case Op.EQ:
            return (key, key_after(key))
        case Op.NE:
            return _joined((low, key, key_after(key), high))
        case Op.LT:
            return _joined((low, key))
        case Op.LE:
            return (low, key_after(key))
        case Op.GT:
            return _joined((key_after(key), high))
        case Op.GE:
            return (key, high)
    raise AssertionError(f"{constraint.op.name} has no set of cuts")


def _joined(flat: Cuts) -> Cuts:
    """Drop empty intervals."""
    return tuple(key for i in range(0, len(flat), 2) if flat[i] != flat[i + 1] for key in (flat[i], flat[i + 1]))


def contains(a: Cuts, key: Key) -> bool:
    return bool(bisect_right(a, key) & 1)


def subset(a: Cuts, b: Cuts) -> bool:
    """Reports whether every value of a is in b."""
    if len(a) == 2 == len(b):
        return b[0] <= a[0] and a[1] <= b[1]
    for i in range(0, len(a), 2):
        place = bisect_right(b, a[i])
        if not place & 1 or b[place] < a[i + 1]:
            return False
    return True


def overlap(a: Cuts, b: Cuts) -> bool:
    """Reports whether some value is in both."""
    if len(a) == 2 == len(b):
        return a[0] < b[1] and b[0] < a[1]
    if len(a) > len(b):
        a, b = b, a
    for i in range(0, len(a), 2):
        place = bisect_right(b, a[i])
        if place & 1 or (place < len(b) and b[place] < a[i + 1]):
            return True
    return False


def complement(a: Cuts) -> Cuts:
    """Everything else, missing included."""
    low = a[1:] if a and a[0] == MISSING_KEY else (MISSING_KEY, *a)
    return low[:-1] if low[-1] == FLOORS[-1] else (*low, FLOORS[-1])


def intersection(a: Cuts, b: Cuts) -> Cuts:
    if len(a) == 2 == len(b):
        low, high = max(a[0], b[0]), min(a[1], b[1])
        return (low, high) if low < high else NOTHING
    return _sweep(a, b, 2)


def union(a: Cuts, b: Cuts) -> Cuts:
    return _sweep(a, b, 1)


def union_of(sets: Sequence[Cuts]) -> Cuts:
    return _in_pairs(union, sets) if sets else NOTHING


def intersection_of(sets: Sequence[Cuts]) -> Cuts:
    return _in_pairs(intersection, sets) if sets else ALL


def _in_pairs(join: Callable[[Cuts, Cuts], Cuts], sets: Sequence[Cuts]) -> Cuts:
    """Joined as a tree: one after the other, many holes in one set would cost the square of their number."""
    while len(sets) > 1:
        joined = [join(a, b) for a, b in zip(sets[::2], sets[1::2], strict=False)]
        sets = [*joined, sets[-1]] if len(sets) % 2 else joined
    return sets[0]


def difference(a: Cuts, b: Cuts) -> Cuts:
    return intersection(a, complement(b))


def _sweep(a: Cuts, b: Cuts, depth: int) -> Cuts:
    """The places that lie in at least `depth` of the two sets."""
    flat: list[Key] = []
    for key in sorted({*a, *b}):
        inside = (bisect_right(a, key) & 1) + (bisect_right(b, key) & 1) >= depth
        if inside != len(flat) & 1:
            flat.append(key)
    return tuple(flat)


def intervals(a: Cuts) -> list[tuple[Key, Key]]:
    return [(a[i], a[i + 1]) for i in range(0, len(a), 2)]


def is_point(low: Key, high: Key) -> bool:
    """Reports whether an interval holds one value only."""
    return len(low) == 2 and key_after(low) == high
