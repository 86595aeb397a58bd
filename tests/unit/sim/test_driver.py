from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.overlay import effects as fx
from tidings.overlay.link.greeting import LinkPing, Pong
from tidings.overlay.topology.generate import line
from tidings.sim.calendar import Calendar
from tidings.sim.driver import Driver, SimulatedProcess
from tidings.sim.network import PhysicalNetwork
from tidings.sim.paths import direct


class Echo:
    """Dials whom it is told, answers pings, notes what it hears."""

    def __init__(self, incarnation: int, dials: str = "") -> None:
        self.incarnation, self.dials = incarnation, dials
        self.heard: list[tuple[float, Any]] = []

    def start(self, now: float) -> list[Any]:
        out: list[Any] = [fx.SetTimer("tea", now + 100), fx.SetTimer("tea", now + 50)]
        return [*out, fx.Dial("to:" + self.dials + "#1", self.dials)] if self.dials else out

    def step(self, now: float, told: fx.Input) -> list[Any]:
        self.heard.append((now, told))
        match told:
            case fx.Connected(connection=connection):
                return [fx.Authenticate(connection, 2), fx.Transmit(connection, LinkPing(7)), fx.Report("HELLO", "up")]
            case fx.Received(connection=connection, message=LinkPing(sent_us=sent_us)):
                return [fx.Transmit(connection, Pong(sent_us)), fx.Transmit("never heard of", Pong(1))]
            case fx.Received(connection=connection, message=Pong()):
                return [
                    fx.CloseLink(connection, "thanks"),
                    fx.CloseLink(connection, "twice"),
                    fx.Transmit(connection, LinkPing(1)),
                ]
        return []


def two() -> tuple[Driver, list[tuple[str, Any]]]:
    seen: list[tuple[str, Any]] = []

    def observe(process: SimulatedProcess, effect: Any) -> None:
        seen.append((process.address, effect))

    driver = Driver(PhysicalNetwork.of_graph(Calendar(), line(2, 10), direct), observe)
    driver.add("1", 1, lambda incarnation: Echo(incarnation, "2"))
    driver.add("2", 2, Echo)
    return driver, seen


def heard(driver: Driver, address: str) -> list[tuple[float, Any]]:
    machine = driver.processes[address].machine
    assert isinstance(machine, Echo)
    return machine.heard


def test_effects_are_carried_out() -> None:
    driver, seen = two()
    driver.start("2")
    driver.start("1")
    driver.calendar.run()
    assert heard(driver, "1") == [
        (20, fx.Connected("to:2#1")),
        (20, fx.Authenticated("to:2#1")),
        (40, fx.Received("to:2#1", Pong(7))),
        (50, fx.Timer("tea")),  # moved, so once
    ]
    assert heard(driver, "2") == [
        (10, fx.LinkAccepted("from:1/1")),
        (30, fx.Received("from:1/1", LinkPing(7))),
        (50, fx.Timer("tea")),
        (50, fx.Lost("from:1/1", "thanks")),
    ]
    assert seen == [("1", fx.Report("HELLO", "up"))]
    assert (driver.messages_sent, driver.bytes_sent) == (2, 4)


def test_a_new_life_hears_nothing_of_the_old_one() -> None:
    driver, _ = two()
    driver.start("2")
    driver.start("1")
    driver.calendar.run(until=25)  # connected, a ping on its way
    driver.crash("1")
    driver.start("1")
    driver.calendar.run(until=44)
    machine = driver.processes["1"].machine
    assert isinstance(machine, Echo)
    assert machine.incarnation == 2
    assert machine.heard == []
    driver.calendar.run()
    assert fx.Lost("from:1/1", "reset") in [told for _, told in heard(driver, "2")]
    assert [told for _, told in machine.heard].count(fx.Timer("tea")) == 1


def test_nobody_listens() -> None:
    driver, _ = two()
    driver.start("1")
    driver.calendar.run()
    assert (20, fx.Lost("to:2#1", "refused", refused=True)) in heard(driver, "1")
    assert [process.address for process in driver.running()] == ["1"]


def test_what_a_driver_refuses() -> None:
    driver, _ = two()
    with pytest.raises(UsageError, match="E_SIM_ADDRESS"):
        driver.add("1", 1, Echo)
    with pytest.raises(UsageError, match="E_SIM_STATE"):
        driver.crash("1")
    driver.start("1")
    with pytest.raises(UsageError, match="E_SIM_STATE"):
        driver.start("1")


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_timer_never_rings_early_whatever_the_clock(skew_ms: float, wait_ms: float) -> None:
    driver = Driver(PhysicalNetwork.of_graph(Calendar(), line(1), direct))
    driver.add("1", 1, Echo, skew_ms)
    driver.start("1")
    process = driver.processes["1"]
    driver.calendar.run()
    due = driver.calendar.now + skew_ms + wait_ms
    driver._carry_out(process, [fx.SetTimer("x", due)])
    driver.calendar.run()
    assert heard(driver, "1")[-1][1] == fx.Timer("x")
    assert due <= heard(driver, "1")[-1][0] <= due + 1e-3
