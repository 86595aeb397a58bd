"""Time of selectors in Python: `python -m bench.selector`. Best of some repetitions, CPU time of this thread."""

import time
from collections.abc import Callable

from tidings import Selector
from tidings.model.selector.program import SelectorProgram
from tidings.model.values import Value

REPETITIONS = 7
CALLS = 500

EXAMPLES: list[tuple[str, dict[str, Value]]] = [
    ("stock = 'XYZ' AND price > 20", {"stock": "XYZ", "price": 50}),
    (
        "JMSType = 'car' AND color = 'blue' AND weight > 2500",
        {"JMSType": "car", "color": "blue", "weight": 3000},
    ),
    (
        "(country IN ('UK', 'US') OR region LIKE 'eu-%') AND age BETWEEN 15 AND 19 AND NOT closed",
        {"country": "FR", "region": "eu-west", "age": 16, "closed": False},
    ),
    ("price > 2 * cost + 1", {"price": 9, "cost": 3}),
]


def best_us(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.thread_time()
        for _ in range(CALLS):
            call()
        best = min(best, time.thread_time() - start)
    return best / CALLS * 1e6


def measure(text: str, having: dict[str, Value]) -> dict[str, float]:
    selector = Selector(text)
    program = SelectorProgram(selector.program)
    return {
        "parse": best_us(lambda: Selector(text)),
        "parse and translate": best_us(lambda: Selector(text).conjunctions),
        "matches": best_us(lambda: selector.matches(having)),
        "run program": best_us(lambda: program.run(having)),
    }


if __name__ == "__main__":
    for text, having in EXAMPLES:
        print(text)
        print("   " + "   ".join(f"{name} {us:.1f} µs" for name, us in measure(text, having).items()))
