"""Results of long runs, a line of JSON each, with date, commit and machine: what `docs/results.md` is made of.

python -m tidings.testing.record FILE WHAT NAME=VALUE …
"""

import json
import sys
from pathlib import Path

from tidings.lab.machine import environment


def note(path: str | Path, what: str, **figures: object) -> None:
    """Add a line to a file of results."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a") as file:
        file.write(json.dumps({"what": what, **environment(), **figures}) + "\n")


if __name__ == "__main__":
    path, what, *pairs = sys.argv[1:]
    said = (pair.partition("=") for pair in pairs)
    note(path, what, **{name: int(value) if value.isdecimal() else value for name, _, value in said})
