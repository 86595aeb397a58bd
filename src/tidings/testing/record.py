"""Results of long runs, a line of JSON each, with date, commit and machine: what `docs/results.md` is made of."""

import json
from pathlib import Path

from tidings.lab.machine import environment


def note(path: str | Path, what: str, **figures: object) -> None:
    """Add a line to a file of results."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a") as file:
        file.write(json.dumps({"what": what, **environment(), **figures}) + "\n")
