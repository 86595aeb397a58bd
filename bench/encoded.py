"""The encoded matrix against a plain row scan, and the precision of the encodings, on the paper's workload.

python -m bench.encoded [--sizes 1000,10000,100000,1000000]

Workload of B-DRP: 10 attributes a message out of 20 names, 60 % strings from 200 terms, 40 % integers 0 to 100;
conjunctions of 1 to 5 constraints; strings 70 % equality and 10 % each prefix, suffix, substring; integers 80 %
equality, 10 % <, 10 % >. M = 256, k = 10, batches of 64, all matching vectors reported.
"""

import argparse
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import RESULTS, save
from tidings import _kernel
from tidings.kernel.element_matrix import ElementMatrix, pack
from tidings.kernel.encoder import MessageEncoder
from tidings.kernel.matrix import EncodedMatrix, Vectors, as_vectors
from tidings.matching.categories import Category
from tidings.matching.encoding import Encoding, choose
from tidings.matching.graded import GradedGrade
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.model.values import Value

BATCH = 64
ELEMENTS_MAX = 100_000  # conjunctions; Python takes long to encode more
GOALS = {1_000: 0.7, 10_000: 3.0, 100_000: 20.0, 1_000_000: 180.0}


class Paper:
    """The workload, from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        terms: set[str] = set()
        while len(terms) < 200:
            syllables = self.rng.randrange(2, 6)
            terms.add("".join(self.rng.choice("bcdfghlmnprstvz") + self.rng.choice("aeiou") for _ in range(syllables)))
        self.terms = sorted(terms)

    def names(self, count: int) -> list[str]:
        names: dict[str, None] = {}
        while len(names) < count:
            text = self.rng.random() < 0.6
            names[f"s{self.rng.randrange(12)}" if text else f"i{self.rng.randrange(8)}"] = None
        return list(names)

    def constraint(self, name: str) -> Constraint:
        chance = self.rng.random()
        if name.startswith("i"):
            op = Op.EQ if chance < 0.8 else Op.LT if chance < 0.9 else Op.GT
            return Constraint(name, op, self.rng.randrange(101))
        term = self.rng.choice(self.terms)
        size = self.rng.randrange(2, 5)
        start = self.rng.randrange(len(term) - size + 1)
        if chance < 0.7:
            return Constraint(name, Op.EQ, term)
        if chance < 0.8:
            return Constraint(name, Op.PREFIX, term[:size])
        if chance < 0.9:
            return Constraint(name, Op.SUFFIX, term[-size:])
        return Constraint(name, Op.CONTAINS, term[start : start + size])

    def conjunction(self) -> list[Constraint]:
        return [self.constraint(name) for name in self.names(self.rng.randrange(1, 6))]

    def message(self) -> dict[str, Value]:
        return {
            name: self.rng.choice(self.terms) if name.startswith("s") else self.rng.randrange(101)
            for name in self.names(10)
        }


def best_us(work: Callable[[], object], per: int, repetitions: int) -> float:
    best = float("inf")
    for _ in range(repetitions):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best / per * 1e6


def plain_vectors(paper: Paper, count: int, encoding: Encoding) -> Vectors:
    """A vector a conjunction; each constraint's is computed once."""
    known: dict[Constraint, int] = {}
    rows = []
    for _ in range(count):
        vector = 0
        for constraint in paper.conjunction():
            if constraint not in known:
                [elements] = encoding.conjunction_elements([constraint])
                known[constraint] = encoding.vector(elements)
            vector |= known[constraint]
        rows.append(vector)
    return as_vectors(rows, encoding.bits)


