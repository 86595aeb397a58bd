"""Measured false-positive rates of the paper's six configurations, beside the formula's.

python -m bench.false_positives [--quick]

For each configuration, histories are filled as a broker fills them, by ids of one origin in the order of their time,
and asked about ids of the same time that were never recorded: of one filter, fpp, and of a matching set of two, efpp.
The
number of false positives of n queries of one filter is binomial. Filters differ, too: by the delta method their
fills add k·σ(fill)/fill of the rate to its standard deviation, divided by the root of their number. z is how many such
deviations the measured rate is from the formula's.
"""

import math
import sys
from itertools import pairwise
from typing import Any

import numpy as np

from bench.harness import save, table
from bench.paper_configurations import SHAPES
from tidings.tracking.ids import IdArray
from tidings.tracking.recording.history import BloomHistory, BloomSettings, HistoryEntry, HistoryKind, Key, efpp

QUERIES, FILTERS = 20_000_000, 40
Z_MAX = 4.0


def ids(start: int, count: int, publisher: int) -> IdArray:
    """Of one publisher at broker 1, a hundred a millisecond."""
    numbers = np.arange(start, start + count, dtype=np.uint64)
    low = ((numbers // np.uint64(100) + np.uint64(1_762_000_000_000)) << np.uint64(16)) | numbers % np.uint64(100)
    words = np.stack([np.full(count, (publisher << 32) | 1, np.uint64), low], axis=1)
    return words.astype(">u8").view(np.uint8).reshape(-1, 16)


def filled(settings: BloomSettings, filters: int) -> list[HistoryEntry]:
    history = BloomHistory(Key(HistoryKind.ROUTE, 1), settings)
    return [
        entry
        for number in range(filters)
        for entry in history.add(ids(number * settings.capacity, settings.capacity, 7), 1_762_000_000_000)
    ]


def measure(settings: BloomSettings, queries: int, filters: int) -> dict[str, Any]:
    """Of one filter and of two, with how far they are from what the formulas say."""
    entries = filled(settings, filters)
    each = -(-queries // (filters - 1))
    one = two = 0
    for number, (first, second) in enumerate(pairwise(entries)):
        asked = ids(number * each, each, 9)  # of another publisher: never recorded
        held = first.opened().contains(asked)
        one += int(held.sum())
        two += int((held | second.opened().contains(asked)).sum())
    asked_in_all = each * (filters - 1)
    expected = settings.fpp, efpp([settings.fpp] * 2)
    fill = -math.expm1(-settings.hashes * settings.capacity / settings.bits)
    spread = settings.hashes * math.sqrt(fill * (1 - fill) / settings.bits) / fill / math.sqrt(filters)
    found: dict[str, Any] = {"queries": asked_in_all, "filters": filters, "fpp": expected[0], "efpp": expected[1]}
    for name, count, mean in (("fpp", one, expected[0]), ("efpp", two, expected[1])):
        found[f"{name}_measured"] = count / asked_in_all
        deviation = math.hypot(math.sqrt(mean * (1 - mean) / asked_in_all), mean * spread)
        found[f"{name}_z"] = (count / asked_in_all - mean) / deviation
    return found


def main() -> None:
    queries = 1_000_000 if "--quick" in sys.argv else QUERIES
    rows: list[dict[str, Any]] = [
        {"n": one.capacity, "m": one.bits, "k": one.hashes, "accuracy": accuracy} | measure(one, queries, FILTERS)
        for (_, accuracy), one in SHAPES.items()
    ]
    columns = ("n", "m", "k", "queries", "fpp", "fpp_measured", "fpp_z", "efpp", "efpp_measured", "efpp_z")
    table("false positives", columns, [[row[name] for name in columns] for row in rows])
    print(save("false_positives", {"rows": rows}))
    far = [row["n"] for row in rows if max(abs(row["fpp_z"]), abs(row["efpp_z"])) > Z_MAX]
    if far:
        sys.exit(f"beyond sampling error: n = {far}")


if __name__ == "__main__":
    main()
