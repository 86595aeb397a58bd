"""Measures how long an innocent client waits while another is at a limit.

    python -m hardening.innocent                     # all rows that have no figures of this commit yet
    python -m hardening.innocent --missing           # all rows that have no figures at all
    python -m hardening.innocent --only selector     # those whose name has this text, again
    python -m hardening.innocent --only LIKE --stacks /tmp/stacks --keep     # where the loop was; nothing is saved

A broker process with real sockets, an attacker in another process (niced: it would have a machine of its own), and a
client that sends a small message to itself and waits for it. Its 99th percentile is in bench/results/innocent.json, and
with it the longest turn of the broker's event loop, in CPU time: that is what the others' wait comes from, and does not
depend on what else the machine does. `python -m hardening.limits_table docs/limits.md` puts both into the page.
"""

import argparse
import json
import sys
from pathlib import Path

from hardening.innocent.measure import measure
from hardening.innocent.rows import ROWS
from tidings.lab.machine import environment

RESULTS = Path(__file__).parents[2] / "bench" / "results" / "innocent.json"
SECONDS = 6.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="rows whose name has this text, again")
    options.add_argument("--seconds", type=float, default=SECONDS, help="of each attack")
    options.add_argument("--missing", action="store_true", help="rows that have no figures of any commit")
    options.add_argument("--again", action="store_true", help="all rows, also those that have figures")
    options.add_argument("--stacks", default="", help="write where the event loop was in long turns to this file")
    options.add_argument("--keep", action="store_true", help="save nothing")
    asked = options.parse_args()
    commit = environment()["commit"]
    saved = {} if not RESULTS.exists() else {row["what"]: row for row in json.loads(RESULTS.read_text())["rows"]}
    for row in ROWS:
        has = row.what in saved and (asked.missing or saved[row.what]["commit"] == commit)
        if asked.only not in row.what or (has and not asked.again and not asked.only):
            continue
        figures = measure(row, asked.seconds, asked.stacks)
        sys.stdout.write(f"{row.what:75} {figures.shown()}\n")
        sys.stdout.flush()
        if not asked.keep:
            saved[row.what] = {"what": row.what, "commit": commit, **figures.shown()}
            rows = [saved[one.what] for one in ROWS if one.what in saved]
            RESULTS.write_text(json.dumps({"environment": environment(), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
