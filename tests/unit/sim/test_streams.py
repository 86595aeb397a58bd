from hypothesis import given
from hypothesis import strategies as st

from tidings.overlay.topology.generate import line
from tidings.sim.calendar import Calendar
from tidings.sim.network import PhysicalNetwork
from tidings.sim.paths import direct
from tidings.sim.streams import End, Streams


class Two:
    """Hosts 1 and 2, 10 ms apart, and a stream between them."""

    def __init__(self, listening: bool = True) -> None:
        self.calendar = Calendar()
        self.network = PhysicalNetwork.of_graph(self.calendar, line(2, 10), direct)
        self.log: list[tuple[str, object]] = []
        self.streams = Streams(
            self.network,
            lambda end: self.log.append((end.name, "connected")),
            lambda end, data: self.log.append((end.name, data)),
            lambda end, reason: self.log.append((end.name, reason)),
        )
        self.a, self.b = End(1, "a", None), End(2, "b", None)
        self.streams.dial(self.a, 2, lambda: self.b if listening else None)

    def received(self, name: str) -> list[object]:
        return [what for who, what in self.log if who == name and isinstance(what, bytes)]


def test_dialling_takes_a_round_trip() -> None:
    two = Two()
    two.calendar.run(until=19)
    assert two.log == [("b", "connected")]
    two.calendar.run()
    assert two.log == [("b", "connected"), ("a", "connected")]
    nobody = Two(listening=False)
    nobody.calendar.run()
    assert nobody.log == [("a", "refused")]


@given(st.lists(st.tuples(st.floats(30, 3000), st.sampled_from(["send", "cut", "heal"])), max_size=30))
def test_cuts_delay_but_order_stays_and_nothing_is_lost(plan: list[tuple[float, str]]) -> None:
    two = Two()
    sent: list[bytes] = []

    def send() -> None:
        sent.append(b"%d" % len(sent))
        two.streams.send(two.a, sent[-1])

    actions = {"send": send, "cut": lambda: two.network.cut(1, 2), "heal": lambda: two.network.heal(1, 2)}
    for at, what in plan:
        two.calendar.at(at, actions[what])
    two.calendar.at(3000, actions["heal"])
    two.calendar.run()
    assert two.received("b") == sent


def test_closing_comes_after_what_was_sent() -> None:
    two = Two()
    two.calendar.run()
    two.streams.send(two.a, b"last words")
    two.streams.close(two.a, "done")
    two.streams.close(two.a, "twice")
    two.streams.send(two.b, b"too late")
    two.calendar.run()
    assert two.log[2:] == [("b", b"last words"), ("b", "done")]


def test_a_dead_process_is_noticed_when_its_host_can_say_so() -> None:
    two = Two()
    two.calendar.run()
    two.network.cut(1, 2)
    two.streams.abandon(two.b)
    two.calendar.run()
    assert two.log[2:] == []
    two.network.heal(1, 2)
    two.streams.send(two.a, b"hello?")
    two.calendar.run()
    assert two.log[2:] == [("a", "reset")]


def test_a_cut_while_dialling_only_delays() -> None:
    two = Two()
    two.network.cut(1, 2)
    two.calendar.at(500, two.network.heal, 1, 2)
    two.calendar.run()
    assert ("a", "connected") in two.log
    gone = Two()
    gone.network.cut(1, 2)
    gone.streams.close(gone.a, "gave up")
    gone.network.heal(1, 2)
    gone.calendar.run()
    assert gone.log == []
