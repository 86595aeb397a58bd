"""Shared by all benchmarks: timing in CPU time, tables on the screen, results as JSON with machine and commit.

Times are the CPU time of the calling thread, the best of several repetitions: on a machine that others use too, the
best is the least disturbed.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidings.lab.machine import environment

RESULTS = Path(__file__).parent / "results"


def best_seconds(work: Callable[[], object], repetitions: int = 5, seconds_max: float = 20.0) -> float:
    """The least CPU time of several calls; fewer calls if they take long."""
    best, spent = float("inf"), 0.0
    for _ in range(repetitions):
        start = time.thread_time()
        work()
        taken = time.thread_time() - start
        best, spent = min(best, taken), spent + taken
        if spent > seconds_max:
            break
    return best


def save(name: str, results: Mapping[str, Any]) -> Path:
    """Write results/<name>.json, with where and when they were measured."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"environment": environment(), **results}, indent=2) + "\n")
    return path


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [list(columns), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    print(f"\n{title}")
    for number, row in enumerate(cells):
        print("  " + "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))
    sys.stdout.flush()


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
