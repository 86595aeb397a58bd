"""Transactions that are tried again at another broker, in a simulated network."""

from typing import Any

import pytest
from hardening.simulate.scenario import LINK

from tidings.kernel.forwarder import PERHAPS_SENT
from tidings.node.encoded_message import ID
from tidings.node.network.settings import NetworkSettings
from tidings.node.requests import Begin, Commit
from tidings.node.settings import NodeSettings, Pieces
from tidings.overlay.topology.graph import Graph
from tidings.sim.broker import SimBroker, Sizes
from tidings.sim.brokers import Brokers
from tidings.sim.client import SimulatedDelivery

SESSION = 7


def _brokers() -> Brokers:
    """A line of three that remember three ids of messages from other brokers."""
    graph = Graph()
    graph.add(1, 2, 5.0)
    graph.add(2, 3, 5.0)
    settings = {
        router: NetworkSettings(router, dials=((str(router + 1), router + 1),) if router < 3 else (), link=LINK)
        for router in (1, 2, 3)
    }
    sizes = Sizes(settings=NodeSettings(pieces=Pieces(relay_id_slots=1, relay_slot_ids=3)))
    brokers = Brokers(graph, settings, seed=1, sizes=dict.fromkeys(settings, sizes))
    brokers.calendar.run(until=3000.0)
    return brokers


def _commit(brokers: Brokers, router: int, messages: list[bytes], flags: int = 0) -> None:
    def act(machine: SimBroker, now: float) -> list[Any]:
        client = machine.connect(now)
        out = machine.request(now, client, Begin(1, SESSION))
        for message in messages:
            out += machine.publish(now, client, message, session=SESSION, flags=flags)
        return out + machine.request(now, client, Commit(2, SESSION))

    brokers.driver.call(str(router), act)
    brokers.calendar.run(until=brokers.calendar.now + 1000.0)


def _read(brokers: Brokers) -> list[SimulatedDelivery]:
    brokers.read_durables()
    brokers.calendar.run(until=brokers.calendar.now + 1000.0)
    (reader,) = brokers.subscribers
    assert reader.client is not None
    return reader.client.deliveries


@pytest.mark.parametrize("router", [2, 3])
def test_a_transaction_that_is_tried_again_at_another_broker_is_known_or_marked(router: int) -> None:
    """Its outcome at the first broker was not heard. `router`: where it is tried again, the subscriber's or another."""
    brokers = _brokers()
    brokers.subscribe(2, "", durable=True)
    brokers.calendar.run(until=brokers.calendar.now + 1000.0)
    mine, others = ([brokers.message(1, {"x": x}, persistent=True) for x in part] for part in ((1, 2), range(3, 9)))
    _commit(brokers, 1, mine)
    _commit(brokers, 1, others)
    _commit(brokers, router, mine, PERHAPS_SENT)
    got = [(one.message[ID], one.attempt > 1) for one in _read(brokers)]
    assert got == [(one[ID], False) for one in [*mine, *others]] + [(one[ID], True) for one in mine]


def test_while_the_ids_are_known_it_comes_once() -> None:
    brokers = _brokers()
    brokers.subscribe(2, "", durable=True)
    brokers.calendar.run(until=brokers.calendar.now + 1000.0)
    mine = [brokers.message(1, {"x": x}, persistent=True) for x in (1, 2)]
    _commit(brokers, 1, mine)
    _commit(brokers, 3, mine, PERHAPS_SENT)
    assert [(one.message[ID], one.attempt) for one in _read(brokers)] == [(one[ID], 1) for one in mine]
