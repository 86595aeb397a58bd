from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.overlay.topology.generate import line
from tidings.overlay.topology.space import plane
from tidings.sim.calendar import Calendar
from tidings.sim.network import PhysicalNetwork, PhysicalWire
from tidings.sim.paths import flat


class Post:
    """Packets sent through a line of hosts 1, 2, 3 and what became of them."""

    def __init__(self, latency_ms: float = 10, bandwidth_bytes_s: float | None = None) -> None:
        self.calendar = Calendar()
        self.network = PhysicalNetwork.of_graph(self.calendar, line(3, latency_ms, bandwidth_bytes_s), flat)
        self.arrived: list[tuple[str, float]] = []
        self.lost: list[str] = []

    def send(self, name: str, source: int = 1, target: int = 3, size: int = 100) -> None:
        self.network.send(
            source,
            target,
            size,
            lambda: self.arrived.append((name, self.calendar.now)),
            lambda: self.lost.append(name),
        )


def test_latency_adds_up_over_hops() -> None:
    post = Post()
    post.send("a")
    post.send("b", target=2)
    post.send("self", target=1)
    post.calendar.run()
    assert post.arrived == [("self", 0.01), ("b", 10.0), ("a", 20.0)]
    assert post.network.latency_ms(1, 3) == 20
    assert post.network.latency_ms(2, 2) == 0.01


def test_packets_queue_for_bandwidth_hop_by_hop() -> None:
    post = Post(latency_ms=10, bandwidth_bytes_s=10_000)  # 100 bytes take 10 ms
    for name in "abc":
        post.send(name)
    assert post.network.wire(1, 2).free_at == 30
    post.send("back", source=3, target=1)  # the other direction is free
    post.calendar.run()
    assert dict(post.arrived) == {"a": 40, "back": 40, "b": 50, "c": 60}
    assert post.network.wire(2, 3).bytes_sent == 300


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(1, 500)), max_size=12), st.floats(0, 100))
def test_a_wire_keeps_order_and_loses_nothing_unless_cut(packets: list[tuple[float, int]], delay_ms: float) -> None:
    post = Post(latency_ms=5, bandwidth_bytes_s=50_000)
    packets.sort(key=lambda packet: packet[0])
    for number, (at, size) in enumerate(packets):
        post.calendar.at(at, post.send, str(number), 1, 2, size)
    post.calendar.at(25, post.network.delay, 1, 2, delay_ms)
    post.calendar.at(30, post.network.delay, 1, 2, 0.0)
    post.calendar.run()
    assert [name for name, _ in post.arrived] == [str(number) for number in range(len(packets))]
    assert post.lost == []


def test_a_cut_loses_what_is_on_the_wire_and_one_way_is_one_way() -> None:
    post = Post()
    post.send("early")
    post.calendar.run(until=15)  # on the second wire now
    post.network.cut(2, 3)
    post.network.heal(2, 3)
    post.network.cut(1, 2, one_way=True)
    post.send("late")
    post.send("back", source=2, target=1)
    post.calendar.run()
    assert post.lost == ["late", "early"]
    assert [name for name, _ in post.arrived] == ["back"]
    assert post.network.packets_lost == 2


def test_hosts_and_partitions_are_separate_reasons() -> None:
    post = Post()
    post.network.partition({1})
    post.network.lose_host(2)
    post.send("a")
    post.network.partition()
    post.send("b", target=2)
    post.send("from the dead", source=2)
    post.network.restore_host(2)
    post.send("c")
    post.calendar.run()
    assert post.lost == ["a", "b", "from the dead"]
    assert [name for name, _ in post.arrived] == ["c"]


def test_points_have_a_wire_for_each_pair_and_faults_older_than_it_count() -> None:
    points = plane(4, Random(1))
    calendar = Calendar()
    network = PhysicalNetwork(calendar, lambda a, b: (a, b), lambda a, b: PhysicalWire(points.latency_ms(a, b)))
    network.lose_host(3)
    times: list[float] = []
    network.send(0, 1, 10, lambda: times.append(calendar.now))
    network.send(0, 3, 10, lambda: times.append(-1.0))
    calendar.run()
    assert times == [pytest.approx(points.latency_ms(0, 1))]
    assert network.packets_lost == 1
