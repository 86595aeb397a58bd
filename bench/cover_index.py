"""Time of covering queries among 100 to 100 000 filters. Run: python -m bench.cover_index

Two populations: ranges of a class (`class = 'c17' AND x BETWEEN .. AND ..`, one class for every 30 filters), as in the
experiments on pruning, and the conjunctions of the B-DRP paper's workload, where many questions have thousands of
answers. `covered` asks for one answer only, which is what routing asks most.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeAlias

from hardening.contracts.reference_cover_index import ReferenceCoverIndex

from bench import harness
from bench.covering import conjunction
from tidings.matching.cover_index import CoverIndex
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate

SIZES = (100, 1_000, 10_000, 100_000)
ASKED = 50
QUESTIONS = ("covering", "covered_by", "intersecting")


def classes(rng: Random, size: int) -> list[Predicate]:
    found = []
    for number in range(size):
        low, width = rng.randrange(900), 1000 if number % 30 == 0 else rng.randrange(20, 300)
        low = 0 if number % 30 == 0 else low
        name = f"c{rng.randrange(max(1, size // 30))}"
        bounds = (Constraint("x", Op.GE, low), Constraint("x", Op.LE, low + width))
        found.append(Predicate.of(Constraint("class", Op.EQ, name), *bounds))
    return found


def paper(rng: Random, size: int) -> list[Predicate]:
    found: list[Predicate] = []
    while len(found) < size:
        one = conjunction(rng, 5)
        if one.normal.satisfiable:
            found.append(Predicate([one]))
    return found


Index: TypeAlias = CoverIndex[int] | ReferenceCoverIndex[int]


def _answers(index: Index, question: str, asked: list[Predicate]) -> list[list[int]]:
    ask = getattr(index, question)
    return [list(ask(one)) for one in asked]


def measure(make: Callable[[Random, int], list[Predicate]], size: int) -> dict[str, Any]:
    rng = Random(size)
    filters = make(rng, size)
    asked = make(rng, size + ASKED)[-ASKED:]
    index: CoverIndex[int] = CoverIndex()
    scan: ReferenceCoverIndex[int] = ReferenceCoverIndex()
    for one in filters:
        assert one.conjunctions[0].normal is not None  # worked out once and kept, so not part of either

    def build() -> None:
        nonlocal index
        index = CoverIndex()
        for number, one in enumerate(filters):
            index.add(number, one)

    point: dict[str, Any] = {"size": size, "add_us": harness.best_seconds(build, 2) / size * 1e6}
    for number, one in enumerate(filters):
        scan.add(number, one)
    few = asked[: max(2, 200_000 // size // 10)]
    point["covered_us"] = (
        harness.best_seconds(lambda: [next(index.covering(one), None) for one in asked], 3) / len(asked) * 1e6
    )
    for name in QUESTIONS:
        found = [sorted(_answers(index, name, [one])[0]) for one in few]
        assert found == [sorted(_answers(scan, name, [one])[0]) for one in few]
        point[f"{name}_us"] = harness.best_seconds(partial(_answers, index, name, asked), 2) / len(asked) * 1e6
        point[f"{name}_scan_us"] = harness.best_seconds(partial(_answers, scan, name, few), 1) / len(few) * 1e6
        point[f"{name}_found"] = sum(map(len, _answers(index, name, asked))) / len(asked)
    return point


def draw(results: dict[str, list[dict[str, Any]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, all_axes = pyplot.subplots(1, len(results), figsize=(10, 4.5), layout="constrained", sharey=True)
    all_axes[0].set_ylim(1, 1e6)
    for axes, (label, points) in zip(all_axes, results.items(), strict=True):
        sizes = [point["size"] for point in points]
        for name, colour in zip(QUESTIONS, ("C0", "C1", "C2"), strict=True):
            axes.loglog(sizes, [point[f"{name}_us"] for point in points], "o-", color=colour, label=f"{name}, index")
            axes.loglog(
                sizes, [point[f"{name}_scan_us"] for point in points], "x--", color=colour, label=f"{name}, scan"
            )
        axes.loglog(sizes, [point["covered_us"] for point in points], "s-", color="C3", label="covered?, index")
        axes.set_title(label)
        axes.set_xlabel("filters")
        axes.grid(True, which="both", alpha=0.3)
    all_axes[0].set_ylabel("µs a question, all answers")
    all_axes[0].legend(fontsize="small")
    figure.savefig(harness.RESULTS / "cover_index.png", dpi=120)
    pyplot.close(figure)


def main() -> None:
    results: dict[str, list[dict[str, Any]]] = {}
    for label, make in (("ranges of a class", classes), ("B-DRP workload", paper)):
        results[label] = [measure(make, size) for size in SIZES]
        columns = (
            "filters",
            "add µs",
            "covered µs",
            *(f"{name} {what}" for name in QUESTIONS for what in ("µs", "scan µs", "found")),
        )
        rows = [list(point.values()) for point in results[label]]
        assert len(rows[0]) == len(columns)
        harness.table(label, columns, rows)
    harness.save("cover_index", {"populations": results})
    draw(results)


if __name__ == "__main__":
    main()
