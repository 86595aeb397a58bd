"""The workload of the B-DRP paper, drawn from a seed: predicates and messages as objects or, by the million, encoded.

A message has 10 of 20 attributes; 60 % of them are strings, from 200 frequent terms, the others integers from 0 to 100.
A predicate has up to 20 conjunctions of 1 to 5 constraints: strings 70 % equality, 10 % each prefix, suffix and
substring; integers 80 % equality, 10 % each < and >. Options skew the choice (Zipf), ask for ranges only, and so on.

Item i depends on the seed and on i alone, so any part can be drawn anywhere: each random number is a hash of
(seed, what it is for, item, place), the counter-based way of Salmon et al. 2011.

>>> workload = Workload(seed=1)
>>> workload.predicates(5, 1) == workload.predicates(0, 10)[5:6], len(workload.messages(0, 3)[0].properties)
(True, 10)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidings.errors import UsageError
from tidings.model.codec import encode_constraint, encode_value
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.model.reader import varint
from tidings.model.values import Value

Words: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = NDArray[np.int64]

CHUNK = 1 << 15  # items drawn at once
CONJUNCTIONS_MAX = 20
PIECE_MIN, PIECE_MAX = 2, 4  # letters in a prefix, suffix or substring
PIECES = 1 << 10  # more than there are ways to cut one from a term
_STREAMS = (
    "size",
    "length",
    "names",
    "kinds",
    "values",
    "operators",
    "pieces",
    "message names",
    "message kinds",
    "message values",
)
_STRING_OPS = (Op.EQ, Op.PREFIX, Op.SUFFIX, Op.CONTAINS)
_INT_OPS = (Op.EQ, Op.LT, Op.GT)


@dataclass(frozen=True)
class Workload:
    seed: int
    conjunctions: int = 0  # in each predicate; 0: from 1 to 20
    constraints_min: int = 1
    constraints_max: int = 5
    attributes: int = 10  # in a message
    strings: int = 12  # attribute names with string values
    integers: int = 8  # attribute names with integer values
    string_share: float = 0.6
    terms: int = 200
    int_max: int = 100
    zipf: float = 0.0  # exponent of the skew of names and values; 0: none
    ranges_only: bool = False  # predicates bound integers by < and >, nothing else

    def __post_init__(self) -> None:
        names = self.integers if self.ranges_only else min(self.strings, self.integers)
        if not 1 <= self.constraints_min <= self.constraints_max <= names:
            raise UsageError("E_WORKLOAD", f"required: 1 ≤ constraints_min ≤ constraints_max ≤ {names}")
        if not 0 <= self.attributes <= self.strings + self.integers:
            raise UsageError("E_WORKLOAD", f"attributes must be from 0 to {self.strings + self.integers}")

    # ---- what it is drawn from

    @cached_property
    def names(self) -> list[str]:
        return [f"s{i:02}" for i in range(self.strings)] + [f"i{i:02}" for i in range(self.integers)]

    @cached_property
    def vocabulary(self) -> list[str]:
        """Distinct words of two to five syllables."""
        words: dict[str, None] = {}
        stream = np.random.Generator(np.random.PCG64(self.seed))
        while len(words) < self.terms:
            syllables = stream.integers(0, [15, 5, 60], (int(stream.integers(2, 6)), 3)).tolist()
            word = "".join("bcdfghlmnprstvz"[a] + "aeiou"[b] + "bcdfghlmnprstvz"[c:][:1] for a, b, c in syllables)
            words[word] = None
        return list(words)

    # ---- predicates

    def predicates(self, start: int, count: int) -> list[Predicate]:
        return [Predicate([[self._catalog[code] for code in row] for row in rows]) for rows in self._rows(start, count)]

    def encoded_predicates(self, start: int, count: int) -> tuple[bytes, NDArray[np.uint64]]:
        """Encoded predicates one after the other, and where each ends."""
        encoded = self._encoded
        blobs: list[bytes] = []
        for rows in self._rows(start, count):
            conjunctions: set[bytes] = set()
            for row in rows:
                for code in row:
                    if code not in encoded:
                        encoded[code] = encode_constraint(self._catalog[code])
                conjunctions.add(bytes((len(row),)) + b"".join(sorted([encoded[code] for code in row])))
            blobs.append(b"".join((varint(len(conjunctions)), *sorted(conjunctions), b"\x00")))
        return b"".join(blobs), np.cumsum([len(blob) for blob in blobs], dtype=np.uint64)

    @cached_property
    def _encoded(self) -> dict[int, bytes]:
        return {}

    @cached_property
    def _catalog(self) -> "_Catalog":
        return _Catalog(self)

    def _rows(self, start: int, count: int) -> Iterator[list[list[int]]]:
        """For each predicate its conjunctions, as rows of catalog codes."""
        for first in range(start, start + count, CHUNK):
            items = np.arange(first, min(first + CHUNK, start + count), dtype=np.uint64)
            sizes = np.full(len(items), self.conjunctions, np.int64)
            if self.conjunctions == 0:
                sizes = 1 + self._pick("size", items, 0, CONJUNCTIONS_MAX)
            conjunctions = np.repeat(items * np.uint64(1 << 20), sizes) + _ranks(sizes)
            lengths, codes = self._conjunctions(conjunctions)
            rows = [row[:length] for row, length in zip(codes.tolist(), lengths.tolist(), strict=True)]
            end = 0
            for size in sizes.tolist():
                yield rows[end : end + size]
                end += size

    def _conjunctions(self, items: Words) -> tuple[Numbers, Numbers]:
        """(number of constraints, their codes) of each conjunction."""
        lengths = self.constraints_min + self._pick("length", items, 0, self.constraints_max - self.constraints_min + 1)
        names = self._choose_names(
            "names", "kinds", items, self.constraints_max, 0.0 if self.ranges_only else self.string_share
        )
        codes = np.empty((len(items), self.constraints_max), np.int64)
        for place in range(self.constraints_max):
            name = names[:, place]
            draw = self._real("operators", items, place)
            operator = np.searchsorted([0.7, 0.8, 0.9], draw, "right")
            bound = np.searchsorted([0.0, 0.5] if self.ranges_only else [0.8, 0.9], draw, "right")
            operator = np.where(name < self.strings, operator, bound)
            value = self._values("values", items, place, name)
            piece = self._pieces_of(self._pick("pieces", items, place, 180), operator, value)
            code = (name * 4 + operator) * max(self.terms, self.int_max + 1) + value
            codes[:, place] = code * PIECES + np.where((name < self.strings) & (operator > 0), piece, 0)
        return lengths, codes

    def _pieces_of(self, draws: Numbers, operators: Numbers, values: Numbers) -> Numbers:
        """The letters of a term that a prefix, suffix or substring takes: start and number, packed into one number."""
        sizes = np.array([len(term) for term in self.vocabulary])[np.minimum(values, self.terms - 1)]
        lengths = np.minimum(PIECE_MIN + draws % (PIECE_MAX - PIECE_MIN + 1), sizes)
        inside = draws // (PIECE_MAX - PIECE_MIN + 1) % (sizes - lengths + 1)
        starts: Numbers = np.where(operators == 2, sizes - lengths, np.where(operators == 3, inside, 0))
        pieces: Numbers = starts * (PIECE_MAX + 1) + lengths
        return pieces

    # ---- messages

    def messages(self, start: int, count: int) -> list[Message]:
        names, values = self._attributes(start, count)
        destination = Destination("workload")
        return [
            Message(
                destination,
                {self.names[name]: self.value_of(name, value) for name, value in zip(*row, strict=True)},
                id=MessageId.from_bytes(_id_bytes(start + i)),
            )
            for i, row in enumerate(zip(names.tolist(), values.tolist(), strict=True))
        ]

    def encoded_messages(self, start: int, count: int) -> bytes:
        """Each message after its length as u32."""
        names, values = self._attributes(start, count)
        pieces = self._pieces
        width = max(self.terms, self.int_max + 1)
        out: list[bytes] = []
        for i, row in enumerate((names * width + values).tolist()):
            attributes = b"".join([pieces[code] for code in row])
            fixed = b"\x01\x00\x04\x00" + _id_bytes(start + i) + len(row).to_bytes(2, "little") + b"\x08\x00"
            out += (
                (36 + len(attributes)).to_bytes(4, "little"),
                fixed,
                len(attributes).to_bytes(4, "little"),
                b"workload",
                attributes,
            )
        return b"".join(out)

    def _attributes(self, start: int, count: int) -> tuple[Numbers, Numbers]:
        items = np.arange(start, start + count, dtype=np.uint64)
        names = self._choose_names("message names", "message kinds", items, self.attributes, self.string_share)
        values = [self._values("message values", items, place, names[:, place]) for place in range(self.attributes)]
        return names, np.stack(values, axis=1) if values else np.empty((count, 0), np.int64)

    @cached_property
    def _pieces(self) -> "_AttributeBytes":
        return _AttributeBytes(self)

    def value_of(self, name: int, value: int) -> Value:
        return self.vocabulary[value] if name < self.strings else value

    # ---- draws

    def _word(self, stream: str, items: Words, place: int) -> Words:
        """Random words: splitmix64 of all that they depend on."""
        salt = (
            self.seed * 0x9E3779B97F4A7C15 + _STREAMS.index(stream) * 0xD1B54A32D192ED03 + place * 0x8CB92BA72F3D8DD7
        ) % 2**64
        mixed = (items + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(salt)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 0x9E3779B97F4A7C15)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return mixed ^ (mixed >> np.uint64(32))

    def _real(self, stream: str, items: Words, place: int) -> NDArray[np.float64]:
        return (self._word(stream, items, place) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _pick(self, stream: str, items: Words, place: int, count: int) -> Numbers:
        return (self._word(stream, items, place) >> np.uint64(32)).astype(np.int64) * count >> 32

    def _values(self, stream: str, items: Words, place: int, names: Numbers) -> Numbers:
        draw = self._real(stream, items, place)
        is_string = names < self.strings
        return np.where(is_string, _rank(draw, self.terms, self.zipf), _rank(draw, self.int_max + 1, self.zipf))

    def _choose_names(self, stream: str, kinds: str, items: Words, count: int, string_share: float) -> Numbers:
        """Distinct names: each place draws its kind, then takes the next of that kind's shuffled names."""
        orders = []
        for first, size in ((0, self.strings), (self.strings, self.integers)):
            weights = 1.0 / np.arange(1, size + 1) ** self.zipf
            keys = np.stack([self._real(stream, items, first + i) for i in range(size)], axis=1)
            orders.append(first + np.argsort(np.log(keys + 2.0**-60) / -weights, axis=1))  # Efraimidis, Spirakis 2006
        chosen = np.empty((len(items), count), np.int64)
        rows, taken = np.arange(len(items)), np.zeros(len(items), np.int64)
        for place in range(count):
            string = self._real(kinds, items, place) < string_share
            string = np.where(taken == self.strings, False, np.where(place - taken == self.integers, True, string))
            from_strings = orders[0][rows, np.minimum(taken, self.strings - 1)]
            from_integers = orders[1][rows, np.minimum(place - taken, self.integers - 1)]
            chosen[:, place] = np.where(string, from_strings, from_integers)
            taken += string
        return chosen


