"""Pan's tables and its machine by hand; networks of it are in tests/unit/sim/test_pan.py."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.overlay.pan import EXPERIMENT_IDS, NETWORK_IDS, Contact, IdSpace, Pan, PanOptions
from tidings.overlay.pan.messages import (
    Beat,
    Depart,
    Enter,
    Others,
    PanArrived,
    PanHello,
    PanTell,
    Probe,
    ProbeEcho,
    Routed,
)
from tidings.overlay.pan.tables import LeafSet, RoutingTable

IDS = st.integers(0, EXPERIMENT_IDS.size - 1)


def node(id: int, leaves: int = 4) -> Pan:
    machine = Pan(Contact(id, id), Random(1), EXPERIMENT_IDS, PanOptions(leaves=leaves))
    machine.found(0.0)
    return machine


def acquaint(machine: Pan, *ids: int, latency_ms: float = 1.0) -> None:
    for id in ids:
        machine.hear(0.0, Contact(id, id), PanHello(latency_ms))


@given(IDS, IDS)
def test_shared_digits_and_ring_distance(a: int, b: int) -> None:
    one, other = (EXPERIMENT_IDS.text(id) for id in (a, b))
    assert EXPERIMENT_IDS.shared(a, b) == next((i for i in range(4) if one[i] != other[i]), 4)
    assert EXPERIMENT_IDS.distance(a, b) == EXPERIMENT_IDS.distance(b, a) == min((a - b) % 65536, (b - a) % 65536)
    assert [EXPERIMENT_IDS.digit(a, row) for row in range(4)] == [int(digit, 16) for digit in one]


def test_ids_of_a_network_have_128_bits() -> None:
    assert NETWORK_IDS.size == 1 << 128
    assert 0 <= NETWORK_IDS.hash("ticks") < NETWORK_IDS.size
    with pytest.raises(UsageError, match="E_PAN_IDS"):
        IdSpace(digits=100, bits=4)


@given(IDS, st.sets(IDS, max_size=40), IDS)
def test_the_leaf_set_has_the_nearest_on_each_side(own: int, others: set[int], key: int) -> None:
    leaves = LeafSet(EXPERIMENT_IDS, own, 4)
    for id in others:
        leaves.offer(Contact(id, id))
    ring = sorted(others - {own}, key=lambda id: (id - own) % 65536)
    assert {one.id for one in leaves} == {*ring[:2], *ring[-2:]}
    if leaves.covers(key):
        rank = lambda id: (EXPERIMENT_IDS.distance(id, key), id)  # noqa: E731
        found = leaves.closest(key)
        assert (own if found is None else found.id) == min({own, *others}, key=rank)


def test_of_two_for_a_slot_the_nearer_stays() -> None:
    table = RoutingTable(EXPERIMENT_IDS, 0x1000)
    assert table.offer(Contact(0x2000, 1), 10.0)
    assert not table.offer(Contact(0x2001, 2), 20.0)
    assert table.offer(Contact(0x2002, 3), 5.0)
    assert table.towards(0x2FFF) == Contact(0x2002, 3)
    assert table.remove(0x2002) == (0, 2)
    assert table.towards(0x2FFF) is None


def test_a_message_goes_to_a_node_that_shares_one_more_digit() -> None:
    machine = node(0x1000, leaves=2)
    acquaint(machine, 0x1001, 0x0FFF, 0x2345, 0x8000)
    assert machine.next_hop(0x2999) == Contact(0x2345, 0x2345)
    effects = machine.route(0.0, 0x2999, b"x")
    assert effects == [PanTell(Contact(0x2345, 0x2345), Routed(0x2999, machine.me, b"x", 0, 1))]


def test_a_newcomer_that_tries_again_does_not_wait_for_the_answers_of_its_first_try() -> None:
    machine, way_in = Pan(Contact(0x1000, 1), Random(1), EXPERIMENT_IDS), Contact(0x2000, 2)
    machine.join(0.0, way_in)  # and all of it is lost
    told = machine.join(100.0, way_in)
    token = next(one.message.token for one in told if isinstance(one, PanTell) and isinstance(one.message, Probe))
    machine.hear(101.0, way_in, Others(()))
    assert PanTell(way_in, Enter(machine.me)) in machine.hear(102.0, way_in, ProbeEcho(token))


def test_the_closest_node_gets_the_message_with_its_last_hop() -> None:
    machine = node(0x1000)
    origin, last = Contact(0x8000, 1), Contact(0x1001, 2)
    effects = machine.hear(0.0, last, Routed(0x1002, origin, b"x", hops=3))
    assert effects == [PanArrived(0x1002, b"x", origin, last, 3)]


def test_a_message_that_cannot_be_brought_takes_another_way() -> None:
    machine = node(0x1000, leaves=2)
    acquaint(machine, 0x1001, 0x0FFF, 0x2345, 0x8000, 0x2346)
    (told,) = machine.route(0.0, 0x2999, b"x")
    assert isinstance(told, PanTell)
    effects = machine.failed(0.0, told.to, told.message)
    ways = [effect for effect in effects if isinstance(effect, PanTell) and isinstance(effect.message, Routed)]
    assert len(ways) == 1
    assert ways[0].to != told.to


def test_who_is_gone_is_not_believed_back_on_others_word() -> None:
    machine = node(0x1000)
    acquaint(machine, 0x1001, 0x1002)
    lost = Contact(0x1001, 0x1001)
    machine.failed(100.0, lost)
    machine.hear(101.0, Contact(0x1002, 0x1002), Beat((lost,), False))
    assert lost not in machine.neighbours()
    machine.hear(102.0, lost, PanHello(1.0))
    assert lost in machine.neighbours()


def test_a_leaf_that_says_nothing_is_gone_and_its_neighbour_is_asked() -> None:
    machine = node(0x1000)
    acquaint(machine, 0x1001, 0x1002)
    machine.start_timer(0.0)
    machine.tick(3000.0)
    machine.hear(3000.0, Contact(0x1002, 0x1002), Beat((), False))
    machine.tick(4000.0)
    assert [one.id for one in machine.neighbours()] == [0x1002]


def test_who_leaves_introduces_its_leaves() -> None:
    machine = node(0x1000)
    acquaint(machine, 0x1001)
    heir = Contact(0x1002, 0x1002)
    effects = machine.hear(1.0, Contact(0x1001, 0x1001), Depart((heir,)))
    assert [one.id for one in machine.neighbours()] == [0x1002]
    assert PanTell(heir, PanHello(None)) in effects


def test_a_newcomer_enters_by_the_nearest_node_it_hears_of() -> None:
    machine = Pan(Contact(0x1000, 1), Random(1), EXPERIMENT_IDS)
    far, near = Contact(0x2000, 2), Contact(0x3000, 3)
    machine.join(0.0, far)
    effects = machine.hear(100.0, far, Others((near,)))
    probe = next(effect.message for effect in effects if isinstance(effect, PanTell) and effect.to == near)
    assert isinstance(probe, Probe)
    machine.hear(110.0, near, ProbeEcho(probe.token))
    effects = machine.hear(200.0, far, ProbeEcho(probe.token - 1))
    assert [effect.to for effect in effects if isinstance(effect, PanTell)] == [near]  # asked for nearer ones
    effects = machine.hear(220.0, near, Others(()))
    assert PanTell(near, Enter(machine.me)) in effects
