"""The encoded matrix against a plain row scan, on the paper's workload; bench/encoding_study.py has the precision.

python -m bench.encoded [--sizes 1000,10000,100000,1000000]

Workload of B-DRP: 10 attributes a message out of 20 names, 60 % strings from 200 terms, 40 % integers 0 to 100;
conjunctions of 1 to 5 constraints; strings 70 % equality and 10 % each prefix, suffix, substring; integers 80 %
equality, 10 % <, 10 % >. M = 256, k = 10, batches of 64, all matching vectors reported.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import RESULTS, save
from tidings import _kernel
from tidings.experiments.bdrp.paper_workload import PaperWorkload
from tidings.kernel.element_matrix import ElementMatrix, pack
from tidings.kernel.encoder import MessageEncoder
from tidings.kernel.matrix import EncodedMatrix, Vectors, as_vectors
from tidings.matching.categories import Category
from tidings.matching.encoding import Encoding, choose
from tidings.matching.graded import GradedGrade
from tidings.model.constraint import Constraint
from tidings.model.values import Value

BATCH = 64
ELEMENTS_MAX = 100_000  # conjunctions; Python takes long to encode more
GOALS = {1_000: 0.7, 10_000: 3.0, 100_000: 20.0, 1_000_000: 180.0}


def best_us(work: Callable[[], object], per: int, repetitions: int) -> float:
    best = float("inf")
    for _ in range(repetitions):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best / per * 1e6


def plain_vectors(paper: PaperWorkload, count: int, encoding: Encoding) -> Vectors:
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
    rows = plain_vectors(PaperWorkload(size, mixed_names=False), size, encoding)
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
    paper, matrix = PaperWorkload(size, mixed_names=False), ElementMatrix()
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


def measure_encoder() -> dict[str, float]:
    from tidings.kernel.codec import MessageBatch, encode_messages
    from tidings.model.destination import Destination
    from tidings.model.message import Message

    paper = PaperWorkload(3, mixed_names=False)
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
    encoding, paper = Encoding(256, 10), PaperWorkload(1, mixed_names=False)
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
    encoder = measure_encoder()
    print(encoder)
    measured = {"matrix": rows, "elements": elements, "encoder": encoder}
    path = save("encoded", {"unit": "µs per message", **measured})
    plot(rows)
    print("written to", path)


if __name__ == "__main__":
    main()
