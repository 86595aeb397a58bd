"""The command: `python -m tidings.testing.simulate FIRST [LAST]`."""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from tidings.sim.driver import Trace
from tidings.testing.record import note
from tidings.testing.simulate import choices as menus
from tidings.testing.simulate.run import run
from tidings.testing.simulate.world import Outcome

GROUP = 20  # seeds that a process takes at a time
NAMES = ("world", "scheme", "overlay", "unicast", "tracking")
TOTALS = ("faults", "messages", "deliveries", "transactions", "traces")


def several(first: int, last: int, forced: dict[str, str]) -> tuple[list[Outcome], list[str]]:
    """What was simulated, and what failed, with the command that repeats it."""
    outcomes, failures = [], []
    for seed in range(first, last + 1):
        try:
            outcomes.append(run(seed, **forced))
        except Exception as error:  # noqa: BLE001  # whatever it is, the other seeds go on
            notes = " ".join(getattr(error, "__notes__", ()))
            failures.append(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}\n  {notes}")
    return outcomes, failures


def show(now: float, who: str, what: object) -> None:
    sys.stdout.write(f"{now:9.1f}  {who:>3}  {what}\n")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tidings.testing.simulate", description=__doc__)
    made.add_argument("first", type=int)
    made.add_argument("last", type=int, nargs="?")
    for name in NAMES:
        made.add_argument(f"--{name}", choices=tuple(getattr(menus, f"{name.upper()}S")), help="instead of chance")
    made.add_argument("--trace", action="store_true", help="show everything that happens")
    made.add_argument("--processes", type=int, default=1)
    made.add_argument("--seconds", type=float, help="begin nothing more after so long")
    made.add_argument("--results", help="add a line to this file")
    return made


def many(asked: argparse.Namespace, last: int, forced: dict[str, str]) -> int:
    began, outcomes, failures = time.monotonic(), [], []
    with ProcessPoolExecutor(asked.processes) as pool:
        firsts = range(asked.first, last + 1, GROUP)
        waiting = [pool.submit(several, first, min(first + GROUP - 1, last), forced) for first in firsts]
        for number, one in enumerate(waiting):
            if asked.seconds and time.monotonic() - began > asked.seconds and one.cancel():
                continue
            some, wrong = one.result()
            outcomes += some
            failures += wrong
            sys.stdout.write("".join(f"{text}\n" for text in wrong))
            if number % 10 == 9:
                sys.stdout.write(f"{len(outcomes)} right, {len(failures)} wrong\n")
            sys.stdout.flush()
    totals = {name: sum(getattr(one, name) for one in outcomes) for name in TOTALS}
    done = len(outcomes) + len(failures)
    sys.stdout.write(f"{done} seeds from {asked.first}, {len(failures)} wrong; {totals}\n")
    if asked.results:
        note(asked.results, "simulation", first=asked.first, seeds=done, wrong=len(failures), **forced, **totals)
    return 1 if failures else 0


def main(arguments: list[str]) -> int:
    asked = parser().parse_args(arguments)
    last = asked.first if asked.last is None else asked.last
    forced = {name: getattr(asked, name) for name in NAMES if getattr(asked, name)}
    if asked.first < last:
        return many(asked, last, forced)
    trace: Trace | None = show if asked.trace else None
    outcome = run(last, trace, **forced)
    sys.stdout.write(f"seed {last} ({menus.draw(last, **forced).describe()}): right; {asdict(outcome)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
