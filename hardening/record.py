"""Results of long runs, a line of JSON each, with date, commit and machine: what `docs/results.md` is made of.

python -m hardening.record FILE WHAT NAME=VALUE …
python -m hardening.record FILE WHAT --tests REPORT     # how many a report in JUnit's form has, and failed
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tidings.lab.machine import environment

N = TypeVar("N", int, float)
COUNTED = ("tests", "skipped", "errors", "failures")


def note(path: str | Path, what: str, **figures: object) -> None:
    """Add a line to a file of results."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a") as file:
        file.write(json.dumps({"what": what, **environment(), **figures}) + "\n")


def noted(path: str | Path | None, what: str, run: Callable[[], dict[str, N]], **said: object) -> dict[str, N]:
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


def times(text: str) -> int:
    """Parses a number of repetitions; refuses 0, because an empty run would leave a line that proves nothing."""
    if not text.isdecimal() or int(text) < 1:
        sys.exit(f"the number of repetitions must be an integer of at least 1, not {text}")
    return int(text)


def tests(report: Path) -> dict[str, int]:
    """Counts tests and failures in a JUnit report; without a report, the run ended before it could be written."""
    if not report.exists():
        return {"tests": 0, "wrong": 1}
    text = report.read_text()
    count = {name: sum(map(int, re.findall(rf'<testsuite [^>]*\b{name}="(\d+)"', text))) for name in COUNTED}
    return {"tests": count["tests"] - count["skipped"], "wrong": count["errors"] + count["failures"]}


def main(arguments: list[str]) -> None:
    path, what, *rest = arguments
    if rest[:1] == ["--tests"]:
        note(path, what, **tests(Path(rest[1])))
        return
    said = (pair.partition("=") for pair in rest)
    note(path, what, **{name: int(value) if value.isdecimal() else value for name, _, value in said})


if __name__ == "__main__":
    main(sys.argv[1:])
