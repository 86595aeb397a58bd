"""Bloom filter: ids per second, added and tested, for filters inside and outside the caches.

python -m bench.bloom
"""

import time
from collections.abc import Callable

import numpy as np

from bench.harness import save
from tidings.kernel.bloom import BloomFilter

IDS = 500_000
SHAPES = [(65536, 16), (1 << 20, 12), (1 << 20, 16), (1 << 27, 16)]


def million_per_second(work: Callable[[], object], repetitions: int = 5) -> float:
    best = float("inf")
    for _ in range(repetitions):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return round(IDS / best / 1e6, 1)


def measure(bits: int, hashes: int) -> dict[str, float]:
    rng = np.random.default_rng(1)
    added, absent = (rng.integers(0, 256, (IDS, 16), dtype=np.uint8) for _ in range(2))
    filled = BloomFilter(bits, hashes)
    filled.add(added[: bits // hashes * 2 // 3])  # about half of the bits set
    present = BloomFilter(bits, hashes)
    present.add(added)
    return {
        "bits": bits,
        "hashes": hashes,
        "add": million_per_second(
            lambda: BloomFilter(bits, hashes).add(added) if bits < 1 << 24 else present.add(added)
        ),
        "test_present": million_per_second(lambda: present.contains(added)),
        "test_absent": million_per_second(lambda: filled.contains(absent)),
    }


def main() -> None:
    rows = [measure(*shape) for shape in SHAPES]
    print("million ids per second")
    print(f"{'bits':>10} {'k':>3} {'add':>8} {'present':>8} {'absent':>8}")
    for row in rows:
        print(f"{row['bits']:>10} {row['hashes']:>3} {row['add']:>8} {row['test_present']:>8} {row['test_absent']:>8}")
    print("written to", save("bloom", {"unit": "million ids per second", "rows": rows}))


if __name__ == "__main__":
    main()
