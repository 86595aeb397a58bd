"""Precision of encodings of interests, over M and grade, on the paper's workload.

python -m bench.encoding_study [--messages 20000]

100 routers × 100 conjunctions, 100 × 10, and 8 × 200 of one constraint each. Each pair of message and router is
compared with the exact answer; one that was missed would be a lost message, and ends this with status 1.
"""

import argparse
import sys
from dataclasses import asdict
from math import nan
from typing import Any

from bench.harness import RESULTS, save, table
from tidings.experiments.bdrp.encoding_study import Study, propose, study
from tidings.experiments.bdrp.paper_workload import PaperWorkload

SHAPES = ((100, 100, 5), (100, 10, 5), (8, 200, 1))
GOAL = 1.05


def measure(routers: int, conjunctions: int, constraints: int, messages: int) -> Study:
    paper = PaperWorkload(7, constraints_max=constraints)
    predicates = [paper.predicate(conjunctions) for _ in range(routers)]
    return study(predicates, [paper.message() for _ in range(messages)])


def plot(found: Study) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4))
    for name in ("vectors", "graded-vectors"):
        points = [one for one in found.outcomes if one.candidate.encoding == name]
        ratios = [nan if one.ratio is None else one.ratio for one in points]
        axes.plot([one.candidate.bits for one in points], ratios, marker="o", label=name)
    others = [one for one in found.outcomes if not one.candidate.vectors]
    for number, one in enumerate(others, start=2):  # some lie close together: they are named in the legend, with values
        if one.ratio is not None:
            label = f"{one.candidate}: {one.ratio:.3f}"
            axes.axhline(one.ratio, linestyle=":", linewidth=1.2, color=f"C{number}", label=label)
    axes.axhline(GOAL, color="grey", linewidth=0.5, label=f"goal: {GOAL}")
    axes.set_xscale("log", base=2)
    axes.set(xlabel="M, bits of a vector", ylabel="destination routers × exact", title="100 routers × 100 conjunctions")
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)
    figure.savefig(RESULTS / "encoding_study.png", dpi=150, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    messages = parser.parse_args().messages
    results: list[dict[str, Any]] = []
    missed = cases = 0
    for shape in SHAPES:
        found = measure(*shape, messages)
        if shape == SHAPES[0]:
            plot(found)
        rows = [
            (str(one.candidate), f"{one.ratio:.3f}", f"{one.share:.1%}", one.missed, round(one.advertisement_bytes))
            for one in found.outcomes
        ]
        title = f"{shape[0]} × {shape[1]}, 1 to {shape[2]} constraints: exact {found.exact_share:.1%}"
        table(title, ("encoding", "× exact", "of all", "missed", "bytes"), rows)
        print("proposed:", propose(found, GOAL).candidate)
        missed += sum(one.missed for one in found.outcomes)
        cases += len(found.outcomes) * found.routers * found.messages
        results.append({"shape": shape, **asdict(found), "proposed": str(propose(found, GOAL).candidate)})
    print(f"{cases:,} pairs of message and router, {missed} missed")
    path = save("encoding_study", {"cases": cases, "missed": missed, "studies": results})
    print("written to", path)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
