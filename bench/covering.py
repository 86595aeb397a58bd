"""Time of `covers` and `intersects` for two typical conjunctions. Run: python -m bench.covering"""

import random
import time

from tidings.model.constraint import Constraint, Op
from tidings.model.covering import conjunction_covers, conjunction_intersects
from tidings.model.merging import merge
from tidings.model.predicate import Conjunction, Predicate

REPETITIONS = 5


def conjunction(rng: random.Random, constraints_max: int) -> Conjunction:
    """The workload of the B-DRP paper: 60 % strings from 200 terms, 40 % integers up to 100, of 20 attributes."""
    found = []
    for _ in range(rng.randint(1, constraints_max)):
        name = f"attribute{rng.randrange(20)}"
        if rng.random() < 0.6:
            op = rng.choices([Op.EQ, Op.PREFIX, Op.SUFFIX, Op.CONTAINS], [7, 1, 1, 1])[0]
            found.append(Constraint(name, op, f"term{rng.randrange(200)}"[: None if op is Op.EQ else 5]))
        else:
            op = rng.choices([Op.EQ, Op.LT, Op.GT], [8, 1, 1])[0]
            found.append(Constraint(name, op, rng.randrange(101)))
    return Conjunction(found)


def boxes(rng: random.Random) -> Conjunction:
    """Ranges over the same three attributes: every comparison is looked at in full."""
    found = [Constraint("stock", Op.PREFIX, rng.choice(["X", "XY", "XYZ"]))]
    for name in ("price", "volume"):
        low = rng.randrange(50)
        found += [Constraint(name, Op.GE, low), Constraint(name, Op.LE, low + rng.randrange(50))]
    return Conjunction(found)


def best_us(work: object, times: int) -> float:
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.thread_time()
        work()  # type: ignore[operator]
        best = min(best, time.thread_time() - start)
    return best / times * 1e6


def main() -> None:
    rng = random.Random(1)
    for label, rows in (
        ("paper's workload", [conjunction(rng, 5) for _ in range(300)]),
        ("ranges over three attributes", [boxes(rng) for _ in range(300)]),
    ):
        fresh = best_us(lambda rows=rows: [Conjunction(tuple(one)).normal for one in rows], len(rows))
        for one in rows:
            assert one.normal is not None
        for name, ask in (("covers", conjunction_covers), ("intersects", conjunction_intersects)):
            per = best_us(lambda ask=ask, rows=rows: [ask(f, g) for f in rows for g in rows], len(rows) ** 2)
            print(f"{label}: {name} {per:.2f} us")
        print(f"{label}: normal form {fresh:.1f} us a conjunction")
        print(f"{label}: merge of 300 conjunctions {best_us(lambda rows=rows: merge(Predicate(rows)), 1) / 1e3:.0f} ms")


if __name__ == "__main__":
    main()
