"""Hermes in networks of simulated brokers, over seeded schedules; `make hermes` runs more."""

from random import Random

import pytest
from hardening.machines.hermes import run

from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.event_type import AttributeType, EventType
from tidings.model.message import Message
from tidings.overlay.pan import PanOptions
from tidings.overlay.topology.space import plane
from tidings.routing.hermes import HermesOptions
from tidings.routing.hermes.messages import HermesHandOver, HermesSubscriptionId
from tidings.sim.hermes import NOTICE_MS, HermesNetwork
from tidings.sim.pan import PanNetwork

TICK = EventType("tick", None, {"price": AttributeType.INT})
OPTIONS = HermesOptions(refresh_ms=4_000, lifetime_ms=14_000, settle_ms=9_000)


@pytest.mark.parametrize("seed", range(1, 61))
def test_each_subscription_gets_each_matching_event_once(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("seed", [3, 12, 64, 69, 72, 101, 102, 103])
def test_crashes_lose_no_persistent_event_and_delivery_resumes(seed: int) -> None:
    run(seed, crashes=True)


def test_subtypes_keep_the_way_up_when_the_broker_that_added_their_parent_is_lost() -> None:
    run(306, crashes=True)


def test_an_event_reaches_whoever_takes_the_place_of_a_rendezvous_node_though_it_has_had_it_before() -> None:
    run(2172, crashes=True)


def network_of(brokers: int, seed: int = 1, options: HermesOptions = OPTIONS) -> HermesNetwork:
    rng = Random(seed)
    pan = PanNetwork(plane(brokers, rng).latency_ms, rng, options=PanOptions(leaves=4), timers=True)
    for router in range(brokers):
        pan.add(router, rng.randrange(router) if router else None)
        pan.calendar.run(until=pan.calendar.now + 500)
    return HermesNetwork(pan, options)


def wait(network: HermesNetwork, ms: float) -> None:
    network.calendar.run(until=network.calendar.now + ms)


def event(number: int) -> bytes:
    return encode_message(Message(Destination.parse("tick"), {"price": number}))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_delivery_resumes_within_the_refresh_interval_after_the_rendezvous_node_crashed(seed: int) -> None:
    network = network_of(20, seed)
    handed: list[HermesHandOver] = []
    network.on_hand = lambda router, hand: handed.append(hand)
    root = network.rendezvous("tick")
    hosts = [router for router in network.brokers if router != root]
    now = network.calendar.now
    network.do(hosts[0], network.brokers[hosts[0]].add_type(now, 1, TICK))
    wait(network, 1_000)
    network.do(hosts[0], network.brokers[hosts[0]].advertise(network.calendar.now, 2, "tick"))
    ids = [HermesSubscriptionId(router, 1) for router in hosts[1:]]
    for id in ids:
        network.do(id.router, network.brokers[id.router].subscribe(network.calendar.now, 3, id, "tick"))
    wait(network, 2_000)
    network.crash(root)
    wait(network, NOTICE_MS + OPTIONS.refresh_ms)
    network.do(hosts[0], network.brokers[hosts[0]].publish(network.calendar.now, "tick", event(1)))
    wait(network, 1_000)
    assert sorted(id for hand in handed for id in hand.subscriptions) == sorted(ids)


@pytest.mark.parametrize(("lost", "seed"), [("tick", 4), ("bond", 5), ("tick", 6), ("bond", 7)])
def test_delivery_resumes_without_a_refresh_whichever_rendezvous_node_is_lost(lost: str, seed: int) -> None:
    """Events are of the subtype, subscriptions to both: who knew of the subtype is gone."""
    slow = HermesOptions(refresh_ms=600_000, lifetime_ms=2_100_000, settle_ms=9_000)
    network = network_of(14, seed, slow)
    handed: list[HermesHandOver] = []
    network.on_hand = lambda router, hand: handed.append(hand)
    roots = {network.rendezvous("tick"), network.rendezvous("bond")}
    hosts = [router for router in network.brokers if router not in roots]
    first = network.brokers[hosts[0]]
    network.do(hosts[0], first.add_type(network.calendar.now, 1, TICK))
    wait(network, 1_000)
    network.do(hosts[0], first.add_type(network.calendar.now, 2, EventType("bond", "tick", {})))
    wait(network, 1_000)
    network.do(hosts[0], first.advertise(network.calendar.now, 3, "bond"))
    ids = [HermesSubscriptionId(router, number) for router in hosts[1:] for number in (1, 2)]
    for id in ids:
        name = "tick" if id.number == 1 else "bond"
        network.do(id.router, network.brokers[id.router].subscribe(network.calendar.now, 4, id, name))
    wait(network, 2_000)
    network.crash(network.rendezvous(lost))
    wait(network, NOTICE_MS + 2_000)
    network.do(hosts[0], first.publish(network.calendar.now, "bond", event(1)))
    wait(network, 1_000)
    assert sorted(id for hand in handed for id in hand.subscriptions) == sorted(ids)
