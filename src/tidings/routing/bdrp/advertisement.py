"""Advertisements of interests as bytes: the payload of flooded items, and of notes in the store.

Encoded rows first, then filters, each kind in ascending order. Filters have much in common, so a change that is not
small is compressed where that is shorter.

>>> change = Change(added=(bytes(8), b"\\0filter"))
>>> decode_advertisement(encode_advertisement(change, form=bytes(8), row_bytes=0)).change == change
True
"""

import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tidings.errors import CodecError
from tidings.kernel.matrix import BITS_MAX
from tidings.matching.encoding import SET_ELEMENTS_MAX
from tidings.model.reader import Reader, put_varint, varint
from tidings.routing.bdrp import filter_rows
from tidings.routing.bdrp.elements import ELEMENT_BYTES, elements

FORM_BYTES = 8
FILTER_BYTES_MAX = 1 << 20  # of one filter on the wire
CHANGE_BYTES_MAX = 16 << 20  # of one change, not compressed
COMPRESSED_ABOVE, COMPRESSION = 128, 1  # bytes; level: a higher one takes five times as long for 15 % less


@dataclass(frozen=True, slots=True)
class Change:
    added: tuple[bytes, ...] = ()
    removed: tuple[bytes, ...] = ()


class InterestAdvertisement(NamedTuple):
    form: bytes  # which need not be the receiver's
    change: Change
    life: int  # of the router: the parts of an earlier one that a later one does not have are void
    parts: int  # the router has at most these


def encode_advertisement(change: Change, form: bytes, row_bytes: int, life: int = 0, parts: int = 1) -> bytes:
    """`row_bytes`: of vectors; 0 for sets of elements."""
    out = bytearray(form)
    for number in (life, parts, row_bytes):
        put_varint(out, number)
    body = encode_change(change, row_bytes)
    packed = zlib.compress(body, COMPRESSION) if len(body) > COMPRESSED_ABOVE else body
    if len(packed) < len(body):
        return bytes(out) + varint(len(body)) + packed
    return bytes(out) + b"\0" + body


def decode_advertisement(data: bytes) -> InterestAdvertisement:
    reader = Reader(data, family="CONTROL")
    form = reader.take(FORM_BYTES, "a form")
    life, parts, row_bytes = reader.varint(), reader.varint(), reader.varint(BITS_MAX // 8)
    size = reader.varint(CHANGE_BYTES_MAX)
    body = data[reader.position :]
    if size:
        unpacking = zlib.decompressobj()
        try:
            body = unpacking.decompress(body, size)
            whole = len(body) == size and not unpacking.decompress(unpacking.unconsumed_tail, 1)
        except zlib.error:
            whole = False
        if not whole or not unpacking.eof or unpacking.unused_data:
            reader.fail("COMPRESSED", f"the change is not {size} bytes, compressed", reader.position)
    try:
        return InterestAdvertisement(form, decode_change(body, row_bytes), life, parts)
    except CodecError as error:
        raise CodecError(error.code, error.reason, position=reader.position + (error.position or 0)) from None


def encode_change(change: Change, row_bytes: int) -> bytes:
    """The rows of an advertisement; `row_bytes` is 0 for sets of elements. Encoded rows first, then filters."""
    out = bytearray()
    for rows in (change.removed, change.added):
        encoded = sorted(row for row in rows if not filter_rows.is_filter(row))
        put_varint(out, len(encoded))
        for row in encoded:
            if not row_bytes:
                put_varint(out, len(row) // ELEMENT_BYTES)
            out += row
    for rows in (change.removed, change.added):
        exact = sorted(filter_rows.predicate_of(row) for row in rows if filter_rows.is_filter(row))
        put_varint(out, len(exact))
        for predicate in exact:
            put_varint(out, len(predicate))
            out += predicate
    return bytes(out)


def decode_change(data: bytes, row_bytes: int) -> Change:
    reader = Reader(data, family="CONTROL")
    removed, added = _rows(reader, row_bytes), _rows(reader, row_bytes)
    removed_filters, added_filters = _filters(reader), _filters(reader)
    reader.finish("the message")
    return Change(added + added_filters, removed + removed_filters)


def _rows(reader: Reader, row_bytes: int) -> tuple[bytes, ...]:
    rows: list[bytes] = []
    for _ in range(reader.count()):
        at = reader.position
        size = row_bytes or reader.varint(SET_ELEMENTS_MAX) * ELEMENT_BYTES
        row = reader.take(size, f"a row of {size} bytes")
        if rows and row <= rows[-1]:
            reader.fail("ROWS", "rows do not ascend", at)
        if not row_bytes:
            _check_elements(reader, row, at)
        rows.append(row)
    return tuple(rows)


def _filters(reader: Reader) -> tuple[bytes, ...]:
    found: list[bytes] = []
    before = b""
    for _ in range(reader.count()):
        at = reader.position
        predicate = reader.counted(FILTER_BYTES_MAX)
        if predicate <= before:
            reader.fail("ROWS", "filters do not ascend", at)
        before = predicate
        found.append(filter_rows.filter_row(predicate))
    return tuple(found)


def _check_elements(reader: Reader, row: bytes, at: int) -> None:
    numbers = elements(row)
    if any(one >= other for one, other in pairwise(numbers)):
        reader.fail("ROWS", "the elements of a row do not ascend", at)
