"""The points of the broker benchmark: what is measured, under which name, in which order."""

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidings.lab.connections import ConnectionLoad
from tidings.lab.load_protocols import LoadPlan

MATCHING = (1, 2, 5, 10, 20, 40)
OTHERS = (0, 5, 10, 20, 40, 80, 160, 1000, 5000)
QUICK_MATCHING, QUICK_OTHERS = (1, 10, 40), (0, 1000, 5000)
BODIES = (0, 1000)
PACES = (5000, 30_000)
UNCONFIRMED = 1000
PUBLISHERS = 50
SENDS_PER_S_MAX = 10_000  # of the load generator, at half load

Rates = Mapping[str, Mapping[str, Any]]  # the results of one server so far, by name


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    load: Callable[
        [LoadPlan, Rates, Rates], ConnectionLoad
    ]  # the plan to complete, its server's results, the reference server's
    plan: LoadPlan


def grid_name(body: int, matching: int, others: int) -> str:
    return f"grid b={body} r={matching} n={others}"


def points(full: bool) -> Iterator[Point]:
    yield from _grid(full)
    yield from _unbatched()
    yield from _half_load()
    yield from _persistent()


def _grid(full: bool) -> Iterator[Point]:
    for body in BODIES:
        for matching in MATCHING if full else QUICK_MATCHING:
            others = OTHERS if full else QUICK_OTHERS if body == 0 else (0,)
            for number in others:
                yield _grid_point(body, matching, number)


def _grid_point(body: int, matching: int, others: int) -> Point:
    def load(plan: LoadPlan, _: Rates, __: Rates) -> ConnectionLoad:
        return ConnectionLoad(plan, matching=matching, others=others)

    return Point(grid_name(body, matching, others), load, LoadPlan("", b"x" * body))


def _unbatched() -> Iterator[Point]:
    yield from (_paced_point(rate) for rate in PACES)
    asked = LoadPlan("", receipts=True)
    yield Point("receipts one at a time", lambda plan, _, __: ConnectionLoad(plan, window=1, block=1), asked)
    yield Point("receipts of 50 publishers", lambda plan, _, __: ConnectionLoad(plan, publishers=PUBLISHERS), asked)
    yield Point("receipts one a send", lambda plan, _, __: ConnectionLoad(plan, block=1), asked)
    # The same on a socket without TCP_NODELAY: with it, TCP keeps the generator's core busy before the server's is.
    yield Point("receipts one a send, gathered", lambda plan, _, __: ConnectionLoad(plan, block=1, gathers=True), asked)
    yield Point("receipts in blocks", lambda plan, _, __: ConnectionLoad(plan), asked)


def _paced_point(rate: int) -> Point:
    return Point(f"paced {rate}", lambda plan, _, __: ConnectionLoad(plan, rate=rate, block=1), LoadPlan(""))


def _half_load() -> Iterator[Point]:
    """At half of what the server takes when saturated, and at half of what the reference server takes."""
    saturated = grid_name(0, 1, 0)
    yield Point("half of its own", lambda plan, own, _: _half(plan, own[saturated]), LoadPlan(""))
    yield Point("half of the reference", lambda plan, _, reference: _half(plan, reference[saturated]), LoadPlan(""))


def _half(plan: LoadPlan, saturated: Mapping[str, Any]) -> ConnectionLoad:
    rate = saturated["received_per_s"] / 2
    return ConnectionLoad(plan, rate=rate, block=math.ceil(rate / SENDS_PER_S_MAX))


def _persistent() -> Iterator[Point]:
    """The warm-up is longer here: files grow to the size they keep, and the way to them gets warm too."""
    yield _stored_point("persistent 1000 unconfirmed", UNCONFIRMED, UNCONFIRMED // 20)
    yield _stored_point("persistent one at a time", 1, 1)


def _stored_point(name: str, window: int, block: int) -> Point:
    def load(plan: LoadPlan, _: Rates, __: Rates) -> ConnectionLoad:
        return ConnectionLoad(plan, durable=True, window=window, block=block, warm_seconds=3.0, seconds=3.0)

    return Point(name, load, LoadPlan("", b"x" * 100, persistent=True, receipts=True))


def fsync_us(rounds: int = 200) -> float:
    """The median cost of making one more page of a growing file durable, where the servers keep their data."""
    taken = []
    with tempfile.NamedTemporaryFile(prefix="bench-fsync-", buffering=0) as file:
        for _ in range(rounds):
            file.write(os.urandom(4096))
            start = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - start)
    return sorted(taken)[rounds // 2] * 1e6
