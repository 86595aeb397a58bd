"""Encoded matching in a large network: a message against 1000 routers with 1000 vectors each, beside a plain row scan.

    python -m bench.routers [--routers 1000] [--vectors 1000]

The workload of bench.encoded, M = 256, k = 10. The scan looks at every router's every vector, as they were advertised;
the matrix keeps equal vectors once and of each router only the minimal ones. Both one message at a time, and the matrix
in batches of 64 as well, which is how a busy broker asks it.
"""

import argparse
import time
from typing import Any

import numpy as np

from bench.encoded import BATCH, best_us, plain_vectors
from bench.harness import save, table
from tidings import _kernel
from tidings.experiments.bdrp.paper_workload import PaperWorkload
from tidings.kernel.matrix import EncodedMatrix, Vectors, as_vectors
from tidings.matching.encoding import Encoding

SCANNED = 8  # messages


def fill(rows: Vectors, routers: int, bits: int) -> tuple[EncodedMatrix, float]:
    """The matrix, and CPU seconds for filling it."""
    matrix = EncodedMatrix(bits)
    start = time.thread_time()
    for router, some in enumerate(np.array_split(rows, routers)):
        matrix.add(router, some)
    return matrix, time.thread_time() - start


def measure(routers: int, vectors: int) -> dict[str, Any]:
    encoding, paper = Encoding(256, 10), PaperWorkload(1, mixed_names=False)
    messages = as_vectors([encoding.message_vector(paper.message()) for _ in range(BATCH)], encoding.bits)
    rows = plain_vectors(PaperWorkload(routers, mixed_names=False), routers * vectors, encoding)
    matrix, seconds = fill(rows, routers, encoding.bits)
    few = messages[:SCANNED]
    scan_us = best_us(lambda: _kernel.row_scan(rows, few), len(few), 5)
    one_us = best_us(lambda: [matrix.match(messages[i : i + 1]) for i in range(BATCH)], BATCH, 5)
    batch_us = best_us(lambda: matrix.match(messages), BATCH, 5)
    return {
        "routers": routers,
        "vectors": routers * vectors,
        "distinct": matrix.row_count,
        "searched": matrix.active_row_count,
        "bytes_per_vector": matrix.memory_bytes / len(rows),
        "add_us_per_vector": seconds / len(rows) * 1e6,
        "routers_found": len(matrix.match(messages).values) / BATCH,
        "scan_us": scan_us,
        "one_message_us": one_us,
        "one_message_ratio": scan_us / one_us,
        "batch_us": batch_us,
        "batch_ratio": scan_us / batch_us,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--routers", type=int, default=1000)
    parser.add_argument("--vectors", type=int, default=1000, help="of each router")
    arguments = parser.parse_args()
    found = measure(arguments.routers, arguments.vectors)
    table("one message against all routers, µs", list(found), [list(found.values())])
    print("written to", save("routers", {"unit": "µs per message", **found}))


if __name__ == "__main__":
    main()
