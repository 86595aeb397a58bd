"""Speed of the simulator: events of the calendar, and unicast protocols settling on the 42-broker network.

python -m bench.simulator
"""

import time
from collections.abc import Callable

from hardening.machines.unicast import PROTOCOLS, Scenario, simulate

from tidings.overlay.topology.generate import large_network
from tidings.sim.calendar import Calendar

REPEATS = 3
EVENTS = 200_000


def calendar_events_s(pending: int) -> float:
    """Events a second of CPU time while this number is pending; each enters the next."""
    calendar = Calendar()

    def again(wait_ms: float) -> None:
        calendar.after(wait_ms, again, wait_ms)

    for number in range(pending):
        calendar.at(number * 0.37 % 7, again, 1 + number * 0.7919 % 3)
    start = time.thread_time()
    count = calendar.run(events_max=EVENTS)
    return count / (time.thread_time() - start)


def messages_s(protocol: str) -> float:
    """Control messages a second of CPU time, encoded, sent, decoded and handled, in ten virtual seconds."""
    graph = large_network()
    for edge in list(graph.edges()):
        graph.remove(edge.a, edge.b)
        graph.add(edge.a, edge.b, max(1, round(edge.latency_ms)))
    dials = {int(node): [str(peer) for peer in graph.neighbours(node) if int(peer) > int(node)] for node in graph}
    driver = simulate(protocol, 1, Scenario(graph, dials, []))
    start = time.thread_time()
    driver.calendar.run(until=10_000)
    return driver.messages_sent / (time.thread_time() - start)


def best(measure: Callable[[], float]) -> float:
    return max(measure() for _ in range(REPEATS))


def main() -> None:
    for pending in (10, 1_000, 100_000):
        rate = best(lambda pending=pending: calendar_events_s(pending))  # type: ignore[misc]
        print(f"calendar, {pending:>7} pending: {rate:>12,.0f} events/s")
    for protocol in PROTOCOLS:
        rate = best(lambda protocol=protocol: messages_s(protocol))  # type: ignore[misc]
        print(f"{protocol:>15}, 42 brokers: {rate:>12,.0f} messages/s")


if __name__ == "__main__":
    main()
