"""A broker with an empty store confirms persistent messages only for those who want them: it holds them until it has
learned who that is, also through a crash, or refuses them."""

from collections import Counter

import pytest
from hardening.simulate.scenario import LINK

from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.topology.graph import Graph
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.sim.brokers import Brokers
from tidings.sim.faults import Crash, Restart, inflict

ENCODINGS = {
    "vectors": InterestEncoding(),
    "exact": InterestEncoding(Encoding(grade=GradedGrade()), vectors=False, exact=True),
}
SIZE, MESSAGES = 4, 50


def line(encoding: InterestEncoding, unsynchronised: str, scheme: str = "bdrp") -> Brokers:
    """A line of brokers of which the first knows nobody yet; the last has durable subscribers."""
    graph, settings = Graph(), {}
    for router in range(1, SIZE + 1):
        if router < SIZE:
            graph.add(router, router + 1, 5.0)
        settings[router] = NetworkSettings(
            router,
            dials=((str(router + 1), router + 1),) if router < SIZE else (),
            link=LINK,
            encoding=encoding,
            scheme=scheme,
            awaits_peers=True,
            unsynchronised=unsynchronised,
        )
    brokers = Brokers(graph, settings, seed=3)
    brokers.subscribe(SIZE, "x < 25", durable=True)
    brokers.subscribe(SIZE, "x >= 0", durable=True)
    return brokers


def got(brokers: Brokers) -> list[Counter[bytes]]:
    brokers.calendar.run(until=brokers.calendar.now + 10_000)
    brokers.read_durables()
    brokers.calendar.run(until=brokers.calendar.now + 5_000)
    brokers.collect()
    return [one.got for one in brokers.subscribers]


def synchronised(brokers: Brokers) -> list[bool]:
    return [one.network.first_sync.done for one in brokers.running().values()]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("scheme", ["bdrp", "covering"])
@pytest.mark.parametrize("crash", [False, True])
def test_what_came_before_the_first_link_is_delivered(encoding: str, scheme: str, crash: bool) -> None:
    brokers = line(ENCODINGS[encoding], "hold", scheme)
    assert synchronised(brokers) == [False] * SIZE
    sent = [brokers.publish(1, {"x": number}, persistent=True) for number in range(MESSAGES)]
    brokers.calendar.run(until=4.0)  # stored; nobody is linked
    if crash:
        inflict(brokers.driver, Crash(1), brokers.hosts)
        brokers.calendar.run(until=500.0)
        inflict(brokers.driver, Restart(1), brokers.hosts)
    few, all_of_them = got(brokers)
    accepted = {one.id for one in sent if one is not None and one.accepted}
    assert len(accepted) == MESSAGES
    assert (set(few), set(all_of_them)) == ({one.id for one in sent[:25] if one is not None}, accepted)
    assert max([*few.values(), *all_of_them.values()]) == 1
    assert synchronised(brokers) == [True] * SIZE
    assert not any(len(one.network.store_and_forward) for one in brokers.running().values())


def test_it_is_refused_if_so_configured_and_taken_afterwards() -> None:
    brokers = line(ENCODINGS["exact"], "refuse")
    early = brokers.publish(1, {"x": 1}, persistent=True)
    brokers.calendar.run(until=5000.0)
    late = brokers.publish(1, {"x": 1}, persistent=True)
    found = got(brokers)
    assert early is not None
    assert not early.accepted
    assert late is not None
    assert [dict(one) for one in found] == [{late.id: 1}] * 2


def test_a_broker_that_was_synchronised_once_serves_alone_after_a_restart() -> None:
    brokers = line(ENCODINGS["exact"], "hold")
    brokers.calendar.run(until=5000.0)
    for router in range(2, SIZE + 1):
        inflict(brokers.driver, Crash(router), brokers.hosts)
    inflict(brokers.driver, Crash(1), brokers.hosts)
    inflict(brokers.driver, Restart(1), brokers.hosts)
    assert synchronised(brokers) == [True]


def test_a_broker_that_expects_no_other_is_not_held_up() -> None:
    settings = {1: NetworkSettings(1, link=LINK, unsynchronised="hold")}
    graph = Graph()
    graph.add_node(1)
    assert synchronised(Brokers(graph, settings, seed=1)) == [True]
