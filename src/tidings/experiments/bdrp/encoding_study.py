"""Study of encodings of interests: precision, cost, and the choice for a workload.

Every router has a predicate; a message should go to those whose predicate it matches. An encoding sends it to more,
never to fewer. For each candidate: the routers it sends messages to against the exact number (`ratio`), the routers it
missed (must be 0), and the bytes of a router's advertisement. `propose` takes the cheapest that is precise enough.

>>> from tidings.experiments.bdrp.paper_workload import PaperWorkload
>>> paper = PaperWorkload(1)
>>> predicates, messages = [paper.predicate(20) for _ in range(10)], [paper.message() for _ in range(50)]
>>> found = study(predicates, messages, [Candidate("elements"), Candidate("graded", pieces_max=4)])
>>> found.outcomes[0].imprecision > 2 > found.outcomes[1].imprecision >= 1.0, [one.missed for one in found.outcomes]
(True, [0, 0])
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.errors import UsageError
from tidings.kernel.codec import MessageBatch, encode_messages
from tidings.kernel.element_matrix import ElementMatrix
from tidings.kernel.encoder import MessageEncoder
from tidings.kernel.matrix import EncodedMatrix, as_vectors
from tidings.matching.categories import PlainGrade
from tidings.matching.encoding import Elements, Encoding
from tidings.matching.graded import GradedGrade
from tidings.matching.indexed import IndexedMatcher
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.model.values import Value
from tidings.routing.bdrp.advertisement import Change, encode_change
from tidings.routing.bdrp.interests import InterestEncoding

BITS = (256, 512, 1024, 2048, 4096)
PIECES = (1, 2, 4, 8)
HASHES_MAX = 16


@dataclass(frozen=True, slots=True)
class Candidate:
    """Keys of [network] in a broker's configuration: encoding, encoding_bits, encoding_hashes, encoding_pieces_max."""

    encoding: str
    bits: int = 256
    hashes: int = 7
    pieces_max: int = 4

    @property
    def graded(self) -> bool:
        return self.encoding.startswith("graded")

    @property
    def vectors(self) -> bool:
        return self.encoding.endswith("vectors")

    def encoder(self) -> Encoding:
        grade = GradedGrade(self.pieces_max) if self.graded else PlainGrade()
        return Encoding(self.bits, self.hashes, grade=grade)

    def __str__(self) -> str:
        form = f", M = {self.bits}, k = {self.hashes}" if self.vectors else ""
        return f"{self.encoding}{form}{f', {self.pieces_max} pieces' if self.graded else ''}"


@dataclass(frozen=True, slots=True)
class EncodingOutcome:
    candidate: Candidate
    ratio: float | None  # destination routers against the exact number; None: no message should have gone anywhere
    share: float  # of all routers, that a message is sent to
    missed: int  # pairs of message and router that match and were not found: a fault
    rows: float  # of a router
    advertisement_bytes: float  # of a router

    @property
    def imprecision(self) -> float:
        return math.inf if self.ratio is None else self.ratio


@dataclass(frozen=True, slots=True)
class Study:
    routers: int
    messages: int
    exact_share: float
    elements_plain: float  # of a message
    elements_graded: float
    outcomes: tuple[EncodingOutcome, ...]


def study(
    predicates: Sequence[Predicate], messages: Sequence[dict[str, Value]], candidates: Iterable[Candidate] | None = None
) -> Study:
    """Judge candidates (None: all that `candidates_for` finds worth it) by these predicates, one a router."""
    if not predicates or not messages:
        raise UsageError("E_STUDY", "at least one filter and one message are needed")
    sent = [Message(Destination("study"), message) for message in messages]
    batch = MessageBatch.from_messages(encode_messages(sent))
    exact = _exact(predicates, batch)
    plain, graded = (_carried(batch, grade) for grade in (False, True))
    if candidates is None:
        candidates = candidates_for(predicates, plain, graded)
    rows: dict[tuple[bool, int], list[set[Elements]]] = {}
    outcomes = [_judge(one, predicates, batch, exact, rows) for one in candidates]
    return Study(len(predicates), len(messages), float(exact.mean()), plain, graded, tuple(outcomes))


