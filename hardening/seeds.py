"""A command that runs many seeds: totals, what failed and how it is repeated, and a line for `docs/results.md`.

Simulations of several kinds share it: `python -m hardening.machines.pan 1 1000 --processes 2 --results FILE`.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from math import inf
from pathlib import Path
from time import monotonic

from hardening.record import note

GROUP = 10  # seeds that a process takes at a time
PROGRESS = 20  # groups, after which it is said how far the run is
One = Callable[[int], dict[str, int]]  # a seed's figures, to be added up; what is wrong is raised


def several(one: One, first: int, last: int, until: float) -> tuple[int, Counter[str], list[str]]:
    """Runs a range of seeds; returns the number run, the total figures and the failures.

    No seed is begun after `until`, by `monotonic`, which is the same clock in all processes.
    """
    totals: Counter[str] = Counter()
    failures: list[str] = []
    for seed in range(first, last + 1):
        if monotonic() >= until:
            return seed - first, totals, failures
        try:
            totals.update(one(seed))
        except Exception as error:  # noqa: BLE001  # whatever it is, the other seeds go on
            notes = " ".join(getattr(error, "__notes__", ()))
            failures.append(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}\n  {notes}")
    return last + 1 - first, totals, failures


def parser(module: str, description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=f"python -m hardening.{module}", description=description)
    made.add_argument("first", type=int)
    made.add_argument("last", type=int, nargs="?", help="the first alone if left out")
    made.add_argument("--processes", type=int, default=1)
    made.add_argument("--seconds", type=float, help="begin nothing more after so long")
    made.add_argument("--results", type=Path, help="add a line to this file")
    return made


def run_seeds(asked: argparse.Namespace, what: str, one: One, **said: str) -> int:
    """`what`: its name on the page of results; `said`: what else belongs there. Returns the status to end with."""
    last = asked.first if asked.last is None else asked.last
    if last < asked.first:
        sys.exit(f"seeds from {asked.first} to {last}: there are none")
    until = inf if asked.seconds is None else monotonic() + asked.seconds
    totals: Counter[str] = Counter()
    seeds = wrong = 0
    with ProcessPoolExecutor(asked.processes) as pool:
        groups = [(first, min(first + GROUP - 1, last)) for first in range(asked.first, last + 1, GROUP)]
        for number, done in enumerate([pool.submit(several, one, *group, until) for group in groups], 1):
            count, figures, failures = done.result()
            seeds += count
            wrong += len(failures)
            totals.update(figures)
            sys.stdout.write("".join(f"{text}\n" for text in failures))
            if number % PROGRESS == 0 and monotonic() < until:
                sys.stdout.write(f"{seeds - wrong} right, {wrong} wrong\n")
            sys.stdout.flush()
    sys.stdout.write(f"{what}: {seeds} seeds from {asked.first}, {wrong} wrong; {dict(totals)}\n")
    if asked.results and seeds:
        note(asked.results, what, first=asked.first, seeds=seeds, wrong=wrong, **said, **totals)
    return 1 if wrong else 0