class _Catalog(dict[int, Constraint]):
    """From codes, as `_conjunctions` makes them, to constraints; each is made once."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self._workload = workload

    def __missing__(self, code: int) -> Constraint:
        workload = self._workload
        rest, piece = divmod(code, PIECES)
        rest, value = divmod(rest, max(workload.terms, workload.int_max + 1))
        name, operator = divmod(rest, 4)
        if name >= workload.strings:
            made = Constraint(workload.names[name], _INT_OPS[operator], value)
        else:
            op, term = _STRING_OPS[operator], workload.vocabulary[value]
            start, length = divmod(piece, PIECE_MAX + 1)
            made = Constraint(workload.names[name], op, term if op is Op.EQ else term[start : start + length])
        return self.setdefault(code, made)


class _AttributeBytes(dict[int, bytes]):
    """From name * width + value to the attribute, encoded; each once."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self._workload = workload

    def __missing__(self, code: int) -> bytes:
        workload = self._workload
        name, value = divmod(code, max(workload.terms, workload.int_max + 1))
        text = workload.names[name].encode()
        return self.setdefault(code, bytes((len(text),)) + text + encode_value(workload.value_of(name, value)))


def _rank(draw: NDArray[np.float64], count: int, zipf: float) -> Numbers:
    if zipf == 0.0:
        return (draw * count).astype(np.int64)
    weights = np.cumsum(1.0 / np.arange(1, count + 1) ** zipf)
    return np.minimum(np.searchsorted(weights / weights[-1], draw, "right"), count - 1).astype(np.int64)


def _ranks(sizes: Numbers) -> Words:
    """0, 1, ... within each run."""
    starts = np.cumsum(sizes) - sizes
    return (np.arange(int(sizes.sum())) - np.repeat(starts, sizes)).astype(np.uint64)


def _id_bytes(number: int) -> bytes:
    """Publisher 1, broker 1, then milliseconds and counter."""
    return b"\x00\x00\x00\x01\x00\x00\x00\x01" + number.to_bytes(8, "big")