def candidates_for(predicates: Sequence[Predicate], plain: float, graded: float) -> list[Candidate]:
    """Vectors of several lengths, each with the best k for messages of `elements`, and sets of elements."""
    asked = _asked(predicates)
    found = [Candidate("vectors", bits, best_hashes(bits, plain, asked)) for bits in BITS]
    found.append(Candidate("elements"))
    found += [Candidate("graded-vectors", bits, best_hashes(bits, graded, asked), 4) for bits in BITS]
    return [*found, *(Candidate("graded", pieces_max=pieces) for pieces in PIECES)]


def best_hashes(bits: int, carried: float, asked: float) -> int:
    """The k with which a conjunction of `asked` elements is least often found in a message that does not carry them.

    >>> best_hashes(256, 20, 3), best_hashes(2048, 210, 3), best_hashes(256, 210, 3)
    (9, 7, 1)
    """

    def wrongly(hashes: int) -> float:
        fill = 1 - math.exp(-hashes * carried / bits)
        return hashes * max(1.0, asked) * math.log(fill)

    return min(range(1, HASHES_MAX + 1), key=wrongly)


def propose(found: Study, goal: float = 1.05) -> EncodingOutcome:
    """The smallest advertisement among those precise enough; if none is, the most precise."""
    right = [one for one in found.outcomes if one.missed == 0]
    good = [one for one in right if one.imprecision <= goal]
    if good:
        return min(good, key=lambda one: (one.advertisement_bytes, one.imprecision))
    return min(right, key=lambda one: (one.imprecision, one.share, one.advertisement_bytes))


def _exact(predicates: Sequence[Predicate], batch: MessageBatch) -> NDArray[np.bool_]:
    """Message × router."""
    matcher = IndexedMatcher()
    for router, predicate in enumerate(predicates):
        matcher.add(router, predicate)
    return _grid(*matcher.match(batch), len(predicates))


def _grid(offsets: NDArray[Any], routers: NDArray[np.uint32], router_count: int) -> NDArray[np.bool_]:
    counts = offsets[1:].astype(np.int64) - offsets[:-1].astype(np.int64)
    grid = np.zeros((len(counts), router_count), dtype=bool)
    grid[np.repeat(np.arange(len(counts)), counts), routers] = True
    return grid


def _carried(batch: MessageBatch, graded: bool) -> float:
    """Elements of a message, on average."""
    offsets, _ = MessageEncoder(graded=graded).elements(batch)
    return float(offsets[-1]) / (len(offsets) - 1)


def _asked(predicates: Sequence[Predicate]) -> float:
    sizes = [len(conjunction) for predicate in predicates for conjunction in predicate.conjunctions]
    return sum(sizes) / max(1, len(sizes))


def _judge(
    candidate: Candidate,
    predicates: Sequence[Predicate],
    batch: MessageBatch,
    exact: NDArray[np.bool_],
    known: dict[tuple[bool, int], list[set[Elements]]],
) -> EncodingOutcome:
    encoding = candidate.encoder()
    grade = candidate.graded, candidate.pieces_max if candidate.graded else 0
    if grade not in known:
        known[grade] = [encoding.predicate_elements(predicate) for predicate in predicates]
    interests = InterestEncoding(encoding, candidate.vectors)
    matrix = EncodedMatrix(candidate.bits) if candidate.vectors else ElementMatrix()
    rows = size = 0
    for router, sets in enumerate(known[grade]):
        if isinstance(matrix, EncodedMatrix):
            vectors = interests.minimal(interests.from_vectors({encoding.vector(one) for one in sets}))
            matrix.add(router, as_vectors([int.from_bytes(one, "little") for one in vectors], candidate.bits))
            advertised = vectors
        else:
            matrix.add(router, sets)
            advertised = interests.from_sets(sets)
        rows += len(advertised)
        size += len(encode_change(Change(tuple(advertised)), interests.row_bytes))
    encoder = MessageEncoder(candidate.bits, candidate.hashes, graded=candidate.graded)
    carried = (
        matrix.match(encoder.vectors(batch))
        if isinstance(matrix, EncodedMatrix)
        else matrix.match(encoder.elements(batch))
    )
    grid = _grid(carried.offsets, carried.values, len(predicates))
    missed, wanted = int((exact & ~grid).sum()), int(exact.sum())
    sent, routers = int(grid.sum()), len(predicates)
    ratio = 1.0 if sent == wanted else sent / wanted if wanted else None
    return EncodingOutcome(candidate, ratio, float(grid.mean()), missed, rows / routers, size / routers)
