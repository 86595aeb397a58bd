"""Costs of the covering machine, by the order in which subscriptions arrive: `python -m bench.covering_orders`.

    python -m bench.covering_orders [--subscriptions 100000] [--save]

One broker with two neighbours, one of which publishes: each subscription enters the table and its index, is looked up
among those that cover it and that it covers, and is told to that neighbour. CPU time of the last thousand.
"""

import argparse
import time
from dataclasses import asdict, dataclass
from random import Random

from bench.harness import save, table
from bench.interests import ORDERED, selector
from tidings.model.destination import DestinationPattern
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.routing.covering.machine import CoveringMachine
from tidings.routing.covering.messages import (
    AdvertisementId,
    CoveringAdvertise,
    CoveringSubscribe,
    FilterId,
    Join,
)
from tidings.routing.covering.policies import make_policy

LAST = 1000
FORMS = (*ORDERED, "range")


@dataclass(frozen=True, slots=True)
class OrderCost:
    order: str
    subscriptions: int
    first_us: float  # CPU time of one of the first thousand
    last_us: float


def machine() -> CoveringMachine:
    """A broker whose links to 2 and 3 are open, and at 2 somebody publishes whatever it likes."""
    made = CoveringMachine(1, make_policy("selective"))
    made.join(0.0, 1, (2, 3))
    for neighbour in (2, 3):
        made.step(0.0, neighbour, Join(1, 5, made.session))
    made.step(0.0, 2, CoveringAdvertise(AdvertisementId(2, 1), Predicate.always()))
    return made


def measure(order: str, subscriptions: int) -> OrderCost:
    made, random, topic = machine(), Random(1), DestinationPattern.parse("orders").constraint
    spent: list[float] = []
    for start in range(0, subscriptions, LAST):
        texts = [selector(order, start + number, random) for number in range(LAST)]
        filters = [Predicate(Selector(text).conjunctions).within(topic) for text in texts]
        begin = time.process_time()
        for number, filter in enumerate(filters, start + 1):
            made.step(0.0, None, CoveringSubscribe(FilterId(1, number), filter))
        spent.append((time.process_time() - begin) / LAST * 1e6)
    return OrderCost(order, subscriptions, round(spent[0], 1), round(spent[-1], 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--save", action="store_true", help="write bench/results/covering_orders.json")
    arguments = parser.parse_args()
    found = [measure(order, arguments.subscriptions) for order in FORMS]
    columns = ("order", "subscriptions", "µs, first thousand", "µs, last thousand")
    table("CPU time of a subscription", columns, [tuple(asdict(one).values()) for one in found])
    if arguments.save:
        print("written to", save("covering_orders", {"orders": [asdict(one) for one in found]}))


if __name__ == "__main__":
    main()
