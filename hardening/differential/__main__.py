"""The command: `python -m hardening.differential FIRST [LAST]`."""

import sys

from hardening.differential.compare import run
from hardening.seeds import parser, run_seeds


def figures(seed: int) -> dict[str, int]:
    counts = run(seed)
    return {"steps": counts["steps"], "deliveries": counts["deliver"], "receipts": counts["accepted"]} | {
        "answers": counts["ok"] + counts["retained"],
        "errors": counts["error"] + counts["refused"],
    }


def main(arguments: list[str]) -> int:
    asked = parser("differential", "Client scripts at the simulated and at the real broker.").parse_args(arguments)
    return run_seeds(asked, "differential", figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
