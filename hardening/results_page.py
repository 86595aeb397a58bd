"""The page of results: what was simulated, killed, cut, fuzzed and tried, from the lines that these commands leave.

python -m hardening.results_page docs/results.md
"""

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "hardening"
PAGE = """# Results of hardening

What the commands of the left column have done so far, a line each: they add their lines to `bench/results/hardening`,
and this page is made from them by `python -m hardening.results_page docs/results.md`. A test holds that it is
current. Runs that fail leave lines too: what went wrong is counted in them (*wrong*).

## In all
| what | runs | sums |
|---|---|---|
{totals}

## Run by run
| command | date | commit | seed | what was done |
|---|---|---|---|---|
{rows}
"""
COMMANDS = {
    "simulation": "make sim",
    "pan": "make pan",
    "hermes": "make hermes",
    "covering": "make covering",
    "differential": "make differential",
    "kills of one broker": "make crash",
    "kills in a network": "make crash",
    "power failures": "make crash",
    "damaged stores": "make crash",
    "partitions": "make partition",
    "access": "python -m hardening.access.matrix",
    "fuzzing": "make fuzz",
    "threads": "make tsan",
    "load": "make load",
    "audit": "make audit",
}
SETTINGS = {"sets", "seconds", "minutes"}  # that say how, and are not to be summed
COMMON = {"what", "date", "version", "commit", "machine", "system", "python", "cpu", "seed", "first"}


def lines() -> list[dict[str, Any]]:
    """Of all runs that did something."""
    found = [json.loads(line) for path in sorted(RESULTS.glob("*.json")) for line in path.read_text().splitlines()]
    found = [one for one in found if one.get("seeds") != 0]
    return sorted(found, key=lambda one: (list(COMMANDS).index(one["what"]), one["date"]))


def row(one: dict[str, Any]) -> str:
    figures = ", ".join(
        f"{name.replace('_', ' ')} {_number(value)}" for name, value in one.items() if name not in COMMON
    )
    seed = one.get("seed", f"from {one['first']}" if "first" in one else "")
    return f"| `{COMMANDS[one['what']]}` | {one['date'][:16]} | {one['commit']} | {seed} | {one['what']}: {figures} |"


def total(what: str, runs: list[dict[str, Any]]) -> str:
    sums: Counter[str] = Counter()
    for one in runs:
        counted = {name: value for name, value in one.items() if name not in COMMON | SETTINGS}
        sums.update({name: value for name, value in counted.items() if type(value) is int})
    figures = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in sums.items())
    return f"| {what} | {len(runs)} | {figures} |"


def totals() -> list[str]:
    """A line for each kind of run; parsers one by one, and measurements not at all: these cannot be summed."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in lines():
        if one["what"] not in ("load", "threads", "audit"):
            groups[f"{one['what']}: {one['parser']}" if "parser" in one else one["what"]].append(one)
    return [total(what, runs) for what, runs in groups.items()]


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def page() -> str:
    return PAGE.format(totals="\n".join(totals()), rows="\n".join(row(one) for one in lines()))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
