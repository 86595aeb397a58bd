"""Long campaigns in rounds: each is said when it is done, and a campaign that was ended goes on where it was.

The finished rounds of a campaign are in a file of its name and seed below build/kills until all of them are done.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

PROGRESS = Path("build") / "kills"


def rounds(
    name: str, seed: int, count: int, run: Callable[[int], dict[str, int]], *, folder: Path = PROGRESS
) -> dict[str, int]:
    """The sums of the figures of all rounds; `run` has the number of a round, from 0, and fails by an exception."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace(' ', '-')}-{seed}.jsonl"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if done:
        sys.stderr.write(f"{name}, seed {seed}: goes on after {len(done)} rounds\n")
    for number in range(len(done), count):
        figures = run(number)
        done.append(figures)
        with path.open("a") as file:
            file.write(json.dumps(figures) + "\n")
        sys.stderr.write(f"{name}, seed {seed}: round {number + 1} of {count}: {figures}\n")
        sys.stderr.flush()
    sums: Counter[str] = Counter()
    for figures in done[:count]:
        sums.update(figures)
    path.unlink(missing_ok=True)
    return dict(sums)
