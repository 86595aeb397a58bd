"""The command: `python -m hardening.simulate FIRST [LAST]`."""

import sys
from dataclasses import asdict
from functools import partial

from hardening.seeds import parser, run_seeds
from hardening.simulate import choices as menus
from hardening.simulate.leases.mutants import LEASE_MUTANTS
from hardening.simulate.mqtt_mutants import MQTT_MUTANTS
from hardening.simulate.mutants import MUTANTS
from hardening.simulate.planting import first_noticed
from hardening.simulate.promise_mutants import PROMISE_MUTANTS
from hardening.simulate.queue_mutants import QUEUE_MUTANTS
from hardening.simulate.run import run
from hardening.simulate.subscription_mutants import SUBSCRIPTION_MUTANTS
from tidings.sim.driver import Trace

NAMES = ("world", "scheme", "overlay", "unicast", "tracking", "moment", "strain", "roll")
TOTALS = ("faults", "messages", "deliveries", "transactions", "traces")


def figures(forced: dict[str, str], seed: int) -> dict[str, int]:
    outcome = run(seed, **forced)
    return {name: getattr(outcome, name) for name in TOTALS}


def show(now: float, who: str, what: object) -> None:
    sys.stdout.write(f"{now:9.1f}  {who:>3}  {what}\n")


def show_mutants() -> int:
    """A table, as docs/networks.md has it."""
    sys.stdout.write("| mutant | defect | first seed | noticed by |\n|---|---|---|---|\n")
    unnoticed = 0
    for mutant in (*MUTANTS, *PROMISE_MUTANTS, *QUEUE_MUTANTS, *SUBSCRIPTION_MUTANTS, *MQTT_MUTANTS, *LEASE_MUTANTS):
        notice = first_noticed(mutant)
        unnoticed += notice is None
        seed, checker = ("none", "nobody") if notice is None else (str(notice.seed), notice.checker)
        sys.stdout.write(f"| {mutant.name} | {mutant.what} | {seed} | {checker} |\n")
        sys.stdout.flush()
    return min(unnoticed, 1)


def main(arguments: list[str]) -> int:
    made = parser("simulate", "Random networks, workloads and faults, judged by named checkers.")
    for name in NAMES:
        made.add_argument(f"--{name}", choices=tuple(getattr(menus, f"{name.upper()}S")), help="instead of chance")
    made.add_argument("--trace", action="store_true", help="show everything that happens; of one seed")
    made.add_argument("--mutants", action="store_true", help="show which seed notices each seeded defect (mutants.py)")
    if "--mutants" in arguments:
        return show_mutants()
    asked = made.parse_args(arguments)
    forced = {name: getattr(asked, name) for name in NAMES if getattr(asked, name)}
    if asked.last not in (None, asked.first):
        return run_seeds(asked, "simulation", partial(figures, forced), **forced)
    trace: Trace | None = show if asked.trace else None
    outcome = run(asked.first, trace, **forced)
    sys.stdout.write(f"seed {asked.first} ({menus.draw(asked.first, **forced).describe()}): right; {asdict(outcome)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
