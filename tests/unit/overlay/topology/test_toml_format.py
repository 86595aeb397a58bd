import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.overlay.topology.graph import Graph
from tidings.overlay.topology.toml_format import NAME_LENGTH_MAX, from_dict, from_toml, to_dict, to_toml

names = st.text(min_size=1, max_size=NAME_LENGTH_MAX).filter(
    lambda text: text.isprintable() and text[0] != "." and not set(text) & set("/\\")
)
nodes = st.integers(-(2**63), 2**63 - 1) | names


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    graph = Graph()
    for node in draw(st.lists(nodes, max_size=6, unique=True)):
        graph.add_node(node)
        if draw(st.booleans()):
            graph.areas[node] = draw(st.integers(0, 3))
    graph.areas = {node: graph.areas.get(node, 0) for node in graph} if graph.areas else {}
    names = list(graph)
    for a in range(len(names)):
        for b in range(a):
            if draw(st.booleans()):
                latency = draw(st.floats(0, 1e9))
                graph.add(names[a], names[b], latency, draw(st.none() | st.floats(0.001, 1e12)))
    return graph


@given(graphs())
def test_toml_and_back(graph: Graph) -> None:
    assert from_toml(to_toml(graph)) == graph
    assert from_dict(to_dict(graph)) == graph


def test_defaults_for_all_links() -> None:
    graph = from_toml(
        "latency_ms = 5\nbandwidth_bytes_s = 1e6\nlinks = [{between = [1, 2]}, {between = [2, 3], latency_ms = 1}]"
    )
    assert [(e.latency_ms, e.bandwidth_bytes_s) for e in graph.edges()] == [(5.0, 1e6), (1.0, 1e6)]


@pytest.mark.parametrize(
    "text",
    [
        "links = 5",
        "links = [5]",
        "links = [{}]",
        "links = [{between = [1]}]",
        "links = [{between = [1, 2.5]}]",
        "links = [{between = [1, true]}]",
        "links = [{between = [1, 2], latency_ms = 'slow'}]",
        "links = [{between = [1, 2], speed = 3}]",
        "nodes = [1]\nareas = [1, 2]",
        "colour = 'red'",
        "links = [",
        "links = [{between = [1, '../../elsewhere']}]",
        "nodes = ['a/b']",
        "nodes = ['..']",
        "nodes = ['']",
        'nodes = ["a\\n"]',
    ],
)
def test_what_is_no_topology(text: str) -> None:
    with pytest.raises(UsageError, match="E_TOPOLOGY"):
        from_toml(text)


def test_what_is_no_graph() -> None:
    with pytest.raises(UsageError, match="E_GRAPH_LOOP"):
        from_toml("links = [{between = [1, 1]}]")
