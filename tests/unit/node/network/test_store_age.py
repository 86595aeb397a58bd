"""A broker whose store is older than what its neighbours know of it says so."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hardening.simulate.scenario import LINK

from tidings.delivery.store import Note
from tidings.node.encoded_message import ID
from tidings.node.mailboxes.journal import Journal
from tidings.node.network.held_copies import EmptyStoreOptions, EmptyStorePolicy
from tidings.node.network.settings import NetworkSettings
from tidings.node.network.store_age import MARK_NOTE, RAISE_MS, StoreAge
from tidings.overlay import effects as fx
from tidings.overlay.topology.graph import Graph
from tidings.routing.control.messages import StoreMarks
from tidings.sim.broker import SimBroker
from tidings.sim.brokers import Brokers
from tidings.sim.faults import BackUpDisk, Crash, EmptyDisk, Fault, Restart, RestoreDisk, inflict


def test_a_mark_is_said_once_it_is_on_disk() -> None:
    age, journal = StoreAge(), Journal()
    age.recover({})
    journal.change(age.raised())
    assert not age.tick(0.0, journal, 0)
    (ticket,) = [flush.write.ticket for flush in (journal.flush(),) if flush.write is not None]
    assert not age.tick(0.0, journal, 0)
    assert age.marks(2) == StoreMarks(0, 0)
    journal.finished(ticket, None)
    assert age.tick(0.0, journal, 0)
    assert not age.tick(0.0, journal, 0)
    assert age.marks(2) == StoreMarks(1, 0)


def test_it_rises_while_messages_are_stored() -> None:
    age, journal, said = StoreAge(), Journal(), []
    age.recover({MARK_NOTE: bytes([5, 0, 0, 0, 0, 0, 0, 0])})
    for second in range(60):
        age.tick(second * 1000.0, journal, min(second, 30))
        flush = journal.flush(retry=True)
        if flush.write is not None:
            said += [int.from_bytes(one.value, "little") for one in flush.write.records if isinstance(one, Note)]
            journal.finished(flush.write.ticket, None)
    assert said == [6, 7, 8]
    assert RAISE_MS == 10_000.0


def test_what_this_run_said_is_no_sign_of_a_lost_run() -> None:
    age, journal = StoreAge(), Journal()
    age.recover({})
    age.raised()
    age.tick(0.0, journal, 0)
    assert not age.heard(2, StoreMarks(0, 1))
    assert age.heard(2, StoreMarks(0, 2))
    assert age.behind
    assert not age.heard(3, StoreMarks(0, 3)), "it is said once"


def _pair(reports: list[str], policy: EmptyStorePolicy = EmptyStorePolicy.WAIT) -> Brokers:
    graph = Graph()
    graph.add(1, 2, 5.0)
    settings = {
        1: NetworkSettings(1, dials=(("2", 2),), link=LINK, empty_store=EmptyStoreOptions(policy)),
        2: NetworkSettings(2, link=LINK),
    }

    def trace(now: float, who: str, what: Any) -> None:
        if who == "1" and isinstance(what, fx.Report) and what.code.startswith("E_STORE"):
            reports.append(what.code)

    return Brokers(graph, settings, seed=1, trace=trace)


def _course(brokers: Brokers, *steps: Fault | Callable[[], Any] | float) -> None:
    for step in steps:
        if isinstance(step, float):
            brokers.calendar.run(until=brokers.calendar.now + step)
        elif callable(step):
            step()
        else:
            inflict(brokers.driver, step, brokers.hosts)


def _publish(brokers: Brokers) -> None:
    brokers.publish(1, {"x": 1}, persistent=True)


def _behind(brokers: Brokers) -> bool:
    broker = brokers.broker(1)
    assert isinstance(broker, SimBroker)
    return broker.network.store_age.behind


@pytest.mark.parametrize("restored", [False, True])
def test_a_restored_store_is_noticed_and_what_waits_in_it_is_marked(restored: bool) -> None:
    reports: list[str] = []
    brokers = _pair(reports)
    subscriber = brokers.subscribe(1, "", durable=True)
    assert subscriber is not None
    publish = partial(_publish, brokers)
    _course(brokers, 3000.0, publish, 1000.0, BackUpDisk(1), publish, 12_000.0, publish, 12_000.0, Crash(1))
    change = [RestoreDisk(1)] if restored else []
    _course(brokers, *change, Restart(1), 3000.0)
    assert (reports, _behind(brokers)) == ((["E_STORE_RESTORED"], True) if restored else ([], False))
    brokers.read_durables()
    brokers.calendar.run(until=brokers.calendar.now + 1000.0)
    assert subscriber.client is not None
    got = [(one.message[ID], one.attempt > 1) for one in subscriber.client.deliveries]
    ids = [one.id for one in brokers.publications]
    assert got == ([(ids[0], True)] if restored else [(one, False) for one in ids])
    _course(brokers, 3000.0, Crash(1), Restart(1), 3000.0)
    assert not _behind(brokers), "it is said once"


def test_an_empty_store_is_noticed_though_somebody_has_subscribed() -> None:
    reports: list[str] = []
    brokers = _pair(reports, EmptyStorePolicy.HOLD)
    brokers.subscribe(1, "", durable=True)
    _course(brokers, 3000.0, Crash(1), lambda: brokers.publish(2, {"x": 1}, persistent=True), 500.0)
    _course(brokers, EmptyDisk(1), Restart(1), lambda: brokers.subscribe(1, "x = 7"), 3000.0)
    broker = brokers.broker(1)
    assert broker is not None
    assert (reports, len(broker.network.held_copies)) == (["E_STORE_REPLACED"], 1)
