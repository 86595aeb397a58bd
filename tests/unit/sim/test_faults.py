from random import Random

from hardening.machines.unicast import Scenario, simulate
from hypothesis import given
from hypothesis import strategies as st

from tidings.overlay.topology.generate import ring
from tidings.sim.faults import (
    Crash,
    CutLink,
    CutOneWay,
    HealLink,
    LoseHost,
    Partition,
    Restart,
    Slow,
    inflict,
    random_faults,
)


def cuts(driver_link: tuple[int, int], *faults: object) -> tuple[bool, bool]:
    graph = ring(4)
    driver = simulate("link-state", 0, Scenario(graph, {n: [] for n in range(1, 5)}, []))
    for fault in faults:
        inflict(driver, fault)  # type: ignore[arg-type]
    a, b = driver_link
    return bool(driver.network.wire(a, b).cuts), bool(driver.network.wire(b, a).cuts)


def test_each_fault_does_what_it_says() -> None:
    assert cuts((1, 2), CutLink(1, 2)) == (True, True)
    assert cuts((1, 2), CutOneWay(1, 2)) == (True, False)
    assert cuts((1, 2), CutOneWay(1, 2), HealLink(2, 1)) == (False, False)
    assert cuts((1, 2), Partition((1, 3))) == (True, True)
    assert cuts((1, 2), Partition((1, 2))) == (False, False)
    assert cuts((1, 2), Partition((1, 3)), Partition(())) == (False, False)
    assert cuts((1, 2), LoseHost(2)) == (True, True)
    assert cuts((1, 2), LoseHost(2), LoseHost(2), Restart(2)) == (False, False)
    assert cuts((1, 2), Crash(2), Crash(2), Slow(1, 2, 5.0)) == (False, False)


@given(st.integers(0, 2**32), st.integers(0, 10))
def test_random_faults_are_in_order_within_their_time_and_repeatable(seed: int, count: int) -> None:
    plan = random_faults(ring(5), Random(seed), count, until_ms=1000)
    times = [at for at, _ in plan]
    assert times == sorted(times)
    assert all(0 <= at <= 1000 for at in times)
    assert count <= len(plan) <= 2 * count
    assert plan == random_faults(ring(5), Random(seed), count, until_ms=1000)