def measure_matrix(size: int, messages: Vectors, encoding: Encoding) -> dict[str, Any]:
    rows = plain_vectors(Paper(size), size, encoding)
    matrix = EncodedMatrix(encoding.bits)
    start = time.thread_time()
    for router, some in enumerate(np.array_split(rows, max(1, size // 5))):  # few a router: nearly all stay active
        matrix.add(router, some)
    add_us = (time.thread_time() - start) / size * 1e6
    repetitions = 10 if size < 1_000_000 else 4
    result: dict[str, Any] = {"vectors": size, "distinct": matrix.row_count, "active": matrix.active_row_count}
    result["add_us"] = round(add_us, 3)
    result["bytes_per_vector"] = round(matrix.memory_bytes / size, 1)
    batch = messages[:BATCH]
    for level, name in enumerate(("portable", "avx2", "avx512")):
        if level <= _kernel.simd_level():
            work = lambda level=level: matrix.match_rows(batch, simd=level)  # noqa: E731
            result[f"{name}_us"] = round(best_us(work, BATCH, repetitions), 3)
    few = batch if size < 100_000 else batch[:16]
    result["row_scan_us"] = round(best_us(lambda: _kernel.row_scan(rows, few), len(few), 3), 3)
    result["matches"] = len(matrix.match_rows(batch).values) / BATCH
    result["goal_us"] = GOALS.get(size)
    return result


def measure_elements(size: int, encoding: Encoding, messages: list[dict[str, Value]]) -> dict[str, Any]:
    """The matrix of element sets: conjunctions of one router each twenty, routers reported."""
    paper, matrix = Paper(size), ElementMatrix()
    known: dict[Category, int] = {}

    def element(category: Category) -> int:
        if category not in known:
            known[category] = encoding.element(category)
        return known[category]

    sets = 0
    add_us = 0.0
    for router in range(size // 20):
        alternatives = [choose(encoding.grade.asked(paper.conjunction()), encoding.alternatives_max) for _ in range(20)]
        some = {frozenset(map(element, one)) for each in alternatives for one in each}
        sets += len(some)
        start = time.thread_time()
        matrix.add(router, some)
        add_us += (time.thread_time() - start) * 1e6
    carried = pack([encoding.message_elements(message) for message in messages])
    return {
        "conjunctions": size,
        "sets": sets,
        "distinct": matrix.row_count,
        "add_us": round(add_us / sets, 3),
        "bytes_per_set": round(matrix.memory_bytes / sets, 1),
        "us": round(best_us(lambda: matrix.match(carried), len(messages), 10), 3),
        "routers_found": len(matrix.match(carried).values) / len(messages),
    }


def measure_precision(routers: int, conjunctions: int, messages: int) -> list[dict[str, Any]]:
    paper = Paper(7)
    predicates = [Predicate([paper.conjunction() for _ in range(conjunctions)]) for _ in range(routers)]
    sent = [paper.message() for _ in range(messages)]
    exact = sum(predicate.matches(message) for predicate in predicates for message in sent)
    rows: list[dict[str, Any]] = [{"encoding": "exact", "share": exact / routers / messages, "ratio": 1.0}]
    settings = {
        "plain": Encoding(),
        "graded, 2 pieces": Encoding(grade=GradedGrade(2)),
        "graded": Encoding(grade=GradedGrade()),
    }
    for name, encoding in settings.items():
        sets = [encoding.predicate_elements(predicate) for predicate in predicates]
        carried = [encoding.message_elements(message) for message in sent]
        found = sum(any(one <= message for one in some) for some in sets for message in carried)
        row = {"encoding": name, "share": found / routers / messages, "ratio": round(found / exact, 3)}
        rows.append(row | {"sets": sum(map(len, sets)), "elements_a_message": sum(map(len, carried)) / messages})
    return rows


def measure_encoder() -> dict[str, float]:
    from tidings.kernel.codec import MessageBatch, encode_messages
    from tidings.model.destination import Destination
    from tidings.model.message import Message

    paper = Paper(3)
    sent = [Message(Destination("paper"), paper.message()) for _ in range(1000)]
    batch = MessageBatch.from_messages(encode_messages(sent))
    plain, graded = MessageEncoder(256, 7), MessageEncoder(4096, 7, graded=True)
    return {
        "plain_us": round(best_us(lambda: plain.vectors(batch), 1000, 10), 3),
        "graded_us": round(best_us(lambda: graded.vectors(batch), 1000, 10), 3),
    }


def plot(rows: list[dict[str, Any]]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    sizes = [row["vectors"] for row in rows]
    for key, label in (("row_scan_us", "row scan"), ("avx2_us", "matrix, AVX2"), ("avx512_us", "matrix, AVX-512")):
        if key in rows[0]:
            axes.loglog(sizes, [row[key] for row in rows], marker="o", label=label)
    axes.set(xlabel="vectors", ylabel="µs per message", title="Encoded matrix, M = 256, k = 10, batches of 64")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(RESULTS / "encoded.png", dpi=150, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    sizes = [int(size) for size in parser.parse_args().sizes.split(",")]
    encoding, paper = Encoding(256, 10), Paper(1)
    messages = as_vectors([encoding.message_vector(paper.message()) for _ in range(BATCH)], 256)
    rows = []
    for size in sizes:
        rows.append(measure_matrix(size, messages, encoding))
        print(rows[-1])
    elements: dict[str, list[dict[str, Any]]] = {"plain": [], "graded": []}
    for name, one in (("plain", Encoding()), ("graded", Encoding(grade=GradedGrade()))):
        for size in sizes:
            if size <= ELEMENTS_MAX:
                elements[name].append(measure_elements(size, one, [paper.message() for _ in range(BATCH)]))
                print(name, elements[name][-1])
    precision = measure_precision(100, 100, 60)
    for row in precision:
        print(row)
    encoder = measure_encoder()
    print(encoder)
    measured = {"matrix": rows, "elements": elements, "precision": precision, "encoder": encoder}
    path = save("encoded", {"unit": "µs per message", **measured})
    plot(rows)
    print("written to", path)


if __name__ == "__main__":
    main()
