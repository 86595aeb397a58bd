"""One harness for single machines: messages as records, timers, crashes, links that fail, what only a scheme has."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest
from hardening.machines.unicast_adapter import UnicastAdapter

from tidings.overlay.effects import ControlMessage, Report, Router, SetTimer
from tidings.routing.effects import HandOver, Send
from tidings.routing.unicast.link_state import LinkStateUnicast
from tidings.sim.calendar import Calendar
from tidings.sim.harness import Adapter, Harness, each_to_each


@dataclass(frozen=True, slots=True)
class Count(ControlMessage):
    number: int


@dataclass(frozen=True, slots=True)
class Reached:
    number: int


ToyEffect: TypeAlias = Send | SetTimer | Report | Reached


@dataclass
class Toy:
    """Passes a number on to a neighbour until it is 0."""

    router: Router
    neighbour: Router
    ticks: list[float] = field(default_factory=list)

    def count(self, number: int) -> list[ToyEffect]:
        return [Send(self.neighbour, Count(number - 1))] if number else [Reached(self.router)]


class ToyNetwork(Adapter[Toy, Reached]):
    def __init__(self, *, timers: bool = True) -> None:
        self.calendar = Calendar()
        self.trace: list[tuple[float, str, object]] = []
        network = each_to_each(self.calendar, lambda a, b: 10.0)
        self.harness = Harness(network, self, lambda *what: self.trace.append(what), timers=timers)
        self.reached: list[tuple[float, Router]] = []
        self.lost: list[tuple[float, Router, Router, ControlMessage]] = []
        for router in (1, 2, 3):
            self.harness.run(router, Toy(router, router % 3 + 1))

    def start(self, now: float, machine: Toy) -> Iterable[ToyEffect]:
        return [SetTimer("toy", now + 5), Report("E_TOY", "is there")]

    def tick(self, now: float, machine: Toy, timer: str) -> Iterable[ToyEffect]:
        machine.ticks.append(now)
        return [SetTimer(timer, now + 50), SetTimer(timer, now + 100)]

    def receive(self, now: float, machine: Toy, source: Router, parcel: Count) -> Iterable[ToyEffect]:
        return machine.count(parcel.number)

    def failed(self, source: Router, to: Router, parcel: ControlMessage) -> None:
        self.lost.append((self.calendar.now, source, to, parcel))

    def handle(self, machine: Toy, effect: Reached) -> None:
        self.reached.append((self.calendar.now, machine.router))

    def begin(self, router: Router, number: int) -> None:
        self.harness.do(router, self.harness.machines[router].count(number))


def test_messages_take_their_time_and_other_effects_go_to_the_adapter() -> None:
    network = ToyNetwork(timers=False)
    network.begin(1, 4)
    network.calendar.run()
    assert network.reached == [(40.0, 2)]
    assert (40.0, "2", Reached(2)) in network.trace
    assert (0.0, "1", Report("E_TOY", "is there")) in network.trace


def test_a_timer_that_is_set_again_moves_and_dies_with_its_machine() -> None:
    network = ToyNetwork()
    first, second = network.harness.machines[1], network.harness.machines[2]
    network.calendar.run(until=110)
    network.harness.crash("1")
    network.calendar.run(until=250)
    assert (first.ticks, second.ticks) == ([5.0, 105.0], [5.0, 105.0, 205.0])


def test_what_reaches_a_machine_that_crashed_has_failed_and_a_new_one_takes_its_place() -> None:
    network = ToyNetwork(timers=False)
    network.begin(1, 2)
    network.harness.crash("2")
    network.calendar.run()
    assert network.lost == [(10.0, 1, 2, Count(1))]
    assert set(network.harness.machines) == {1, 3}
    network.harness.run(2, Toy(2, 1))
    network.begin(1, 2)
    network.calendar.run()
    assert network.reached == [(30.0, 1)]


def test_a_cut_wire_loses_what_is_on_it_and_carries_nothing_until_it_heals() -> None:
    network = ToyNetwork(timers=False)
    network.begin(1, 1)
    network.calendar.run(until=5)
    network.harness.network.cut(1, 2)
    network.begin(1, 1)  # to a link that is known to be down: lost, and of that the machine hears by the link
    network.calendar.run()
    assert network.lost == [(10.0, 1, 2, Count(0))]
    network.harness.network.heal(1, 2)
    network.begin(1, 1)
    network.calendar.run()
    assert [router for _, router in network.reached] == [2]


def test_an_effect_that_no_adapter_expects_is_not_swallowed() -> None:
    class Deaf(Adapter[Toy, Reached]):
        pass

    harness = Harness(each_to_each(Calendar(), lambda a, b: 1.0), Deaf())
    harness.run(1, Toy(1, 2))
    with pytest.raises(NotImplementedError):
        harness.do(1, [Reached(1)])
    with pytest.raises(AssertionError, match="HandOver"):
        UnicastAdapter({}).handle(LinkStateUnicast(1, 1), HandOver(b""))


def test_a_clogged_wire_delays_and_does_not_lose() -> None:
    network = ToyNetwork(timers=False)
    network.harness.network.clog(1, 2)
    network.begin(1, 1)
    network.calendar.run(until=100)
    assert network.reached == []
    network.harness.network.release(1, 2)
    network.calendar.run()
    assert network.reached == [(110.0, 2)]
