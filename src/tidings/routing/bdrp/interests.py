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
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidings.kernel.row_antichain import RowAntichain
from tidings.matching.encoding import Encoding
from tidings.model.codec import decode_predicate, encode_predicate
from tidings.model.predicate import Predicate
from tidings.overlay.link.greeting import ANY
from tidings.routing.bdrp import filter_rows
from tidings.routing.bdrp.advertisement import FILTER_BYTES_MAX, FORM_BYTES
from tidings.routing.bdrp.elements import ELEMENT_BYTES, element_row, elements

ENCODED_ABOVE = 512  # bytes; smaller filters are cheaper to match than to encode messages for
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

    def rows(self, predicate: bytes) -> set[bytes]:
        """The rows by which to advertise an encoded predicate."""
        if self.keyless:
            return set()
        never = predicate.startswith(b"\0")
        if not self.exact or never:
            return self.encoded_rows(decode_predicate(predicate))
        row = self.exact_row(predicate)
        if len(row) <= ENCODED_ABOVE:
            return {row}
        read = decode_predicate(predicate)
        return self.encoded_rows(read) if len(row) > FILTER_BYTES_MAX or self._fits(read, len(row)) else {row}

    def exact_row(self, predicate: bytes) -> bytes:
        """The row that is the encoded predicate itself, sealed if there is a key."""
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

    def everything(self, part: int = 0) -> set[bytes]:
        """The row that every message contains; of a part that has no encoded rows, the filter."""
        return {self.exact_row(encode_predicate(Predicate.always())) if part else bytes(self.row_bytes)}

    def minimal(self, rows: set[bytes]) -> set[bytes]:
        """The rows without those that another makes needless."""
        kept = RowAntichain()
        for row in rows:
            self.add_to(kept, row)
        return set(kept.rows())

    def add_to(self, antichain: RowAntichain, row: bytes) -> None:
        if filter_rows.is_filter(row):
            antichain.add_filter(row, filter_rows.predicate_of(self.opened(row)))
        else:
            antichain.add(row, list(self.members(row)))

    def members(self, row: bytes) -> frozenset[int]:
        """The elements of an encoded row, or the bits of its vector that are set."""
        return self.carried(elements(row)) if not self.vectors else _bits(int.from_bytes(row, "little"))

    def carried(self, asked: Iterable[int]) -> frozenset[int]:
        """Some elements as members of rows are: themselves, or the bits of their vector."""
        if not self.vectors:
            return frozenset(asked)
        return _bits(self.encoding.vector(asked))

    def from_vectors(self, vectors: Iterable[int]) -> set[bytes]:
        return {vector.to_bytes(self.row_bytes, "little") for vector in vectors}

    @staticmethod
    def from_sets(sets: Iterable[frozenset[int]]) -> set[bytes]:
        return set(map(element_row, sets))


def _bits(vector: int) -> frozenset[int]:
    return frozenset(bit for bit in range(vector.bit_length()) if vector >> bit & 1)


def key_proof(key: bytes, secret: bytes = b"") -> str:
    """A fingerprint that is equal for equal keys in a network with this secret.

    Every peer that connects receives a greeting, so testing guesses of the key must need the secret.
    """
    fingerprint = hmac.digest(key, b"tidings encoding key", hashlib.sha256)
    return hmac.digest(secret, fingerprint, hashlib.sha256)[:8].hex()
