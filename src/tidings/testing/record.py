"""Results of long runs, a line of JSON each, with date, commit and machine: what `docs/results.md` is made of.

python -m tidings.testing.record FILE WHAT NAME=VALUE …
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from tidings.lab.machine import environment


def note(path: str | Path, what: str, **figures: object) -> None:
    """Add a line to a file of results."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a") as file:
        file.write(json.dumps({"what": what, **environment(), **figures}) + "\n")


def noted(path: str | Path | None, what: str, run: Callable[[], dict[str, int]], **said: object) -> dict[str, int]:
    """Run something and add its line, also if it fails: then without figures, and one thing is wrong."""
    try:
        figures = run()
    except BaseException as error:
        if path is not None and not isinstance(error, KeyboardInterrupt):
            note(path, what, **said, wrong=1)
        raise
    if path is not None:
        note(path, what, **said, **figures, wrong=0)
    return figures


if __name__ == "__main__":
    path, what, *pairs = sys.argv[1:]
    said = (pair.partition("=") for pair in pairs)
    note(path, what, **{name: int(value) if value.isdecimal() else value for name, _, value in said})
