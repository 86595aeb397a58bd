"""Exact filters as rows of interests, and the constraints of which encoding loses nothing.

As bytes in memory a filter is a byte that counts the zeros at its end (0 or 1), the encoded predicate, and these zeros.
They keep its length from being a multiple of 8, which the length of every encoded row is.

>>> from tidings.model.codec import encode_predicate
>>> predicate = encode_predicate(Predicate.of(Constraint("price", Op.GT, 20)))
>>> row = filter_row(predicate)
>>> is_filter(row), predicate_of(row) == predicate, is_filter(bytes(32))
(True, True, False)
>>> opened(sealed(predicate, key=7), key=7) == predicate
True
"""

import hashlib

from tidings.errors import CodecError
from tidings.matching.categories import UNSPOKEN
from tidings.matching.graded import EDGE_BYTES_MAX, LEVELS_MAX
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import TOPIC_ATTRIBUTE
from tidings.model.predicate import Predicate

MARK_BYTES = 8


def filter_row(predicate: bytes) -> bytes:
    zeros = int((len(predicate) + 1) % 8 == 0)
    return bytes((zeros,)) + predicate + bytes(zeros)


def is_filter(row: bytes) -> bool:
    return len(row) % 8 != 0


def predicate_of(row: bytes) -> bytes:
    """The encoded predicate of a filter, sealed if the network has a key."""
    return row[1 : len(row) - row[0]]


def sealed(predicate: bytes, key: int) -> bytes:
    """A predicate that only those with the key can read: equal ones look equal, and how long they are can be seen.

    Its keyed hash goes before it and is what the bytes that hide it are made from, so it also proves that it was sealed
    under this key (a synthetic initialization vector, as in RFC 5297).
    """
    mark = _mark(predicate, key)
    return mark + _hidden(predicate, mark, key)


def opened(data: bytes, key: int) -> bytes:
    """The inverse of `sealed`."""
    mark = data[:MARK_BYTES]
    predicate = _hidden(data[MARK_BYTES:], mark, key)
    if _mark(predicate, key) != mark:
        raise CodecError("E_CONTROL_ROWS", "a filter was not sealed under this broker's encoding key", position=0)
    return predicate


def _mark(predicate: bytes, key: int) -> bytes:
    secret = key.to_bytes(8, "little")
    return hashlib.blake2b(predicate, digest_size=MARK_BYTES, key=secret, person=b"tidings filter").digest()


def _hidden(data: bytes, mark: bytes, key: int) -> bytes:
    stream = hashlib.shake_256(key.to_bytes(8, "little") + mark).digest(len(data))
    return (int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")).to_bytes(len(data), "little")


def lossless(constraint: Constraint, *, graded: bool) -> bool:
    """Reports whether exactly the attributes that satisfy a constraint carry the one category that it asks for.

    >>> lossless(Constraint("stock", Op.EQ, "XYZ"), graded=False), lossless(Constraint("x", Op.GT, 20), graded=True)
    (True, False)
    """
    if constraint.negated or constraint.name in UNSPOKEN:
        return False
    match constraint.op:
        case Op.EQ:
            return True
        case Op.TOPIC:
            return _topic_lossless(constraint.name, str(constraint.value), graded=graded)
        case Op.PREFIX | Op.SUFFIX:
            return graded and 0 < len(str(constraint.value).encode()) <= EDGE_BYTES_MAX
        case Op.CONTAINS:
            return graded and 2 <= len(str(constraint.value).encode()) <= 3
    return False


def _topic_lossless(name: str, pattern: str, *, graded: bool) -> bool:
    *head, last = pattern.split(".")
    if "*" in head or last == "*":
        return False
    if last != ">" or not head:
        return last != ">" or name == TOPIC_ATTRIBUTE
    return graded and name == TOPIC_ATTRIBUTE and len(head) <= LEVELS_MAX


def all_lossless(predicate: Predicate, *, graded: bool) -> bool:
    return all(lossless(constraint, graded=graded) for one in predicate.conjunctions for constraint in one)
