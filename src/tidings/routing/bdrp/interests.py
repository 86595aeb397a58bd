"""Encoded interests: the rows that a router advertises for its subscriptions, and rows as bytes.

A *row* is one encoded conjunction, in one of two forms that a network chooses between: a vector of M bits, as in the
paper, or the elements themselves, ascending, 8 bytes each. Both are just bytes here; only the matrix in the kernel
looks inside. What is advertised is aggregated: no row that another one of the same router makes needless.

Rows mean something only under the encoding that made them. Each advertisement therefore starts with the *form* of its
encoding, a fingerprint of all its parameters and of the key. A router that uses another form cannot judge the rows; it
treats their router as one that asks for everything until it advertises again (scheme.py).

Encoding loses something: of a range, a pattern or a long list at least a part, of arithmetic everything; and messages
must be encoded to be compared. Unless configured to encode everything, a router therefore advertises a subscription by
its exact filter (filter_rows.py), except a large one of which the encoding is smaller and loses nothing.

>>> from tidings.model.constraint import Constraint, Op
>>> interests = LocalInterests(InterestEncoding(Encoding(bits=64, hashes=2), vectors=True))
>>> interests.add(Predicate.of(Constraint("stock", Op.EQ, "XYZ"), Constraint("price", Op.GT, 20)))
>>> interests.add(Predicate.of(Constraint("stock", Op.EQ, "XYZ")))
>>> len(interests.rows())  # the second asks for less: the first adds nothing
1
>>> change = Change(added=tuple(interests.rows()))
>>> form, row_bytes = interests.encoding.form, interests.encoding.row_bytes
>>> decode_advertisement(encode_advertisement(change, form, row_bytes)) == (form, change)
True
"""

import hashlib
import hmac
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from tidings.errors import CodecError
from tidings.kernel.matrix import BITS_MAX
from tidings.matching.encoding import SET_ELEMENTS_MAX, Encoding
from tidings.model.codec import decode_predicate, encode_predicate
from tidings.model.destination import QUEUE_ATTRIBUTE
from tidings.model.predicate import Predicate
from tidings.model.reader import Reader, put_varint, varint
from tidings.overlay.link.greeting import ANY
from tidings.routing.bdrp import filter_rows
from tidings.routing.bdrp.antichain import Antichain

ELEMENT_BYTES = 8
FORM_BYTES = 8
ENCODED_ABOVE = 512  # bytes; smaller filters are cheaper to match than to encode messages for
FILTER_BYTES_MAX = 1 << 20  # of one filter on the wire; a larger one is encoded
CATEGORIES_VERSION = 1  # of categories.py, graded.py and the hashes: another one makes other rows


@dataclass(frozen=True, slots=True)
class InterestEncoding:
    """The rule that makes rows of interests; the same in the whole network, except while it is being changed."""

    encoding: Encoding = field(default_factory=Encoding)
    vectors: bool = True  # rows are vectors of M bits; otherwise sets of elements
    keyless: bool = False  # this broker has not the network's key: it forwards, and can neither read nor make rows
    key_proof: str = ""  # made of all that the key was made of; empty: of the key
    exact: bool = False  # advertise exact filters, except large ones of which encoding loses nothing and is smaller

    @property
    def row_bytes(self) -> int:
        """Of a vector; 0 where rows are sets of elements, which differ in length."""
        return self.encoding.bits // 8 if self.vectors else 0

    @property
    def graded(self) -> bool:
        return type(self.encoding.grade).__name__ != "PlainGrade"

    def parameters(self) -> tuple[tuple[str, str], ...]:
        """The parameters that make rows comparable, for greetings. The key is compared, never shown."""
        form = f"vectors of {self.encoding.bits} bits, {self.encoding.hashes} hashes" if self.vectors else "elements"
        proof = ANY if self.keyless else self.key_proof or key_proof(self.encoding.key.to_bytes(8, "little"))
        return (("encoding", form), ("encoding key", proof), ("grade", "graded" if self.graded else "plain"))

    @property
    def form(self) -> bytes:
        """A fingerprint of everything that rows depend on; all zeros without the key, since no rows are made then."""
        if self.keyless:
            return bytes(FORM_BYTES)
        text = repr((CATEGORIES_VERSION, self.parameters()))
        return hashlib.sha256(text.encode()).digest()[:FORM_BYTES]

    def rows(self, predicate: Predicate) -> set[bytes]:
        """The rows by which to advertise a predicate."""
        if self.keyless:
            return set()
        if self.exact and predicate.conjunctions:
            row = self._filter(encode_predicate(predicate))
            if len(row) <= FILTER_BYTES_MAX and not (len(row) > ENCODED_ABOVE and self._fits(predicate, len(row))):
                return {row}
        return self.encoded_rows(predicate)

    def _filter(self, predicate: bytes) -> bytes:
        key = self.encoding.key
        return filter_rows.filter_row(filter_rows.sealed(predicate, key) if key else predicate)

    def opened(self, row: bytes) -> bytes:
        """The row as the kernel reads it: filters are sealed under the network's key."""
        if not self.encoding.key or not filter_rows.is_filter(row):
            return row
        return filter_rows.filter_row(filter_rows.opened(filter_rows.predicate_of(row), self.encoding.key))

    def _fits(self, predicate: Predicate, bytes_max: int) -> bool:
        """Reports whether encoding loses nothing of a predicate, and takes at most this many bytes."""
        if predicate.residual is not None or not filter_rows.all_lossless(predicate, graded=self.graded):
            return False
        sizes = (self.row_bytes or 1 + ELEMENT_BYTES * len(one) for one in predicate.conjunctions)
        return sum(sizes) <= bytes_max

    def encoded_rows(self, predicate: Predicate) -> set[bytes]:
        if self.vectors:
            return self.from_vectors(self.encoding.predicate_vectors(predicate))
        return self.from_sets(self.encoding.predicate_elements(predicate))

    def everything(self) -> set[bytes]:
        """The row that every message contains."""
        return {bytes(self.row_bytes)}

    def minimal(self, rows: set[bytes]) -> set[bytes]:
        """The rows without those that another makes needless."""
        kept = Antichain(self.members)
        for row in rows:
            kept.add(row)
        return set(kept)

    def members(self, row: bytes) -> frozenset[int | bytes]:
        """The elements of a row, or the bits of its vector that are set. For a filter those of every message that it
        matches; if these are not all that it asks for, itself as well, so that it makes no other row needless."""
        if not filter_rows.is_filter(row):
            return self.carried(elements(row)) if not self.vectors else _bits(int.from_bytes(row, "little"))
        predicate = decode_predicate(filter_rows.predicate_of(self.opened(row)))
        common = filter_rows.common_lossless(predicate, graded=self.graded)
        [asked] = self.encoding.conjunction_elements(common)
        whole = predicate.residual is None and predicate.conjunctions == (common,)
        return self.carried(asked) if whole else self.carried(asked) | {row}

    def carried(self, asked: Iterable[int]) -> frozenset[int | bytes]:
        """Some elements as members of rows are: themselves, or the bits of their vector."""
        if not self.vectors:
            return frozenset(asked)
        return _bits(self.encoding.vector(asked))

    def from_vectors(self, vectors: Iterable[int]) -> set[bytes]:
        return {vector.to_bytes(self.row_bytes, "little") for vector in vectors}

    @staticmethod
    def from_sets(sets: Iterable[frozenset[int]]) -> set[bytes]:
        return {b"".join(one.to_bytes(ELEMENT_BYTES, "little") for one in sorted(each)) for each in sets}


