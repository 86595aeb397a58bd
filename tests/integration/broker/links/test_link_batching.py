"""How long links wait, against two kinds of publishers in time that is made up."""

from random import Random

from tidings.broker.links.link_batching import TURN_WRITES, LinkBatching

LONG_MS, WRITES = 10.0, 40 * TURN_WRITES


def open_loop(link_batching: LinkBatching, rate_ms: float, writes: int = WRITES) -> list[float]:
    """Messages come by chance, whatever happens to them; returns the waits in use."""
    rng, now, waits = Random(1), 0.0, []
    for _ in range(writes):
        wait = link_batching.wait_ms
        arrival, pieces = now + rng.expovariate(rate_ms), 1
        until = max(arrival, now + wait)
        while (arrival := arrival + rng.expovariate(rate_ms)) < until:
            pieces += 1
        now = until
        link_batching.wrote(now, pieces, 200 * pieces)
        waits.append(wait)
    return waits


def closed_loop(link_batching: LinkBatching, clients: int, answer_ms: float, writes: int = WRITES) -> list[float]:
    """Each client sends again a moment after its message went."""
    now, waits = 0.0, []
    for _ in range(writes):
        waits.append(link_batching.wait_ms)
        now += max(answer_ms, link_batching.wait_ms)
        link_batching.wrote(now, clients, 200 * clients)
    return waits


def share_long(waits: list[float]) -> float:
    return sum(wait == LONG_MS for wait in waits) / len(waits)


def test_a_busy_link_waits_long() -> None:
    assert share_long(open_loop(LinkBatching(LONG_MS), rate_ms=1.0)) > 0.9


def test_a_link_with_little_to_do_does_not() -> None:
    assert share_long(open_loop(LinkBatching(LONG_MS), rate_ms=0.01)) == 0.0


def test_who_waits_for_answers_is_not_held_up() -> None:
    assert share_long(closed_loop(LinkBatching(LONG_MS), clients=1, answer_ms=0.5)) == 0.0
    assert share_long(closed_loop(LinkBatching(LONG_MS), clients=8, answer_ms=0.5)) < 0.2


def test_whose_answers_take_longer_anyway_is_gathered() -> None:
    assert share_long(closed_loop(LinkBatching(LONG_MS), clients=8, answer_ms=50.0)) > 0.9


def test_it_recovers_when_publishers_change() -> None:
    link_batching = LinkBatching(LONG_MS)
    closed_loop(link_batching, clients=8, answer_ms=0.5)
    assert share_long(open_loop(link_batching, rate_ms=1.0, writes=400 * TURN_WRITES)) > 0.3


def test_switched_off_it_never_waits_long() -> None:
    assert share_long(open_loop(LinkBatching(LONG_MS, enabled=False), rate_ms=1.0)) == 0.0
