"""Pictures of a topology: plain text for terminals, DOT for graphviz.

The text is the tree of fewest hops from a root, with the links outside the tree named behind each node:

>>> from tidings.overlay.topology.generate import square_diagonal
>>> print(to_text(square_diagonal(latency_ms=5)))
1
├── 2 (5 ms) also 3
├── 4 (5 ms) also 3
└── 3 (5 ms) also 2, 4
"""

from tidings.overlay.topology.graph import Edge, Graph, Node, components


def to_text(graph: Graph, root: Node | None = None) -> str:
    """One tree for each part of the graph; the part of `root` first."""
    starts = [root] if root is not None else []
    starts += [next(node for node in graph if node in part) for part in components(graph) if root not in part]
    return "\n".join(line for start in starts for line in _tree(graph, start))


def _tree(graph: Graph, root: Node) -> list[str]:
    children: dict[Node, list[Node]] = {root: []}
    parent: dict[Node, Node] = {}
    order = [root]
    for node in order:
        for other in graph.neighbours(node):
            if other not in children:
                children[other] = []
                children[node].append(other)
                parent[other] = node
                order.append(other)

    def label(node: Node) -> str:
        inside = {parent.get(node), *children[node]}
        others = [str(other) for other in graph.neighbours(node) if other not in inside]
        link = f" ({_measure(graph.neighbours(node)[parent[node]])})" if node in parent else ""
        return f"{node}{link}" + (f" also {', '.join(others)}" if others else "")

    lines: list[str] = []
    stack: list[tuple[Node, str, str]] = [(root, "", "")]
    while stack:  # not recursive: a line of a thousand brokers is a tree a thousand deep
        node, first, rest = stack.pop()
        lines.append(first + label(node))
        for position, child in enumerate(reversed(children[node])):
            last = position == 0
            stack.append((child, rest + ("└── " if last else "├── "), rest + ("    " if last else "│   ")))
    return lines


def to_dot(graph: Graph) -> str:
    lines = ['graph "topology" {', "  node [shape=circle];"]
    for node in graph:
        area = f" [group={graph.areas[node]}]" if node in graph.areas else ""
        lines.append(f"  {_quoted(node)}{area};")
    lines += [f"  {_quoted(e.a)} -- {_quoted(e.b)} [label={_quoted(_measure(e))}];" for e in graph.edges()]
    return "\n".join([*lines, "}"]) + "\n"


def _measure(edge: Edge) -> str:
    bandwidth = "" if edge.bandwidth_bytes_s is None else f", {edge.bandwidth_bytes_s / 1e6:g} MB/s"
    return f"{edge.latency_ms:g} ms{bandwidth}"


def _quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
