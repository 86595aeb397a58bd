from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tidings.overlay.topology.draw import to_dot, to_text
from tidings.overlay.topology.generate import barabasi_albert, line, transit_stub
from tidings.overlay.topology.graph import Graph


@given(st.integers(1, 20), st.integers(0, 2**32))
def test_every_node_has_its_line_and_every_link_its_place(size: int, seed: int) -> None:
    graph = barabasi_albert(size, Random(seed))
    lines = to_text(graph).splitlines()
    assert len(lines) == size
    extra = sum(len(line.split(" also ")[1].split(", ")) for line in lines if " also " in line)
    assert (size - 1) + extra / 2 == len(list(graph.edges()))


def test_parts_and_roots() -> None:
    graph = Graph()
    graph.add("a", "b", 2, 1_500_000)
    graph.add_node("alone")
    assert to_text(graph, root="b").splitlines() == ["b", "└── a (2 ms, 1.5 MB/s)", "alone"]
    assert len(to_text(line(3000)).splitlines()) == 3000


def test_dot_names_every_node_and_link() -> None:
    graph = transit_stub(Random(1), systems=2, nodes_each=3)
    text = to_dot(graph)
    assert text.count("--") == len(list(graph.edges()))
    assert '"4" [group=1];' in text
    odd = Graph()
    odd.add_node('say "hi"\\')
    assert '"say \\"hi\\"\\\\"' in to_dot(odd)