def _bits(vector: int) -> frozenset[int | bytes]:
    return frozenset(bit for bit in range(vector.bit_length()) if vector >> bit & 1)


def key_proof(key: bytes, secret: bytes = b"") -> str:
    """A fingerprint that is equal for equal keys in a network with this secret.

    Every peer that connects receives a greeting, so testing guesses of the key must need the secret.
    """
    fingerprint = hmac.digest(key, b"tidings encoding key", hashlib.sha256)
    return hmac.digest(secret, fingerprint, hashlib.sha256)[:8].hex()


def elements(row: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(row) // ELEMENT_BYTES}Q", row))


class LocalInterests:
    """LOCAL-PREDICATES with reference counts, since many subscriptions have equal predicates."""

    def __init__(self, encoding: InterestEncoding) -> None:
        self.encoding = encoding
        self._counts: Counter[Predicate] = Counter()
        self._rows: dict[Predicate, set[bytes]] = {}
        self._minimal = Antichain(encoding.members)
        self._everything = encoding.everything()
        self.unbounded = 0  # predicates whose rows every message contains

    def add(self, predicate: Predicate) -> None:
        self._counts[predicate] += 1
        if predicate not in self._rows:
            topics = Predicate([one for one in predicate.conjunctions if not _of_queues(one)], predicate.residual)
            self._rows[predicate] = self.encoding.rows(topics)
            self.unbounded += self._everything <= self._rows[predicate]
            for row in self._rows[predicate]:
                self._minimal.add(row)

    def remove(self, predicate: Predicate) -> None:
        self._counts[predicate] -= 1
        if self._counts[predicate] <= 0:
            for row in self._rows[predicate]:
                self._minimal.remove(row)
            self.unbounded -= self._everything <= self._rows[predicate]
            del self._counts[predicate], self._rows[predicate]

    def rows(self) -> set[bytes]:
        return set(self._minimal)


def _of_queues(conjunction: Iterable[object]) -> bool:
    """A queue belongs to one broker; others need not know its consumers."""
    return any(getattr(constraint, "name", "") == QUEUE_ATTRIBUTE for constraint in conjunction)


@dataclass(frozen=True, slots=True)
class Change:
    added: tuple[bytes, ...] = ()
    removed: tuple[bytes, ...] = ()


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


def encode_advertisement(change: Change, form: bytes, row_bytes: int) -> bytes:
    """The payload of a FloodItem of topic PREDICATES, and of a note in the store."""
    return form + varint(row_bytes) + encode_change(change, row_bytes)


def decode_advertisement(data: bytes) -> tuple[bytes, Change]:
    """The form and the rows, which need not be of this broker's form."""
    reader = Reader(data, family="CONTROL")
    form = reader.take(FORM_BYTES, "a form")
    row_bytes = reader.varint(BITS_MAX // 8)
    try:
        return form, decode_change(data[reader.position :], row_bytes)
    except CodecError as error:
        raise CodecError(error.code, error.reason, position=reader.position + (error.position or 0)) from None


def with_changes(whole: bytes, changes: bytes) -> bytes:
    """The payload that advertises all rows of `whole` after these changes, of whatever form they are."""
    form, before = decode_advertisement(whole)
    _, since = decode_advertisement(changes)
    rows = set(before.added) - set(since.removed) | set(since.added)
    return encode_advertisement(Change(tuple(rows)), form, Reader(whole, FORM_BYTES).varint())


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
